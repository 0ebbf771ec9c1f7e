"""CPUs near a GPU: memory of another socket would slow the way between it and the host."""

from __future__ import annotations

import os
from typing import Set

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.node.node import Gpu


def near_cpus(gpu: Gpu) -> str:
    """Return the CPUs near a GPU as Linux lists them (``0-31,64-95``), empty where unknown."""
    try:
        return gpu.cpu_affinity() or ""
    except CouldNotMeasure:
        return ""


def cpu_set(text: str) -> Set[int]:
    """Return the CPUs of ``0-31,64-95``; raises ValueError for anything else."""
    cpus: Set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def stay_on(cpus: Set[int]) -> None:
    """Keep this thread on some CPUs; where it is allowed none of them it stays where it is."""
    if cpus:
        os.sched_setaffinity(0, cpus)
