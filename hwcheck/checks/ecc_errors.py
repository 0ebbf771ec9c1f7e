"""The memory of no GPU has errors that ECC could not correct."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import BY_AGE, Grounds, Metric, Remedy, check
from hwcheck.contract.limits import OFTEN, AtMost, Equal
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import where_supported
from hwcheck.node.node import Gpu, Node

HOUR_S = 3600.0
TOTALS = "NVML API Reference Guide, nvmlDeviceGetTotalEccErrors"


ECC_UNCORRECTED_VOLATILE = Metric(
    "ecc_uncorrected_volatile",
    "errors",
    "errors that could not be corrected, since the driver was loaded",
    (
        AtMost(
            TOTALS + " (NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC); NVIDIA "
            "Xid catalog, Xid 48: a double bit error ends the work that meets it",
            fail=0,
        ),
    ),
    required=True,
)


@check(
    metrics=[
        ECC_UNCORRECTED_VOLATILE,
        Metric(
            "ecc_corrected_volatile",
            "errors",
            "errors that were corrected, since the driver was loaded",
            (
                AtMost(
                    "derived from facebookresearch/gcm, ecc_corrected_volatile_total (default "
                    "threshold 50 million, at which a node is taken out): stray errors come one by "
                    "one, a cell that is wrong at each read makes a million in seconds; ours warns "
                    "of it and takes nothing out",
                    warn=1_000_000,
                    confidence="derived",
                ),
            ),
            required=True,
            past=OFTEN,
        ),
        Metric(
            "ecc_corrected_per_hour",
            "errors/h",
            "corrected errors over the time since boot, an hour at least; more where the driver "
            "was loaded or the GPU reset later",
            required=True,
        ),
        Metric(
            "ecc_uncorrected_aggregate",
            "errors",
            "uncorrectable errors in the board's life",
            required=True,
            varies=BY_AGE,
        ),
        Metric(
            "ecc_corrected_aggregate",
            "errors",
            "corrected errors in the board's life",
            required=True,
            varies=BY_AGE,
        ),
        Metric(
            "sram_threshold_exceeded",
            "",
            "whether errors in SRAM qualify the board for replacement; read as root only",
            (
                Equal(
                    False,
                    source="NVIDIA GPU Memory Error Management, RMA Policy (SRAM Threshold "
                    "Exceeded); NVML API Reference Guide, nvmlDeviceGetSramEccErrorStatus",
                ),
            ),
            proof=Grounds(
                "SRAM failed oftener than its threshold",
                "NVIDIA GPU Memory Error Management, RMA Policy Thresholds for Row-Remapping",
            ),
        ),
    ],
    remedy=Remedy(
        cause="a weak memory cell; seldom heat or power",
        fix="all were corrected: keep the node in service and watch the rate. One could not be: "
        "drain the node, reset the GPU or reboot, and test its memory; have the board replaced "
        "when such errors come back or the SRAM threshold is exceeded",
        command="nvidia-smi -q -d ECC,ROW_REMAPPER",
    ),
    optional="ECC that is switched on",
    group="GPU memory",
    follows=("ecc_mode",),
    proof="readings",
)
def ecc_errors(node: Node) -> Iterator[Sample]:
    """Read ECC's counters since the driver was loaded and over the life of each board.

    An error that could not be corrected has spoiled the data of some job, and the repair of its
    cell waits for a reset. Errors before the last reset are history: their cells were replaced
    (see row_remap and retired_pages), so counts over the board's life are kept, and neither judged
    nor compared with those of other boards, which may be younger. The rate of corrected errors is
    kept to be compared: neither NVIDIA nor anybody else says which one is too high. A GPU without
    ECC, or with ECC off, counts nothing.
    """
    yield from where_supported(
        node,
        lambda gpu: _errors(gpu, node),
        "no GPU of this node has ECC switched on",
    )


def _errors(gpu: Gpu, node: Node) -> Iterator[Sample]:
    errors = gpu.ecc_errors()
    if errors is None:
        return
    for name, count in (
        ("ecc_uncorrected_volatile", errors.volatile_uncorrected),
        ("ecc_corrected_volatile", errors.volatile_corrected),
        ("ecc_uncorrected_aggregate", errors.aggregate_uncorrected),
        ("ecc_corrected_aggregate", errors.aggregate_corrected),
    ):
        yield Sample(name, count, "errors", gpu.subject)
    exceeded = gpu.sram_threshold_exceeded()
    if exceeded is not None:
        yield Sample("sram_threshold_exceeded", exceeded, "", gpu.subject)
    hours = max(1.0, node.host.uptime_s() / HOUR_S)
    rate = round(errors.volatile_corrected / hours, 3)
    yield Sample("ecc_corrected_per_hour", rate, "errors/h", gpu.subject)
