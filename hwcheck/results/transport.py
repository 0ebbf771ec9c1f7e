"""The way of the data between hosts, as NCCL names it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hwcheck.fold import fold
from hwcheck.results.multi_host import MultiHostRun, Transport

SOCKET = "NET/Socket"
ABOUT = ("gdrdma", "nvls", "channels", "algorithms", "network", "settings", "version")
"""Facts that are no count of connections."""


def alike(facts: Mapping[str, Mapping[str, Any]]) -> tuple[Transport, ...]:
    """Put hosts with equal facts together; those without any are left out."""
    groups: list[tuple[Mapping[str, Any], list[str]]] = []
    for host, of_host in facts.items():
        for of_group, hosts in groups:
            if of_group == of_host:
                hosts.append(host)
                break
        else:
            if of_host:
                groups.append((of_host, [host]))
    return tuple(Transport(tuple(hosts), of_group) for of_group, hosts in groups)


def over_sockets(run: MultiHostRun) -> tuple[str, ...]:
    """Return the hosts that sent to others over TCP sockets."""
    return tuple(host for each in run.transport if SOCKET in each.facts for host in each.hosts)


def socket_warnings(
    run: MultiHostRun, rdma_active: Mapping[str, int]
) -> tuple[dict[str, str], list[str]]:
    """Return a warning for each host on sockets that has RDMA, and what a reader must know.

    NCCL takes one network for all: where a host of the run has no active port, none is to blame.
    """
    slow = [host for host in over_sockets(run) if rdma_active.get(host)]
    without = [host for host in run.hosts if not rdma_active.get(host)]
    if not slow or not without:
        return {host: _warning(rdma_active[host]) for host in slow}, []
    note = f"NCCL used {SOCKET}: {fold(without)} has no active RDMA port, {fold(slow)} has"
    return {}, [note]


def _warning(ports: int) -> str:
    return (
        f"NCCL used {SOCKET} between hosts, though RDMA ports are active ({ports}): see why in the "
        "host's log (libibverbs, a network plugin, NCCL_IB_HCA, NCCL_IB_DISABLE, NCCL_NET)"
    )


def in_words(facts: Mapping[str, Any], most: Collection[str] = ABOUT) -> str:
    """Say what NCCL used, in one line."""
    ways = [name for name in facts if name not in most and name != "p2p_refused"]
    version = facts.get("version") or "of unknown version"
    parts = [f"NCCL {version}: {', '.join(ways) or 'no connection named'}"]
    parts += ["GPUDirect RDMA"] if facts.get("gdrdma") else []
    parts += [str(facts[name]) for name in ("network", "algorithms") if facts.get(name)]
    return "; ".join(parts)
