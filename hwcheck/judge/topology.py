"""The matrix of ``nvidia-smi topo -m``, rebuilt from what the ``topology`` check sent. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hwcheck.checks.topology import (
    CPU_AFFINITY,
    GPU_NUMA_ID,
    NIC_PATH,
    NUMA_AFFINITY,
    PATH,
    PCI_ADDRESS,
)
from hwcheck.contract.wire import Sample

LEGEND = (
    ("X", "the device itself"),
    ("SYS", "PCIe, and on to another NUMA node (QPI, UPI, xGMI)"),
    ("NODE", "PCIe, and from one host bridge to another of the same NUMA node"),
    ("PHB", "PCIe, through one host bridge (as a rule the CPU)"),
    ("PXB", "PCIe, through several switches and no host bridge"),
    ("PIX", "PCIe, through one switch at most"),
    ("NV#", "that many NVLinks together"),
)
"""Tokens in the order in which nvidia-smi lists them, in our words."""

NEAR = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
NEAR_METRICS = (CPU_AFFINITY.name, NUMA_AFFINITY.name, GPU_NUMA_ID.name)
UNKNOWN = "?"
MOST_DEVICES = 64
"""GPUs, and RDMA devices: a node that names more is not believed."""

_GPU = re.compile(r"gpu(\d{1,3})")
_NIC = re.compile(r"[A-Za-z0-9_.:-]{1,40}")
_PATH = re.compile(r"NV\d{1,3}|PIX|PXB|PHB|NODE|SYS")
_NUMBERS = re.compile(r"[0-9][0-9,-]{0,199}")


@dataclass(frozen=True)
class Device:
    """A GPU or an RDMA device: its name in the matrix and its subject in the samples.

    ``near`` are a GPU's CPUs, NUMA nodes and own NUMA node; empty for an RDMA device.
    """

    name: str
    subject: str
    near: tuple[str, ...] = ()


@dataclass(frozen=True)
class Topology:
    """The devices of a node in the matrix's order, and the way between two by their subjects."""

    devices: tuple[Device, ...]
    paths: Mapping[tuple[str, str], str]

    def path(self, one: Device, other: Device) -> str:
        """Return X, NV#, PIX, PXB, PHB, NODE, SYS, or ``?`` where it was not measured."""
        if one is other:
            return "X"
        pair = (one.subject, other.subject)
        return self.paths.get(pair) or self.paths.get(pair[::-1], UNKNOWN)

    @property
    def nics(self) -> tuple[Device, ...]:
        """The RDMA devices."""
        return tuple(device for device in self.devices if not device.near)


def topology_of(samples: Iterable[Sample]) -> Topology | None:
    """Return what the check's samples say, or None where they name no device.

    They come from a node: what cannot be part of a matrix is left out.
    """
    values = {(sample.metric, sample.subject): str(sample.value) for sample in samples}
    named = [subject for metric, subject in values if metric == PCI_ADDRESS.name]
    gpus = sorted((s for s in named if _GPU.fullmatch(s)), key=lambda gpu: int(gpu[3:]))
    nics = [name for name in named if _NIC.fullmatch(name) and not _GPU.fullmatch(name)]
    devices = [Device(gpu.upper(), gpu, _near(values, gpu)) for gpu in gpus[:MOST_DEVICES]]
    devices += [Device(f"NIC{n}", name) for n, name in enumerate(nics[:MOST_DEVICES])]
    pairs = {(a.subject, b.subject): f"{a.subject}-{b.subject}" for a in devices for b in devices}
    paths = {
        pair: values[metric, subject]
        for pair, subject in pairs.items()
        for metric in (PATH.name, NIC_PATH.name)
        if _PATH.fullmatch(values.get((metric, subject), ""))
    }
    return Topology(tuple(devices), paths) if devices else None


def matrix_rows(topology: Topology) -> Iterator[list[str]]:
    """Yield the header and the rows of the matrix, cell by cell; all have the same length."""
    yield ["", *(device.name for device in topology.devices), *NEAR]
    for one in topology.devices:
        ways = [topology.path(one, other) for other in topology.devices]
        yield [one.name, *ways, *(one.near or ("",) * len(NEAR))]


def legend_lines() -> Iterator[str]:
    """Yield ``SYS  = ...`` for every token."""
    for token, meaning in LEGEND:
        yield f"{token:<4} = {meaning}"


def nic_lines(topology: Topology) -> Iterator[str]:
    """Yield ``NIC0: mlx5_0`` for every RDMA device."""
    for nic in topology.nics:
        yield f"{nic.name}: {nic.subject}"


def _near(values: Mapping[tuple[str, str], str], gpu: str) -> tuple[str, ...]:
    texts = (values.get((metric, gpu), "") for metric in NEAR_METRICS)
    return tuple(text if _NUMBERS.fullmatch(text) else "N/A" for text in texts)
