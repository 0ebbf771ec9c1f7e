"""A node drawn: NUMA nodes, PCIe switches, GPUs, RDMA devices, NVLinks, and what is bad there.

The ways between devices are all that is known (``judge.topology``). Two that have no host bridge
between them (PIX, PXB) are under one switch; a GPU is at the NUMA node that it is near to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from hwcheck.judge.topology import Device, Topology
from hwcheck.report.shapes import box, drawing, path, words
from hwcheck.text import count

SWITCHED = ("PIX", "PXB")
DEVICE, GAP, ROW = 62.0, 6.0, 34.0
LEVELS = {"numa": 4.0, "switch": 48.0, "device": 92.0, "nvlink": 146.0}
"""Where each row begins."""
MOST_BRIDGES = 12


@dataclass(frozen=True)
class _Switch:
    """Devices under one switch, or one alone below its host bridge."""

    numa: str
    devices: tuple[Device, ...]


def draw(topology: Topology, bad: Collection[str] = ()) -> str:
    """Return a node as SVG; ``bad`` are the subjects of what is degraded.

    Those are such as ``gpu3``, ``mlx5_0`` or ``gpu0-gpu1``.
    """
    switches = _switches(topology)
    place: dict[str, float] = {}
    parts: list[str] = []
    x = GAP
    for numa in dict.fromkeys(switch.numa for switch in switches):
        left = x
        for switch in (each for each in switches if each.numa == numa):
            start = x
            for device in switch.devices:
                place[device.subject] = x
                parts.append(_device(device, x, bad=_is_bad(device, bad)))
                x += DEVICE + GAP
            if len(switch.devices) > 1:
                parts.append(_wide(start, x, "switch", "PCIe switch"))
        name = f"NUMA {numa}" if numa else "NUMA node not known"
        parts.append(_wide(left, x, "numa", name))
        x += GAP
    links = list(_nvlinks(topology, place, bad))
    height = LEVELS["nvlink"] + (ROW * max(1, _bridges(links)) if links else 0)
    return drawing(x, height + GAP, in_words(topology, bad), [*parts, *links])


def in_words(topology: Topology, bad: Collection[str] = ()) -> str:
    """Say what is drawn."""
    gpus = [device for device in topology.devices if device.near]
    switches = [switch for switch in _switches(topology) if len(switch.devices) > 1]
    ways = {topology.path(one, other) for one in gpus for other in gpus if one is not other}
    linked = "all" if ways and all(way.startswith("NV") for way in ways) else "some"
    nvlinks = f", {linked} GPUs joined by NVLink" if any(w.startswith("NV") for w in ways) else ""
    named = [device.subject for device in topology.devices if _is_bad(device, bad)]
    ends = f"{count(len(gpus), 'GPU')} and {count(len(topology.nics), 'RDMA device')}"
    many = "switch" if len(switches) == 1 else "switches"
    text = f"{ends} under {len(switches)} PCIe {many}{nvlinks}"
    return f"{text}; degraded: {', '.join(named)}" if named else text


def _is_bad(device: Device, bad: Collection[str]) -> bool:
    return device.subject in bad or any(each.startswith(f"{device.subject}/") for each in bad)


def _switches(topology: Topology) -> list[_Switch]:
    groups: list[list[Device]] = []
    for device in topology.devices:
        near = [
            group
            for group in groups
            if any(topology.path(device, other) in SWITCHED for other in group)
        ]
        # A NVLink hides the way over PCIe, so two GPUs may meet at the device that is between.
        joined = [device] if not near else [each for group in near for each in group] + [device]
        groups = [group for group in groups if group not in near] + [joined]
    return sorted(
        (_Switch(_numa(group, topology), tuple(_ordered(group))) for group in groups),
        key=lambda switch: (switch.numa == "", switch.numa, _order(switch.devices[0])),
    )


def _numa(group: Sequence[Device], topology: Topology) -> str:
    """Return the NUMA node of a group; an RDMA device alone is at that of a GPU that is near."""
    named = [device.near[1] for device in group if device.near and device.near[1] != "N/A"]
    if named or any(device.near for device in group):
        return named[0] if named else ""
    gpus = [device for device in topology.devices if device.near]
    near = [gpu for gpu in gpus if topology.path(gpu, group[0]) in ("PHB", "NODE")]
    return next((gpu.near[1] for gpu in near if gpu.near[1] != "N/A"), "")


def _ordered(devices: Iterable[Device]) -> list[Device]:
    return sorted(devices, key=_order)


def _order(device: Device) -> tuple[bool, int]:
    digits = "".join(c for c in device.name if c.isdigit())
    return not device.near, int(digits or 0)


def _device(device: Device, x: float, *, bad: bool) -> str:
    kind = "gpu" if device.near else "nic"
    name = f"\u2715 {device.name}" if bad else device.name
    y = LEVELS["device"]
    return box(x, y, DEVICE, ROW, f"{kind} bad" if bad else kind) + words(
        x + DEVICE / 2, y + 22, name, "bad" if bad else ""
    )


def _wide(left: float, right: float, level: str, name: str) -> str:
    width, y = right - GAP - left, LEVELS[level]
    shown = name if width > 100 else name.replace("PCIe switch", "switch")
    return box(left, y, width, ROW, level) + words(left + width / 2, y + 22, shown)


def _nvlinks(topology: Topology, place: dict[str, float], bad: Collection[str]) -> Iterable[str]:
    """Yield a bar where NVLinks join all GPUs, otherwise an arc for each pair that has some."""
    gpus = [device for device in topology.devices if device.near]
    pairs = [
        (one, other, topology.path(one, other))
        for at, one in enumerate(gpus)
        for other in gpus[at + 1 :]
    ]
    linked = [pair for pair in pairs if pair[2].startswith("NV")]
    y = LEVELS["nvlink"]
    if linked and len(linked) == len(pairs) and len(gpus) > 2:
        ends = sorted(place[gpu.subject] for gpu in gpus)
        left, right = ends[0], ends[-1] + DEVICE
        usual = max(int(way[2:]) for _, _, way in linked)
        fewer = [f"{a.name}-{b.name} {way}" for a, b, way in linked if int(way[2:]) < usual]
        hurt = bool(fewer) or any(_pair(a, b) & set(bad) for a, b, _ in linked)
        yield "".join(
            path(f"M{place[gpu.subject] + DEVICE / 2:g} {LEVELS['device'] + ROW:g}V{y:g}", "wire")
            for gpu in gpus
        )
        more = f", fewer: {', '.join(fewer[:3])}{' ...' if len(fewer) > 3 else ''}" if fewer else ""
        sign = "\u2715 " if hurt else ""
        yield box(left, y, right - left, ROW, "nvlink bad" if hurt else "nvlink")
        yield words((left + right) / 2, y + 22, f"{sign}NVLink, {usual} each{more}")
        return
    for level, (one, other, way) in enumerate(linked[:MOST_BRIDGES]):
        a, b = (place[device.subject] + DEVICE / 2 for device in (one, other))
        depth = y + ROW * level + ROW / 2
        hurt = bool(_pair(one, other) & set(bad))
        top = LEVELS["device"] + ROW
        yield path(f"M{a:g} {top:g}V{depth:g}H{b:g}V{top:g}", "wire bad" if hurt else "wire")
        yield words((a + b) / 2, depth - 4, f"\u2715 {way}" if hurt else way)


def _pair(one: Device, other: Device) -> set[str]:
    return {f"{one.subject}-{other.subject}", f"{other.subject}-{one.subject}"}


def _bridges(links: Sequence[str]) -> int:
    return sum(part.startswith("<path") and "H" in part for part in links)
