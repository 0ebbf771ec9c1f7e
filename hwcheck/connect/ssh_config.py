"""The ssh configuration files, with ``Include`` followed: paramiko's parser takes it for a setting.

Semantics: ssh_config(5), Include.
"""

from __future__ import annotations

import glob
import io
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import fabric
import paramiko

from hwcheck.errors import UsageError

ALONE = {"all", "canonical", "final"}
CRITERIA = ALONE | {"exec", "host", "originalhost", "user", "localuser"}
"""What may follow ``Match``. paramiko takes any other word for true: for every host."""

USER_FILE, USER_FOLDER = "~/.ssh/config", "~/.ssh"
SYSTEM_FILE, SYSTEM_FOLDER = "/etc/ssh/ssh_config", "/etc/ssh"
DEPTH = 16  # OpenSSH, readconf.c: READCONF_MAX_DEPTH
SETTING = re.compile(r"(\w+)(?:\s*=\s*|\s+)(.+)")

Criteria = tuple[str, ...]
"""The words after ``Match`` that a line stands under; empty: it holds for every host."""


class _Remembered(paramiko.SSHConfig):
    """One that looks a host up once: Fabric asks again for each connection.

    Raises UsageError for a host that the configuration leads nowhere.
    """

    def __init__(self) -> None:
        super().__init__()
        self._answers: dict[str, paramiko.SSHConfigDict] = {}

    def lookup(self, hostname: str) -> paramiko.SSHConfigDict:
        if hostname not in self._answers:
            try:
                self._answers[hostname] = super().lookup(hostname)
            except paramiko.ssh_exception.CouldNotCanonicalize:
                raise UsageError(
                    f"ssh configuration: {hostname} is in none of its CanonicalDomains, and "
                    "CanonicalizeFallbackLocal is not yes"
                ) from None
            except KeyError as error:
                raise UsageError(f"ssh configuration: {error.args[0]} is not set") from None
            except (ValueError, paramiko.SSHException) as error:
                raise UsageError(f"ssh configuration: {' '.join(str(error).split())}") from None
        return paramiko.SSHConfigDict(self._answers[hostname])


def load(path: Path | None = None) -> fabric.Config:
    """Return Fabric's configuration with the user's and the system's ssh files in it.

    ``path`` takes the place of both. Raises UsageError, one line, for a file that cannot be read
    or understood.
    """
    # An empty object: otherwise Fabric reads the files by itself, without what they include.
    config = fabric.Config(ssh_config=_Remembered())
    only = path or config.ssh_config_path
    if only:
        _parse(config.base_ssh_config, Path(only).expanduser(), USER_FOLDER)
    elif config.load_ssh_configs:
        for name, folder in ((USER_FILE, USER_FOLDER), (SYSTEM_FILE, SYSTEM_FOLDER)):
            file = Path(name).expanduser()
            if os.path.isfile(file):  # a folder that may not be entered has none, as with ssh
                _parse(config.base_ssh_config, file, folder)
    return config


def _parse(config: paramiko.SSHConfig, path: Path, folder: str) -> None:
    text = "\n".join(_expand(path, folder, (), 0))
    try:
        config.parse(io.StringIO(text))
    except (ValueError, paramiko.SSHException) as error:
        raise UsageError(f"ssh configuration: {path}: {' '.join(str(error).split())}") from None


def _expand(path: Path, folder: str, outer: Criteria, depth: int) -> Iterator[str]:
    """Yield the lines of a file that is included under ``outer``, and of all that it includes."""
    if depth > DEPTH:
        raise UsageError(f"ssh configuration: {path}: Include goes more than {DEPTH} files deep")
    block = outer
    for number, line in enumerate(map(str.strip, _lines(path)), 1):
        match = SETTING.match(line)
        key = match[1].lower() if match else ""
        where = f"{path}:{number}"
        if match and key in ("host", "match"):
            block = outer + _criteria(key, match[2], where)
            yield _header(block) if outer or key == "match" else line
        elif match and key == "include":
            for file in _included(match[2], folder, where):
                yield from _expand(file, folder, block, depth + 1)
                # The blocks of the included file end with it: what follows stands here.
                yield _header(block)
        elif match or not line or line.startswith("#"):
            yield line
        else:
            said = f"no setting, which has a value: {line[:80]}"
            raise UsageError(f"ssh configuration: {where}: {said}")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UsageError(f"ssh configuration: cannot read {path}: {error.strerror}") from None


def _criteria(key: str, value: str, where: str) -> Criteria:
    words = _words(value, where)
    if key == "host":
        return ("originalhost", ",".join(words))
    return tuple(_known(words, where))


def _known(words: list[str], where: str) -> Iterator[str]:
    """Yield what follows ``Match`` as paramiko knows it, without ``all``.

    It refuses that beside another criterion, to which it adds nothing: ``Match final all`` stands
    in what Fedora and its like bring.
    """
    rest = iter(words)
    for word in rest:
        name = word.lstrip("!").lower()
        if name not in CRITERIA:
            raise UsageError(
                f"ssh configuration: {where}: Match {word} is not supported; name a file without "
                "it as ssh_config_path in ~/.fabric.yaml"
            )
        if name != "all":
            yield word.lower()
        if name not in ALONE:
            value = next(rest, None)
            if value is None:
                problem = "what it is held against is missing"
                raise UsageError(f"ssh configuration: {where}: Match {word}: {problem}")
            yield value


def _header(criteria: Criteria) -> str:
    return "Match " + shlex.join(criteria) if criteria else "Host *"


def _included(value: str, folder: str, where: str) -> Iterator[Path]:
    for word in _words(value, where):
        if "%" in word or "$" in word:
            problem = "names tokens or variables, which are not supported; write the path"
            raise UsageError(f"ssh configuration: {where}: Include {word}: {problem}")
        pattern = os.path.expanduser(os.path.join(folder, os.path.expanduser(word)))
        # As with ssh, a pattern that matches nothing includes nothing.
        yield from (Path(name) for name in sorted(glob.glob(pattern)) if os.path.isfile(name))


def _words(value: str, where: str) -> list[str]:
    try:
        return shlex.split(value, comments=True)
    except ValueError as error:
        raise UsageError(f"ssh configuration: {where}: {error}") from None
