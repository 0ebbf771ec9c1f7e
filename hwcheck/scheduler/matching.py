"""Which node of the scheduler a host of the inventory is."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host
from hwcheck.scheduler.records import NodeState


def match(kind: str, hosts: Sequence[Host], nodes: Sequence[NodeState]) -> dict[str, NodeState]:
    """Return each host's node by the host's name; ``NodeState()`` where it has none.

    A host is the node of its name, short name or address, or of ``hwcheck_scheduler_node`` alone
    where the inventory has that. Raises UsageError for a host that may be two nodes, two hosts that
    are one, and a node that is named and not there.
    """
    index = defaultdict(list)
    for node in nodes:
        for name in _keys(node.names):
            index[name].append(node)
    by_host = {host.name: _node_of(kind, host, index) for host in hosts}
    host_of: dict[str, str] = {}
    for host_name, node in by_host.items():
        if node.node and host_of.setdefault(node.node, host_name) != host_name:
            both = f"{host_of[node.node]} and {host_name}"
            raise UsageError(f"{both} are both the node {node.node} of {kind}; {_REMEDY}")
    return by_host


_REMEDY = "say which it is with hwcheck_scheduler_node"


def _node_of(kind: str, host: Host, index: Mapping[str, Sequence[NodeState]]) -> NodeState:
    named = host.settings.scheduler_node
    if named:
        for node in index.get(named.lower(), ()):
            if node.node == named:
                return node
        raise UsageError(f"{host.name}: hwcheck_scheduler_node: {kind} has no node {named}")
    names = _telling((host.name, host.address))
    candidates = {
        node.node: node
        for key in _keys(names)
        for node in index.get(key, ())
        if any(_same(one, other) for one in names for other in _telling(node.names))
    }
    if len(candidates) > 1:
        listed = " or ".join(sorted(candidates)[:4])
        raise UsageError(f"{host.name} may be the node {listed} of {kind}; {_REMEDY}")
    return next(iter(candidates.values()), NodeState())


def _same(one: str, other: str) -> bool:
    """Whether two names are one: equal, or one is the short form of the other."""
    return one == other or one == _short(other) or _short(one) == other


def _keys(names: Iterable[str]) -> set[str]:
    return {key for name in _telling(names) for key in (name, _short(name))}


def _telling(names: Iterable[str]) -> set[str]:
    """Return the names in lower case, without those that every machine has."""
    return {name.lower() for name in names if name and not _is_loopback(name)}


def _short(name: str) -> str:
    return name if _address(name) else name.partition(".")[0]


def _is_loopback(name: str) -> bool:
    address = _address(name)
    return name.partition(".")[0].lower() == "localhost" or (
        address is not None and address.is_loopback
    )


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
