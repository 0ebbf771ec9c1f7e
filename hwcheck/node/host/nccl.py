"""Which NCCL settings a job on this node would find, and where each comes from."""

from __future__ import annotations

import os
import pwd
import re
from typing import Dict, Iterator, List, Mapping, Optional, Tuple

from hwcheck.contract.facts import NcclSetting
from hwcheck.node.host.tree import Tree

PREFIX = "NCCL_"
PROCESS = "process environment"
VALUE_LIMIT = 1023
"""NCCL cuts the values of its configuration files here."""

SHELL = re.compile(r"""\b(NCCL_\w+)=("[^"\n]*"|'[^'\n]*'|[^\s;#&]*)""")
"""An assignment in a shell script or in pam_env's file."""

Pair = Tuple[str, str]


class NcclReader(Tree):
    """The NCCL part of ``node.NodeHost``.

    ``environment`` and ``home`` are the process's own where they are not given.
    """

    def __init__(
        self,
        root: str = "/",
        environment: Optional[Mapping[str, str]] = None,
        home: Optional[str] = None,
    ) -> None:
        super().__init__(root)
        self._environment = os.environ if environment is None else environment
        self._home = _home_of_user() if home is None else home

    def home(self) -> str:
        """Home folder of the user that this runs as."""
        return self._home

    def nccl_settings(self) -> List[NcclSetting]:
        """NCCL_* variables that a job started by this login would find."""
        # The process environment wins, then what a login adds to it (profile.d after
        # /etc/environment), then the file that NCCL_CONF_FILE names or else ~/.nccl.conf, then
        # /etc/nccl.conf: NCCL sets from a file only what is not set yet.
        settings: Dict[str, NcclSetting] = {}
        for origin, pairs in self._login():
            for name, value in pairs:
                # PAM puts /etc/environment into the process: the file is where it comes from.
                if settings.get(name, (name, value, PROCESS)) == (name, value, PROCESS):
                    settings[name] = NcclSetting(name, value, origin)
        named = settings.get("NCCL_CONF_FILE")
        personal = named.value if named and named.value else self._home + "/.nccl.conf"
        for path in (personal, "/etc/nccl.conf"):
            for name, value in _conf(self._read(path) if path.startswith("/") else ""):
                settings.setdefault(name, NcclSetting(name, value, path))
        return [settings[name] for name in sorted(settings)]

    def _login(self) -> Iterator[Tuple[str, List[Pair]]]:
        pairs = [pair for pair in self._environment.items() if pair[0].startswith(PREFIX)]
        yield PROCESS, pairs
        scripts = [name for name in self._list("etc/profile.d") if name.endswith(".sh")]
        for name in reversed(scripts):  # a later script overwrites an earlier one
            path = "/etc/profile.d/" + name
            yield path, _shell(self._read(path))
        yield "/etc/environment", _shell(self._read("etc/environment"))


def _home_of_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return os.environ.get("HOME", "")


def _conf(text: str) -> Iterator[Pair]:
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if equals and name.startswith(PREFIX):
            yield name, value.rstrip("\r")[:VALUE_LIMIT]


def _shell(text: str) -> List[Pair]:
    pairs: Dict[str, str] = {}
    for line in text.split("\n"):
        if not line.lstrip().startswith("#"):
            pairs.update(SHELL.findall(line))
    return [(name, value.strip("\"'")) for name, value in pairs.items()]
