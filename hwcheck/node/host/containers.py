"""What container runtimes give to every container unless it asks for something else."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple

from hwcheck.contract.facts import ContainerSettings
from hwcheck.node.host.tree import Tree

DOCKER = "etc/docker/daemon.json"
TOML = {
    "containerd": ("etc/containerd/config.toml", "etc/containerd/conf.d"),
    "podman": ("etc/containers/containers.conf", "etc/containers/containers.conf.d"),
}
"""The file, and the folder whose files come after it."""

ENTRY = re.compile(r"[ \t]*([\w.-]{1,80})[ \t]*=[ \t]*(.{0,2000}?)[ \t]*(?:#.*)?")
TABLE = re.compile(r"[ \t]*\[+([^\]\n]{1,300})\]+[ \t]*(?:#.*)?")
"""One line of TOML, for which Python 3.8 has no reader; what takes several lines is passed over."""
NVIDIA = re.compile(r"runtimes\.\"?nvidia\"?(?:\.options)?$")
SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,3})?) ?([kmgt]?)(?:i?b)?\Z", re.IGNORECASE)
UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
ULIMIT = re.compile(r"memlock=(-?\d{1,19})(?::(-?\d{1,19}))?")
TEXT_LIMIT = 200


class ContainerReader(Tree):
    """The part of ``node.NodeHost`` about container runtimes. No container is started."""

    def container_settings(self, runtime: str) -> Optional[ContainerSettings]:
        """Say what docker, containerd or podman gives to every container; None without its file."""
        if runtime == "docker":
            text = self._text(DOCKER)
            return None if text is None else _docker(text)
        if runtime not in TOML:
            return None
        path, folder = TOML[runtime]
        names = [name for name in self._list(folder) if name.endswith((".toml", ".conf"))]
        texts = [self._text(each) for each in (path, *("%s/%s" % (folder, n) for n in names))]
        contents = [text for text in texts if text is not None]
        return _toml("/" + path, "\n[]\n".join(contents)) if contents else None


def _docker(text: str) -> ContainerSettings:
    """Read dockerd's file (dockerd(8), Daemon configuration file)."""
    file = "/" + DOCKER
    try:
        settings = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return ContainerSettings(file, broken=True)
    if not isinstance(settings, dict):
        return ContainerSettings(file, broken=True)
    runtimes = _object(settings, "runtimes")
    limits = _object(_object(settings, "default-ulimits"), "memlock")
    soft = limits.get("Soft", limits.get("Hard"))
    default = str(settings.get("default-runtime", ""))[:TEXT_LIMIT]
    return ContainerSettings(
        file,
        default_runtime=default,
        nvidia_program=str(_object(runtimes, "nvidia").get("path", ""))[:TEXT_LIMIT],
        memlock_bytes=soft if type(soft) is int else None,
        shm_bytes=_bytes(str(settings.get("default-shm-size", ""))),
    )


def _object(value: Mapping[str, Any], key: str) -> Dict[str, Any]:
    member = value.get(key)
    return member if isinstance(member, dict) else {}


def _toml(file: str, text: str) -> ContainerSettings:
    """Read the lines of containerd's file, or of containers.conf(5)."""
    default, program = "", ""
    memlock: Optional[int] = None
    shm: Optional[int] = None
    for table, key, value in _entries(text):
        plain = value.strip("\"'")[:TEXT_LIMIT]
        if key in ("default_runtime_name", "runtime") and table.endswith(("containerd", "engine")):
            default = plain
        elif key == "BinaryName" and NVIDIA.search(table):
            program = plain
        elif (table, key) == ("engine.runtimes", "nvidia"):
            program = (re.findall(r"\"([^\"]{1,200})\"", value) or [""])[0]
        elif (table, key) == ("containers", "default_ulimits"):
            limit = ULIMIT.search(value)
            memlock = int(limit.group(1)) if limit else memlock
        elif (table, key) == ("containers", "shm_size"):
            shm = _bytes(plain)
    return ContainerSettings(file, default, program, memlock, shm)


def _entries(text: str) -> Iterator[Tuple[str, str, str]]:
    table = ""
    for line in text.split("\n"):
        title, entry = TABLE.fullmatch(line), ENTRY.fullmatch(line)
        if title:
            table = title.group(1).strip()
        elif entry:
            yield table, entry.group(1), entry.group(2)


def _bytes(text: str) -> Optional[int]:
    """Return ``64M`` as bytes; None for what is no size."""
    match = SIZE.match(text.strip())
    if not match:
        return None
    return int(float(match.group(1)) * (1 << UNITS[match.group(2).lower()]))
