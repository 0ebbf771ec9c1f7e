"""No memory error and hardly a PCIe replay is added while the GPUs work."""

from __future__ import annotations

from typing import Iterator, List

from hwcheck.checks.shared.load_summary import Loaded, load_of, per_loaded_gpu
from hwcheck.contract.check import CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import AtMost
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

COUNTERS = {
    "ecc_uncorrected": ("new_uncorrected_errors", "errors"),
    "ecc_corrected": ("new_corrected_errors", "errors"),
    "pcie_replays": ("new_pcie_replays", "packets"),
}


@check(
    metrics=[
        Metric(
            "new_uncorrected_errors",
            "errors",
            "uncorrectable memory errors since before the GPUs were put to work",
            (
                AtMost(
                    "NVML API Reference Guide, nvmlDeviceGetTotalEccErrors "
                    "(NVML_MEMORY_ERROR_TYPE_UNCORRECTED); NVIDIA Xid catalog, Xid 48: a double "
                    "bit error ends the work that meets it",
                    fail=0,
                ),
            ),
        ),
        Metric(
            "new_corrected_errors",
            "errors",
            "corrected memory errors since before the GPUs were put to work",
            (
                AtMost(
                    "derived: single ones are what ECC is for; ten within minutes come from one "
                    "place that does not hold its data",
                    warn=10,
                    confidence="derived",
                ),
            ),
        ),
        Metric(
            "new_pcie_replays",
            "packets",
            "PCIe packets sent again since before the GPUs were put to work",
            (
                AtMost(
                    "fail: max_pcie_replays (80) of DCGM's pcie plugin. warn: derived: GPUs of "
                    "healthy nodes gather 40 to 120 in all their time (nvidia-smi -q of H100 "
                    "nodes), so ten within minutes are many",
                    warn=10,
                    fail=80,
                    confidence="derived",
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="memory that fails when it is hot or busy; for replays a riser, cable or slot with a "
        "bad contact",
        fix="uncorrectable errors: drain the node, reset the GPU, load it again and return the "
        "board when they come back. replays: reseat board, riser and cables",
        command="nvidia-smi -q -d ECC,ROW_REMAPPER; nvidia-smi -q | grep -i replay",
    ),
    load=True,
    per_gpu=True,
    optional="counters of memory errors and PCIe replays",
    group="GPUs",
    follows=("gpu_count", "mig", "virtualization"),
)
def errors_under_load(node: Node) -> Iterator[Sample]:
    """Count the memory errors and PCIe replays that the collectives and the load added.

    Cells and contacts that hold at idle give way when hot and busy, and counters read at idle only
    tell of the past. The count before the work is held against the count after it, so what a node
    gathered in its life does not matter.
    """
    columns = load_of(node).series.columns
    if not any(counter in quantities for quantities in columns.values() for counter in COUNTERS):
        raise NotApplicable("no GPU of this node counts memory errors or PCIe replays")
    yield from per_loaded_gpu(node, _of_gpu)


def _of_gpu(loaded: Loaded) -> Iterator[Sample]:
    problems: List[str] = []
    for counter, (metric, unit) in COUNTERS.items():
        if not loaded.has(counter):
            continue
        points = loaded.points(counter, float("-inf"), float("inf"))
        counts = [count for _, count in loaded.in_collectives(counter) + points]
        if not points or points[0][0] > 0 or points[-1][0] <= 0:
            problems.append("%s: %s: not told before and after" % (loaded.subject, counter))
        elif counts[-1] < counts[0]:
            problems.append("%s: %s: it was reset meanwhile" % (loaded.subject, counter))
        else:
            yield Sample(metric, int(counts[-1] - counts[0]), unit, loaded.subject)
    if problems:
        raise CouldNotMeasure("; ".join(problems))
