"""Bad memory rows were replaced, and there are spare rows for the next ones."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Grounds, Metric, Remedy, check
from hwcheck.contract.limits import AtMost, Equal
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import where_supported
from hwcheck.node.node import Gpu, Node

GUIDE = "NVIDIA GPU Memory Error Management"

HALF_OF_ALL = AtMost(
    "derived from %s, Row Remapping: a GPU stands up to 512 replaced rows; with half of them gone "
    "its exchange is planned before a repair fails" % GUIDE,
    warn=256,
    confidence="derived",
)


@check(
    metrics=[
        Metric(
            "row_remap_pending",
            "",
            "whether a bad row is still in use until the GPU is reset",
            (
                Equal(
                    False,
                    source=GUIDE + ", Error Recovery and Response Flags; facebookresearch/gcm, "
                    "row_remap_pending, takes it for critical as well",
                ),
            ),
            required=True,
        ),
        Metric(
            "row_remap_failure",
            "",
            "whether a bad row could not be replaced",
            (Equal(False, source=GUIDE + ", RMA Policy: the row-remapping failure flag"),),
            required=True,
            proof=Grounds(
                "a row could not be remapped",
                "NVIDIA GPU Memory Error Management, RMA Policy Thresholds for Row-Remapping",
            ),
        ),
        Metric(
            "row_remap_banks_exhausted",
            "banks",
            "memory banks that have no spare row left",
            (
                AtMost(
                    "derived from NVML API Reference Guide, nvmlRowRemapperHistogramValues_t "
                    "(none: no reserved rows), and %s, RMA Policy: the next bad row of such a "
                    "bank cannot be replaced" % GUIDE,
                    warn=0,
                    confidence="derived",
                ),
            ),
        ),
        Metric(
            "row_remap_uncorrectable",
            "rows",
            "rows replaced for uncorrectable errors",
            (HALF_OF_ALL,),
            required=True,
        ),
        Metric(
            "row_remap_correctable",
            "rows",
            "rows replaced for correctable errors",
            (HALF_OF_ALL,),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="memory cells that wear out; a few replaced rows are normal",
        fix="pending: drain the node and reset the GPU or reboot. failure: run NVIDIA's field "
        "diagnostic and have the board replaced",
        command="nvidia-smi -q -d ROW_REMAPPER",
    ),
    per_gpu=True,
    optional="GPUs that replace memory rows",
    group="GPU memory",
    proof="readings",
)
def row_remap(node: Node) -> Iterator[Sample]:
    """Read how many memory rows were replaced, and whether a replacement waits or failed.

    From Ampere on a GPU replaces a bad memory row by a spare one at its next reset. Until then
    the bad row is there, and when no spare row is left the board must go. Rows that were
    replaced are no fault, a GPU stands up to 512; with half of these gone it warns.
    """
    yield from where_supported(node, _rows, "no GPU of this node replaces memory rows")


def _rows(gpu: Gpu) -> Iterator[Sample]:
    rows = gpu.row_remap()
    if rows is None:
        return
    yield Sample("row_remap_pending", rows.pending, "", gpu.subject)
    yield Sample("row_remap_failure", rows.failure, "", gpu.subject)
    yield Sample("row_remap_uncorrectable", rows.uncorrectable, "rows", gpu.subject)
    yield Sample("row_remap_correctable", rows.correctable, "rows", gpu.subject)
    if rows.banks_exhausted is not None:
        yield Sample("row_remap_banks_exhausted", rows.banks_exhausted, "banks", gpu.subject)
