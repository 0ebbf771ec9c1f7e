"""A throwaway key, and repositories that are signed with it."""

from __future__ import annotations

import hashlib
import subprocess
from datetime import datetime, timezone
from pathlib import Path

USER = "hwcheck tests <root@localhost>"


class SigningKey:
    """A context manager; ``armored`` and ``binary`` are files with the public half."""

    def __init__(self, folder: Path) -> None:
        """Keep it in a folder, whose path must be short: gpg-agent has its socket there."""
        self.folder = folder
        self.armored = folder / "key.asc"
        self.binary = folder / "key.gpg"

    def __enter__(self) -> SigningKey:
        self.folder.mkdir(mode=0o700)
        self._gpg("--passphrase", "", "--quick-generate-key", USER, "rsa2048", "sign", "never")
        self.armored.write_bytes(self._gpg("--armor", "--export"))
        self.binary.write_bytes(self._gpg("--export"))
        return self

    def __exit__(self, *error: object) -> None:
        command = ["gpgconf", "--homedir", str(self.folder), "--kill", "gpg-agent"]
        subprocess.run(command, check=True)

    def sign(self, repository: Path) -> None:
        """Write the InRelease of a repository that is one folder with its list, ``Packages``."""
        packages = (repository / "Packages").read_bytes()
        date = datetime.now(timezone.utc).strftime("%a, %d %b %Y %H:%M:%S UTC")
        digest = hashlib.sha256(packages).hexdigest()
        text = f"Date: {date}\nSHA256:\n {digest} {len(packages)} Packages\n"
        (repository / "InRelease").write_bytes(self._gpg("--clearsign", given=text))

    def _gpg(self, *words: str, given: str = "") -> bytes:
        command = ["gpg", "--homedir", str(self.folder), "--batch", "--quiet", *words]
        return subprocess.run(command, input=given.encode(), check=True, capture_output=True).stdout
