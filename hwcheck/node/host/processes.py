"""Processes of a node, as the kernel shows them."""

from __future__ import annotations

from typing import Iterator, Tuple

from hwcheck.node.host.tree import Tree

CONTAINER_CGROUPS = ("docker", "kubepods", "containerd", "libpod", "lxc")


class ProcessReader(Tree):
    """Reads ``/proc`` by process."""

    def _is_contained(self, pid: str) -> bool:
        """Whether a process is in a container: older cgroups name the runtime."""
        return any(name in self._read("proc/%s/cgroup" % pid) for name in CONTAINER_CGROUPS)

    def _shows_others(self) -> bool:
        """Whether processes of others can be seen: the first one is root's (proc(5), hidepid)."""
        return bool(self._read("proc/1/comm").strip())

    def _processes(self) -> Iterator[Tuple[str, str]]:
        """Yield id and name of each process; the kernel keeps 15 characters of the name."""
        for pid in self._list("proc"):
            if pid.isdigit():
                yield pid, self._read("proc/%s/comm" % pid).strip()
