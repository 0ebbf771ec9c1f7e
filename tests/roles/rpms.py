"""The same small packages as RPMs, and a repository of them for dnf."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from tests.roles.packages import Package
from tests.roles.signing import USER, SigningKey

TOOLS = ("rpmbuild", "rpmsign", "createrepo_c", "modifyrepo_c", "dnf")
PREAMBLE = """\
Name: hwcheck-tests
Version: 1
Release: 1
Summary: of the tests
License: none
BuildArch: noarch
%description
Of the tests.
%install
cp -r {root}/. %{{buildroot}}/
"""
BUILD = {
    "_build_name_fmt": "%%{NAME}-%%{VERSION}-%%{RELEASE}.rpm",
    "__os_install_post": "%{nil}",
    "_dbpath": "%{_topdir}/none",
}
DEPENDS = re.compile(r"(\S+) \((\S+) ([^)]+)\)")


def write_rpm_repository(
    folder: Path,
    packages: Sequence[Package],
    key: SigningKey,
    streams: Mapping[str, Sequence[Package]],
) -> None:
    """Write a signed repository into a folder; ``streams`` are those of module nvidia-driver."""
    with tempfile.TemporaryDirectory() as name:
        place, out = Path(name), Path(name) / "out"
        for number, group in enumerate(_without_twins(packages)):
            _build(place / str(number), group, out)
        defined = {"_gpg_name": USER, "_gpg_path": str(key.folder), "__gpg": shutil.which("gpg")}
        options = [f"--define={name} {value}" for name, value in defined.items()]
        _run("rpmsign", *options, "--addsign", *map(str, out.glob("*.rpm")))
        _run("createrepo_c", "--quiet", str(out))
        if streams:
            modules = place / "modules.yaml"
            modules.write_text("".join(_stream(*each) for each in streams.items()))
            _run("modifyrepo_c", "--mdtype=modules", str(modules), str(out / "repodata"))
        shutil.copytree(out, folder)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _build(place: Path, packages: Sequence[Package], folder: Path) -> None:
    (place / "root").mkdir(parents=True)
    (place / "spec").write_text(_spec(place / "root", packages))
    defined = {"_topdir": str(place), "_rpmdir": str(folder), **BUILD}
    options = [f"--define={name} {value}" for name, value in defined.items()]
    _run("rpmbuild", "-bb", "--quiet", "--nodeps", *options, str(place / "spec"))


def _without_twins(packages: Sequence[Package]) -> list[list[Package]]:
    """Return groups in which no name stands twice: one spec has each name once."""
    groups: list[list[Package]] = []
    for package in packages:
        for group in groups:
            if package.name not in [other.name for other in group]:
                group.append(package)
                break
        else:
            groups.append([package])
    return groups


def _spec(root: Path, packages: Sequence[Package]) -> str:
    parts = [PREAMBLE.format(root=root)]
    for package in packages:
        version, _, release = package.version.partition("-")
        for path, text in package.contents.items():
            file = root / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755 if "/bin/" in path else 0o644)
        needs = "".join(
            f"Requires: {' '.join(need)}\n" for need in DEPENDS.findall(package.depends)
        )
        listed = "".join(f"{path}\n" for path in package.contents)
        parts.append(
            f"%package -n {package.name}\nVersion: {version}\nRelease: {release or 1}\n"
            f"Summary: stands in\nAutoReqProv: no\n{needs}"
            f"%description -n {package.name}\nStands in.\n"
            f"%files -n {package.name}\n{listed}"
        )
    return "".join(parts)


def _stream(name: str, packages: Sequence[Package]) -> str:
    rpms = [f"{p.name}-0:{p.version}.noarch" for p in packages]
    document = {
        "document": "modulemd",
        "version": 2,
        "data": {
            "name": "nvidia-driver",
            "stream": name,
            "version": 1,
            "context": "hwcheck",
            "arch": "x86_64",
            "summary": "stands in",
            "description": "stands in",
            "license": {"module": ["none"]},
            "artifacts": {"rpms": rpms},
        },
    }
    return yaml.safe_dump(document, explicit_start=True, explicit_end=True)
