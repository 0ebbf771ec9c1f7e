"""NCCL settings of the network, from the ports that hosts have and what NCCL said it uses. Pure.

NCCL finds interfaces, ports, GIDs and rails by itself, so each setting here needs both: that it
chose one which cannot be meant, by its own words, and which one is. NCCL_CROSS_NIC is never set:
whether the rails of a fabric meet is nothing that a run measures, and 2 lets NCCL try. What is not
set has its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hwcheck.advise.nccl_evidence import host_names
from hwcheck.advise.platforms import driver_of, library_of
from hwcheck.advise.records import Setting
from hwcheck.checks.gpu_count import SEEN_BY_NVML, gpu_count
from hwcheck.checks.gpu_lost import GPU_ANSWER, gpu_lost
from hwcheck.checks.infiniband_ports import LINKED_STATE, PORT_RATE_GBPS, infiniband_ports
from hwcheck.checks.roce_gids import GID_INDEX, ROUTABLE_GIDS, roce_gids
from hwcheck.checks.topology import NIC_PATH, topology
from hwcheck.judge.host_case import values_of
from hwcheck.judge.interconnect import is_gpu
from hwcheck.judge.legs import legs_of
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import line, number

ACTIVE = "ACTIVE"
VIRTUAL = ("br-", "cali", "cilium", "cni", "docker", "flannel", "tun", "tap", "veth", "virbr", "wg")
"""Begins of the names of interfaces that lead to no other host: bridges and tunnels of containers,
virtual machines and private networks. NCCL itself passes over ``lo`` and ``docker`` only
(NVIDIA/nccl, src/misc/socket.cc)."""
MOST_NAMED = 8
NEARNESS = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Ways from a GPU to a device as nvidia-smi names them, the nearest first."""
ALWAYS_LEFT_OUT = ("lo", "docker")
CHOOSES_GIDS = (2, 21)
"""From this NCCL on a GID is found by address family and RoCE version (NCCL User Guide,
NCCL_IB_GID_INDEX)."""
MANY_HOSTS = 64
"""From more hosts on audits ask for several queue pairs for each connection (ClusterMAX), which
give multi-level fabrics entropy to route by (NCCL User Guide, NCCL_IB_QPS_PER_CONNECTION)."""
RETEST = "Test again after a change of ports, cables, names of interfaces, or of NCCL."

_PORT = re.compile(r"[A-Za-z0-9_]{1,40}:\d{1,3}(?=/)")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,15}\Z")


def network_settings(records: Iterable[HostRecord]) -> tuple[Setting, ...]:
    """Return what all of these hosts want alike; one that differs leaves a setting out."""
    answered = [record for record in records if record.report is not None]
    settings = (_ports(answered), _interfaces(answered), _gid_index(answered))
    return tuple(setting for setting in settings if setting is not None)


def version_of(library: str) -> tuple[int, ...]:
    """Return ``(2, 27, 5)`` of ``NCCL 2.27.5``, nothing where it names no version."""
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", library)
    return tuple(int(part) for part in match.groups() if part) if match else ()


def _ports(records: Sequence[HostRecord]) -> Setting | None:
    """Name the fastest ports alone where NCCL said that it uses slower ones too.

    Not where a slower one is nearer to a GPU, or the slower ones carry more together: the fastest
    may be there for storage, and the others meant.
    """
    wanted: dict[str, list[HostRecord]] = {}
    slower: set[str] = set()
    for record in records:
        rates = port_rates(record)
        used = {port for text in networks_of(record) for port in _PORT.findall(text)}
        fastest = max(rates.values(), default=0.0)
        fast = [port for port in sorted(rates, key=_by_number) if rates[port] == fastest]
        slow = [port for port in used if port in rates and rates[port] < fastest]
        sure = bool(slow) and _carry_more(rates, fast, slow) and _as_near(record, fast, slow)
        wanted.setdefault(",".join(fast) if sure else "", []).append(record)
        slower |= {f"{port} ({number(rates[port])} Gb/s)" for port in slow}
    value = _agreed(wanted)
    if not value:
        return None
    reason = (
        f"NCCL uses {', '.join(sorted(slower)[:8])} beside ports that are faster. The sign = "
        "before the names takes them exactly: without it mlx5_1 is mlx5_10 too."
    )
    return _setting("NCCL_IB_HCA", "=" + value, reason, records)


def _carry_more(rates: Mapping[str, float], fast: Sequence[str], slow: Sequence[str]) -> bool:
    return sum(rates[port] for port in fast) > sum(rates[port] for port in slow)


def _as_near(record: HostRecord, fast: Sequence[str], slow: Sequence[str]) -> bool:
    """Whether every GPU is known to have a fast port as near as its nearest slow one."""
    ways = _ways(record)
    return bool(ways) and all(_nearest(gpu, fast) <= _nearest(gpu, slow) for gpu in ways.values())


def _nearest(ways: Mapping[str, str], ports: Sequence[str]) -> int:
    """Return the place in ``NEARNESS`` of the nearest port; beyond it where none is known."""
    to_ports = (ways.get(port.partition(":")[0], "") for port in ports)
    places = (NEARNESS.index(way) for way in to_ports if way in NEARNESS)
    return min(places, default=len(NEARNESS))


def _ways(record: HostRecord) -> dict[str, dict[str, str]]:
    """Return by GPU the way to each RDMA device, of ``nic_path``'s subjects ``gpu0-mlx5_0``."""
    by_gpu: dict[str, dict[str, str]] = {}
    for subject, way in values_of(record, topology, NIC_PATH).items():
        gpu, _, device = subject.partition("-")
        if is_gpu(gpu) and device:
            by_gpu.setdefault(gpu, {})[device] = str(way)
    return by_gpu


def nearest_ports(record: HostRecord) -> dict[str, list[str]]:
    """Return by GPU its nearest active ports, of those at PIX or PXB; empty where not known."""
    ports = list(port_rates(record))
    nearest: dict[str, list[str]] = {}
    for gpu, ways in _ways(record).items():
        place = _nearest(ways, ports)
        near = [port for port in ports if _nearest(ways, [port]) == place]
        nearest[gpu] = sorted(near, key=_by_number) if place < NEARNESS.index("PHB") else []
    return nearest


def _interfaces(records: Sequence[HostRecord]) -> Setting | None:
    """Leave interfaces out that lead nowhere, where NCCL said that it uses them."""
    wanted: dict[str, list[HostRecord]] = {}
    for record in records:
        names = {name for text in networks_of(record) for name in interfaces_of(text)}
        virtual = sorted(name for name in names if name.startswith(VIRTUAL))
        # Where nothing else is left, leaving them out would leave NCCL without any.
        usable = virtual and len(virtual) < len(names)
        left_out = ",".join(dict.fromkeys((*ALWAYS_LEFT_OUT, *virtual))) if usable else ""
        wanted.setdefault(left_out, []).append(record)
    value = _agreed(wanted)
    if not value:
        return None
    reason = (
        f"NCCL takes {value.split(',', 2)[-1]} for a way to other hosts, which it is not. The "
        "sign ^ leaves out what begins with these names."
    )
    return _setting("NCCL_SOCKET_IFNAME", "^" + value, reason, records)


def _gid_index(records: Sequence[HostRecord]) -> Setting | None:
    """Give an NCCL that takes GID 0 unless told otherwise the routable GID that is not it."""
    wanted: dict[str, list[HostRecord]] = {}
    for record in records:
        version = version_of(library_of(record))
        index = set(values_of(record, roce_gids, GID_INDEX).values())
        old = bool(version) and version[:2] < CHOOSES_GIDS
        # A port without one, or two ports that differ, cannot have one number.
        whole = len(values_of(record, roce_gids, ROUTABLE_GIDS)) == len(
            values_of(record, roce_gids, GID_INDEX)
        )
        value = str(*index) if old and whole and len(index) == 1 else ""
        wanted.setdefault("" if value == "0" else value, []).append(record)
    value = _agreed(wanted)
    if not value.isdigit():
        return None
    reason = (
        f"Every RoCE port has its RoCE v2 address at index {value}, and NCCL before 2.21 takes "
        "index 0."
    )
    reading = f"{roce_gids.id}: {GID_INDEX.name} {value} of every active port"
    return _setting("NCCL_IB_GID_INDEX", value, reason, records, reading)


def _agreed(wanted: dict[str, list[HostRecord]]) -> str:
    """Return what every host wants; empty where one wants another value or none."""
    return next(iter(wanted)) if len(wanted) == 1 else ""


def _setting(
    name: str, value: str, reason: str, records: Sequence[HostRecord], reading: str = ""
) -> Setting:
    networks = dict.fromkeys(line(text, 120) for record in records for text in networks_of(record))
    hosts = host_names(record.host for record in records)
    ways = [f"the leg net goes by {text}" for text in list(networks)[:4]]
    evidence = tuple(f"{hosts}: {text}" for text in ([reading] if reading else ways))
    libraries = sorted({library_of(record) for record in records} - {""})
    drivers = sorted({driver_of(record) for record in records} - {""})
    with_ = ", ".join((*libraries[:4], *(f"driver {driver}" for driver in drivers[:4])))
    return Setting(name, value, reason, evidence, with_, RETEST)


def networks_of(record: HostRecord) -> list[str]:
    """Return what NCCL said of its network: ``IB mlx5_0:1/IB mlx5_1:1/IB``, ``Socket eth0``."""
    return [
        str(leg.transport["network"])
        for leg in legs_of(record)
        if leg.backend == "nccl" and leg.leg == "net" and leg.transport.get("network")
    ]


def interfaces_of(text: str) -> list[str]:
    """Return the interfaces of ``Socket eth0 eth1``; nothing of another network."""
    kind, *names = text.split()
    return [name for name in names if _NAME.match(name)] if kind == "Socket" else []


def port_rates(record: HostRecord) -> dict[str, float]:
    """Return the rate of each active port (1e9 bit/s), by the name that NCCL gives it."""
    states = values_of(record, infiniband_ports, LINKED_STATE)
    rates = values_of(record, infiniband_ports, PORT_RATE_GBPS)
    return {
        port_name(subject): float(rate)
        for subject, rate in rates.items()
        if states.get(subject) == ACTIVE and isinstance(rate, (int, float))
    }


def port_name(subject: str) -> str:
    """Return NCCL's name of a port, ``mlx5_0:1``, of the subject ``port mlx5_0:1``."""
    return subject.removeprefix("port ").replace("/", ":")


def _by_number(port: str) -> list[int | str]:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", port)]


def left_unset(records: Sequence[HostRecord], settings: Sequence[Setting]) -> tuple[str, ...]:
    """Return why NCCL_IB_HCA and its like are left unset; nothing of hosts that did not answer.

    ``settings`` are those of the network that are set.
    """
    answered = [record for record in records if record.report is not None]
    names = {setting.name for setting in settings}
    reasons = {
        "NCCL_IB_HCA": _why_ports,
        "NCCL_IB_GID_INDEX": _why_gid_index,
        "NCCL_SOCKET_IFNAME": _why_interfaces,
        "NCCL_CROSS_NIC": _why_rails,
    }
    if len(answered) > MANY_HOSTS and any(map(port_rates, answered)):
        reasons["NCCL_IB_QPS_PER_CONNECTION"] = _why_queue_pairs
    return tuple(
        f"{name} is left unset: {line(why(answered), 600)}"
        for name, why in reasons.items()
        if answered and name not in names
    )


def _why_ports(records: Sequence[HostRecord]) -> str:
    if not any(map(port_rates, records)):
        return "no host told of an active RDMA port (checks infiniband_ports and topology)"
    far = [(record, _far_ports(record)) for record in records]
    lost = [record.host for record, ports in far if ports and lost_gpus(record, records)]
    if lost:
        return (
            f"{host_names(lost)} has lost a GPU, so which ports are near it is not known; bring it "
            "back and measure again"
        )
    if any(ports for _, ports in far):
        _, ports = next(each for each in far if each[1])
        hosts = host_names(record.host for record, ports in far if ports)
        return (
            f"on {hosts} {', '.join(ports[:MOST_NAMED])} is near no GPU, as ports for storage are, "
            "and not slower than those that are; NCCL takes the port nearest to a GPU by itself, "
            "and nothing here shows that it took another"
        )
    silent = [record.host for record in records if port_rates(record) and not _names_ports(record)]
    if silent:
        return f"NCCL did not say which ports it uses on {host_names(silent)} (its leg net)"
    used = [record for record in records if port_rates(record)]
    if any(len(set(port_rates(record).values())) > 1 for record in used):
        return (
            "NCCL does not use ports that are slower and farther from the GPUs than others, or "
            "the hosts want different ports, or how near ports are is not known (check topology)"
        )
    return "all ports have one rate, and NCCL takes the nearest to each GPU by itself"


def _far_ports(record: HostRecord) -> list[str]:
    """Return ports that no GPU has near, where every GPU has another one near that is no faster."""
    rates, near = port_rates(record), nearest_ports(record)
    if not near or not all(near.values()):
        return []
    used = {port for ports in near.values() for port in ports}
    most = max((rates[port] for port in used if port in rates), default=0.0)
    return [port for port in rates if port not in used and rates[port] >= most]


def lost_gpus(record: HostRecord, records: Sequence[HostRecord]) -> bool:
    """Whether a node has a GPU that cannot be opened, or fewer than one with the same ports."""
    seen = values_of(record, gpu_count, SEEN_BY_NVML).values()
    answers = values_of(record, gpu_lost, GPU_ANSWER).values()
    if not all(seen) or any(answer != "ok" for answer in answers):
        return True
    like = (other for other in records if port_rates(other).keys() == port_rates(record).keys())
    opened = _opened(record)
    return opened < _counted(record) or any(opened < _opened(other) for other in like)


def _counted(record: HostRecord) -> int:
    return len(record.report.gpus) if record.report else 0


def _opened(record: HostRecord) -> int:
    return sum(not gpu.error for gpu in record.report.gpus) if record.report else 0


def _names_ports(record: HostRecord) -> bool:
    return any(text.startswith("IB") for text in networks_of(record))


def _why_gid_index(records: Sequence[HostRecord]) -> str:
    tables = [values_of(record, roce_gids, ROUTABLE_GIDS) for record in records]
    if not any(tables):
        return "no host told of an active RoCE port (check roce_gids), and InfiniBand needs none"
    without = [f"{name}" for table in tables for name, gids in table.items() if not gids]
    if without:
        ports = ", ".join(dict.fromkeys(line(name, 40) for name in without))
        return f"{line(ports, 200)} has no RoCE v2 address that NCCL takes and that can be routed"
    versions = [version_of(library_of(record)) for record in records]
    if all(version and version[:2] >= CHOOSES_GIDS for version in versions):
        return (
            "from 2.21 on NCCL finds the RoCE v2 address by itself; audits that ask for a fixed "
            "index, mostly 3, are of the time before, and it fails on the first port whose table "
            "differs"
        )
    if not all(versions):
        return "which NCCL runs is not known on every host, and from 2.21 on it needs none"
    indexes = {
        index for record in records for index in values_of(record, roce_gids, GID_INDEX).values()
    }
    if len(indexes) > 1:
        each = ", ".join(str(index) for index in sorted(indexes, key=str)[:MOST_NAMED])
        return f"the address is at another index from port to port ({each}), and one has to fit all"
    return "the address is at index 0, which NCCL takes, or not every host has such a port"


def _why_interfaces(records: Sequence[HostRecord]) -> str:
    names = {
        name for record in records for text in networks_of(record) for name in interfaces_of(text)
    }
    if not names:
        return (
            "NCCL did not name an interface (its leg net went by RDMA, or was not measured), so "
            "none is seen to be wrong"
        )
    shown = ", ".join(sorted(names)[:MOST_NAMED])
    return (
        f"NCCL goes by {line(shown, 200)}, and no interface among them that leads nowhere can be "
        "left out on every host alike"
    )


def _why_rails(records: Sequence[HostRecord]) -> str:
    ports = [len(port_rates(record)) for record in records]
    if not any(ports):
        return "no host told of an active RDMA port, so there are no rails"
    if max(ports) == 1:
        return "no host has more than one active RDMA port: there is nothing to cross"
    layout = "".join(_layout(records))
    return (
        f"{layout}whether the rails of the fabric meet is in its switches, and nothing that was "
        "measured here; NCCL's own 2 tries both"
    )


def _why_queue_pairs(records: Sequence[HostRecord]) -> str:
    return (
        f"whether flows of {len(records)} hosts meet on uplinks is in the switches, and nothing "
        "that was measured here. A connection is one flow by default, which a fabric that routes "
        "by flow keeps on one uplink; audits ask for more than 1 from so many hosts on, and "
        "NVIDIA's recipes take 4: time the whole set with both"
    )


def _layout(records: Sequence[HostRecord]) -> Iterator[str]:
    """Say where every GPU of every host has ports of its own: then there are rails to ask about."""
    for record in records:
        near = [tuple(ports) for ports in nearest_ports(record).values()]
        if not near or not all(near) or len(set(near)) < len(near):
            return
    rates = sorted({rate for record in records for rate in port_rates(record).values()})
    speed = ", ".join(number(rate) for rate in rates[:3])
    yield f"each GPU has a port of its own ({speed} Gb/s), as on rails; "
