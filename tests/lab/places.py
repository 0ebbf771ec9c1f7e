"""Where each GPU is, in NVML's words, taken from the PCI tree: both must tell the same story."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def with_places(answers: Mapping[str, Any], host: Mapping[str, Any]) -> dict[str, Any]:
    """Return NVML's answers with the place of every GPU that does not give its own."""
    common = answers.get("gpu") or {}
    bridges = dict(_bridges(host.get("pci", {})))
    gpus = []
    for gpu in answers.get("gpus", ()):
        address = gpu.get("pci_address", "")
        place = _place(address, bridges[address], host) if address in bridges else {}
        gpus.append({**{key: place[key] for key in place if key not in common}, **gpu})
    return {**answers, "gpus": gpus}


def _place(address: str, above: list[str], host: Mapping[str, Any]) -> dict[str, Any]:
    bus = (above or [address])[0].rpartition(":")[0]
    number = node_of(bus, host["numa"])
    # A switch is its upstream port and, below it, one downstream port for each device.
    switches = [f"switch{port}" for port in above[1::2]]
    found: dict[str, Any] = {"path": "/".join([f"numa{number or 0}", f"root{bus}", *switches])}
    if number is not None:
        found["memory_affinity"] = [number]
    if number is not None or len(host["numa"]) == 1:
        found["cpu_affinity"] = host["numa"][number or 0]["cpus"]
    return found


def node_of(bus: str, nodes: list[Mapping[str, Any]]) -> int | None:
    """Return the NUMA node that a root bus is near; None where the firmware does not say."""
    near = [number for number, node in enumerate(nodes) if bus in node.get("buses", ())]
    return near[0] if near else None


def _bridges(below: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    for address, its in below.items():
        yield address, list(above)
        if not isinstance(its, str):
            yield from _bridges(its, (*above, address))
