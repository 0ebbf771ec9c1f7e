"""NCCL's own diagnostics have every two GPUs reach each other: a second opinion on gpu_pairs."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import Equal
from hwcheck.contract.nccl_diag import (
    CUT,
    DRIVER,
    ECC,
    FINE,
    INVENTORY,
    NVLINK,
    SINCE,
    Diagnostics,
    read,
)
from hwcheck.contract.reasons import NOT_MEASURED, Reason
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

VERIFIED = "verified"
NO_P2P = "NCCL uses no P2P between these GPUs"


def _ras_metric(name: str, words: str) -> Metric:
    return Metric(
        name,
        "",
        "ok, or what NCCL's RAS diagnostics complain of: %s" % words,
        (
            Equal(
                FINE,
                "NCCL User Guide, Troubleshooting, RAS, RAS Diagnostics; NVIDIA/nccl "
                "src/ras/diagnostics_checks.cc, which has the words",
                otherwise="warn",
            ),
        ),
    )


RAS_ECC = _ras_metric("ras_ecc", "memory errors that could not be corrected")
RAS_NVLINK = _ras_metric("ras_nvlink", "NVLinks that are inactive, or more of them on some ranks")
RAS_METRICS = {
    INVENTORY: _ras_metric("ras_inventory", "another number or model of GPUs from rank to rank"),
    DRIVER: _ras_metric("ras_driver", "another CUDA driver version from rank to rank"),
    ECC: RAS_ECC,
    NVLINK: RAS_NVLINK,
}


DIAG_P2P = Metric(
    "diag_p2p",
    "",
    "verified, or what failed between the two GPUs in NCCL's words; of the node where NCCL "
    "tests some pairs only, and does not name them",
    (
        Equal(
            VERIFIED,
            "NCCL User Guide, Troubleshooting, Diagnostics: a failure is one of the "
            "system; NVIDIA/nccl src/diagnostics/p2p.cc, which has the words",
            otherwise="warn",
        ),
    ),
    required=True,
)


@check(
    metrics=[
        Metric(
            "diag_tested",
            "pairs",
            "ordered pairs of GPUs between which NCCL wrote and read",
            required=True,
        ),
        DIAG_P2P,
        *RAS_METRICS.values(),
    ],
    remedy=Remedy(
        cause="a way between two GPUs that the driver grants and that does not carry data, or "
        "memory that one process cannot open for another",
        fix="look at NVLinks, IOMMU and PCIe ACS for a mismatch; at CUDA IPC, the container's "
        "rights and its /dev/shm where an import failed",
        command="NCCL_RUN_DIAGNOSTICS=1 NCCL_DEBUG=INFO torchrun --nproc-per-node gpu JOB; "
        "nvidia-smi topo -p2p r; nvidia-smi topo -m",
    ),
    load=True,
    optional="P2P between GPUs without MIG, and NCCL %d.%d or newer" % SINCE,
    group="collectives",
)
def nccl_diagnostics(node: Node) -> Iterator[Sample]:
    """Run what NCCL has to look at the ways between GPUs itself.

    From 2.31 on NCCL writes, verifies and reads a word between every two GPUs that it will let
    reach each other, as it makes a communicator: by kernels, and through memory that one process
    opens for another. The copies of ``gpu_pairs`` are made by copy engines within one process, so
    either may see what the other does not. Where they contradict each other it is said. In the same
    communicator NCCL's RAS compares what the ranks say of GPUs, driver, memory errors and NVLinks;
    it reports from a thread of its own, so what it did not come to say is left out. The rates of
    network cards NCCL measures over several hosts only, and what ``ncclras`` asks is of a running
    job: neither is there on a node by itself.
    """
    gpus = len(node.gpus())
    if gpus < 2:
        raise NotApplicable("one GPU has nobody to reach")
    run = node.diagnostics()
    if run.absent:
        raise NotApplicable("NCCL %s has no diagnostics: they came with %d.%d" % (run.nccl, *SINCE))
    report = read(run.report)
    unused = report.active and not (report.untested or _tested(report))
    if unused and set(report.ras.values()) <= {FINE}:
        raise NotApplicable(NO_P2P)
    for name, metric in RAS_METRICS.items():
        if name in report.ras:
            yield Sample(metric.name, report.ras[name][:CUT])
    if unused:  # what RAS complains of is said nevertheless
        raise CouldNotMeasure(NO_P2P)
    if report.active:
        yield from _samples(report, gpus)
    else:  # what NCCL has named before it broke off is broken nevertheless
        yield from _failed(report)
        raise CouldNotMeasure.of(run.reason or Reason(NOT_MEASURED, _broken_off(run.report)))
    failed = _failures(report)
    if failed != len(report.failed_pairs) + len(report.untested_pairs):
        words = (len(report.failed_pairs), failed)
        raise CouldNotMeasure("NCCL's report names %d of %d pairs that failed" % words)
    if report.untested:
        raise CouldNotMeasure("NCCL could not test %s" % "; ".join(report.untested)[:CUT])
    if run.reason:  # NCCL had reported, and the ranks did not come to their end
        raise CouldNotMeasure.of(run.reason)


def _samples(report: Diagnostics, gpus: int) -> Iterator[Sample]:
    tested = _tested(report)
    yield Sample("diag_tested", tested, "pairs")
    yield from _failed(report)
    if report.untested or _failures(report) != len(report.failed_pairs):
        return
    if tested != gpus * (gpus - 1):
        if not report.failed_pairs:
            yield Sample("diag_p2p", VERIFIED)
    else:
        pairs = ("gpu%d-gpu%d" % (a, b) for a in range(gpus) for b in range(gpus) if a != b)
        for pair in pairs:
            if pair not in report.failed_pairs:
                yield Sample("diag_p2p", VERIFIED, "", pair)


def _tested(report: Diagnostics) -> int:
    return (report.peer_accesses or (0, 0))[1]


def _failed(report: Diagnostics) -> Iterator[Sample]:
    for pair, words in report.failed_pairs.items():
        yield Sample("diag_p2p", words, "", pair)


def _failures(report: Diagnostics) -> int:
    passed, tested = report.peer_accesses or (0, 0)
    return tested - passed


def _broken_off(report: str) -> str:
    return "NCCL's report breaks off" if report else "NCCL reported nothing"
