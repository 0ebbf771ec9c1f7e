"""Why settings of the network are left unset, one line each, from what hosts told. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hwcheck.advise.alike import library_of, readings
from hwcheck.advise.evidence import named
from hwcheck.advise.network import (
    CHOOSES_GIDS,
    nearest_ports,
    rates_of,
    said_of,
    sockets_of,
    version_of,
)
from hwcheck.advise.records import Setting
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import line, number

MOST_NAMED = 8


def left_unset(records: Sequence[HostRecord], settings: Sequence[Setting]) -> tuple[str, ...]:
    """Return why NCCL_IB_HCA and its like are left unset; nothing of hosts that did not answer.

    ``settings`` are those of the network that are set.
    """
    own = [record for record in records if record.report is not None]
    names = {setting.name for setting in settings}
    reasons = {
        "NCCL_IB_HCA": _ports,
        "NCCL_IB_GID_INDEX": _gid_index,
        "NCCL_SOCKET_IFNAME": _interfaces,
        "NCCL_CROSS_NIC": _rails,
    }
    return tuple(
        f"{name} is left unset: {line(why(own), 600)}"
        for name, why in reasons.items()
        if own and name not in names
    )


def _ports(records: Sequence[HostRecord]) -> str:
    if not any(map(rates_of, records)):
        return "no host told of an active RDMA port (checks infiniband_ports and topology)"
    far = [(record, _far_ports(record)) for record in records]
    if any(ports for _, ports in far):
        _, ports = next(each for each in far if each[1])
        hosts = named(record.host for record, own in far if own)
        return (
            f"on {hosts} {', '.join(ports[:MOST_NAMED])} is near no GPU, as ports for storage are, "
            "and not slower than those that are; NCCL takes the port nearest to a GPU by itself, "
            "and nothing here shows that it took another"
        )
    silent = [record.host for record in records if rates_of(record) and not _said_ports(record)]
    if silent:
        return f"NCCL did not say which ports it uses on {named(silent)} (its leg net)"
    used = [record for record in records if rates_of(record)]
    if any(len(set(rates_of(record).values())) > 1 for record in used):
        return (
            "NCCL does not use ports that are slower and farther from the GPUs than others, or "
            "the hosts want different ports, or how near ports are is not known (check topology)"
        )
    return "all ports have one rate, and NCCL takes the nearest to each GPU by itself"


def _far_ports(record: HostRecord) -> list[str]:
    """Return ports that no GPU has near, where every GPU has another one near that is no faster."""
    rates, near = rates_of(record), nearest_ports(record)
    if not near or not all(near.values()):
        return []
    used = {port for ports in near.values() for port in ports}
    most = max((rates[port] for port in used if port in rates), default=0.0)
    return [port for port in rates if port not in used and rates[port] >= most]


def _said_ports(record: HostRecord) -> bool:
    return any(text.startswith("IB") for text in said_of(record))


def _gid_index(records: Sequence[HostRecord]) -> str:
    tables = [readings(record, "roce_gids", "routable_gids") for record in records]
    if not any(tables):
        return "no host told of an active RoCE port (check roce_gids), and InfiniBand needs none"
    without = [f"{name}" for table in tables for name, gids in table.items() if not gids]
    if without:
        ports = ", ".join(dict.fromkeys(line(name, 40) for name in without))
        return f"{line(ports, 200)} has no RoCE v2 address that NCCL takes and that can be routed"
    versions = [version_of(library_of(record)) for record in records]
    if all(version and version[:2] >= CHOOSES_GIDS for version in versions):
        return "from 2.21 on NCCL finds the RoCE v2 address by itself"
    if not all(versions):
        return "which NCCL runs is not known on every host, and from 2.21 on it needs none"
    found = {
        index for record in records for index in readings(record, "roce_gids", "gid_index").values()
    }
    if len(found) > 1:
        each = ", ".join(str(index) for index in sorted(found, key=str)[:MOST_NAMED])
        return f"the address is at another index from port to port ({each}), and one has to fit all"
    return "the address is at index 0, which NCCL takes, or not every host has such a port"


def _interfaces(records: Sequence[HostRecord]) -> str:
    said = {name for record in records for text in said_of(record) for name in sockets_of(text)}
    if not said:
        return (
            "NCCL did not name an interface (its leg net went by RDMA, or was not measured), so "
            "none is seen to be wrong"
        )
    names = ", ".join(sorted(said)[:MOST_NAMED])
    return (
        f"NCCL goes by {line(names, 200)}, and no interface among them that leads nowhere can be "
        "left out on every host alike"
    )


def _rails(records: Sequence[HostRecord]) -> str:
    ports = [len(rates_of(record)) for record in records]
    if not any(ports):
        return "no host told of an active RDMA port, so there are no rails"
    if max(ports) == 1:
        return "no host has more than one active RDMA port: there is nothing to cross"
    layout = "".join(_layout(records))
    return (
        f"{layout}whether the rails of the fabric meet is in its switches, and nothing that was "
        "measured here; NCCL's own 2 tries both"
    )


def _layout(records: Sequence[HostRecord]) -> Iterator[str]:
    """Say where every GPU of every host has ports of its own: then there are rails to ask about."""
    for record in records:
        near = [tuple(ports) for ports in nearest_ports(record).values()]
        if not near or not all(near) or len(set(near)) < len(near):
            return
    rates = sorted({rate for record in records for rate in rates_of(record).values()})
    speed = ", ".join(number(rate) for rate in rates[:3])
    yield f"each GPU has a port of its own ({speed} Gb/s), as on rails; "
