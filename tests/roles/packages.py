"""Small packages with names, versions and dependencies of real ones, and repositories of them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.roles.signing import SigningKey

UNIT = """\
[Service]
ExecStart=/bin/sleep infinity
[Install]
WantedBy=multi-user.target
"""


READS = "[Service]\nExecStartPre=cp {0} /run/hwlab/\n"


@dataclass(frozen=True)
class Package:
    """A package: ``files`` by path; ``service`` is a unit that it brings and does not start.

    ``reads`` is what the service reads when it starts: it then lies in /run/hwlab. ``postinst`` is
    run by dpkg after the unpacking, with sh (not by rpm).
    """

    name: str
    version: str
    depends: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    service: str = ""
    reads: str = ""
    postinst: str = ""

    @property
    def contents(self) -> dict[str, str]:
        """The text of each file by its path."""
        if not self.service:
            return dict(self.files)
        unit = UNIT + (READS.format(self.reads) if self.reads else "")
        return {**self.files, f"/usr/lib/systemd/system/{self.service}.service": unit}

    def build(self, folder: Path) -> None:
        """Write the .deb into a folder."""
        with tempfile.TemporaryDirectory() as place:
            root = Path(place) / "root"
            fields = {
                "Package": self.name,
                "Version": self.version,
                "Architecture": "all",
                "Maintainer": "hwcheck tests <root@localhost>",
                "Depends": self.depends,
                "Description": "stands in for the package of this name",
            }
            control = "".join(f"{key}: {value}\n" for key, value in fields.items() if value)
            files = {"/DEBIAN/control": control, **self.contents}
            if self.postinst:
                files["/DEBIAN/postinst"] = f"#!/bin/sh\n{self.postinst}"
            for path, text in files.items():
                file = root / path.lstrip("/")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
                file.chmod(0o755 if "/bin/" in path or path.endswith("postinst") else 0o644)
            root.chmod(0o755)
            command = ["dpkg-deb", "--build", "-Znone", "--root-owner-group", str(root)]
            subprocess.run([*command, str(folder)], check=True, stdout=subprocess.DEVNULL)


CHRONYC = """\
#!/usr/bin/python3
# Answers for a chronyd that has read its file, and follows the first of its servers.
import sys
lines = [line.split() for line in open("/run/hwlab/chrony.conf")]
names = [words[1] for words in lines if words and words[0] in ("server", "pool")]
silent = not names or names[0].startswith("silent")
if "sources" in sys.argv:
    for name in names:
        print("^," + ("?" if silent else "*") + "," + name + ",2,6,377,12,0.00001,0.00001,0.0002")
elif "tracking" in sys.argv:
    print("0A000001,10.0.0.1,3," + "0," * 9 + ("Not synchronised" if silent else "Normal"))
else:
    sys.exit(silent)
"""


def chrony(service: str = "chrony", file: str = "/etc/chrony/chrony.conf") -> Package:
    """Return chrony, as a family has it."""
    files = {"/usr/bin/chronyc": CHRONYC, file: "pool pool.example iburst\n"}
    return Package("chrony", "4.3-2", files=files, service=service, reads=file)


def write_repository(
    folder: Path, packages: Sequence[Package], key: SigningKey | None = None
) -> None:
    """Write a repository of the packages, and of nothing else, into a folder; sign it."""
    with tempfile.TemporaryDirectory() as place:
        for package in packages:
            package.build(Path(place))
        command = ["dpkg-scanpackages", "--multiversion", "."]
        listed = subprocess.run(command, cwd=place, check=True, capture_output=True)
        (Path(place) / "Packages").write_bytes(listed.stdout)
        if key is not None:
            key.sign(Path(place))
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(place, folder)
    folder.chmod(0o755)
