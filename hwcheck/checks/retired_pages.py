"""Bad memory pages were taken out of use, and they are not too many."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Grounds, Metric, Remedy, check
from hwcheck.contract.limits import AtMost, Equal
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import where_supported
from hwcheck.node.node import Gpu, Node


@check(
    metrics=[
        Metric(
            "retired_pages_pending",
            "",
            "whether a bad page is still in use until the driver is loaded again",
            (
                Equal(
                    False,
                    source="NVIDIA Dynamic Page Retirement; NVML API Reference Guide, "
                    "nvmlDeviceGetRetiredPagesPendingStatus",
                ),
            ),
            required=True,
        ),
        Metric(
            "retired_pages",
            "pages",
            "pages out of use, for single and double bit errors together",
            (
                AtMost(
                    "NVIDIA/DCGM, dcgm_gpu_hardware_limits: DCGM_LIMIT_MAX_RETIRED_PAGES (63, as "
                    "the field diagnostic) and its soft limit (15); a GPU has room for 64",
                    warn=15,
                    fail=63,
                    confidence="published",
                ),
            ),
            required=True,
            proof=Grounds(
                "as many pages are retired as the policy bears",
                "NVIDIA Dynamic Page Retirement, RMA Policy Thresholds",
            ),
        ),
        Metric(
            "retired_pages_single_bit",
            "pages",
            "pages out of use for single bit errors",
            required=True,
        ),
        Metric(
            "retired_pages_double_bit",
            "pages",
            "pages out of use for double bit errors",
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="memory cells that wear out; a few retired pages are normal",
        fix="pending: drain the node, then unload and load the driver or reboot. Too many: run "
        "NVIDIA's field diagnostic and have the board replaced",
        command="nvidia-smi -q -d PAGE_RETIREMENT",
    ),
    per_gpu=True,
    optional="GPUs that retire pages",
    group="GPU memory",
    proof="readings",
)
def retired_pages(node: Node) -> Iterator[Sample]:
    """Count the memory pages that each GPU has taken out of use.

    Before Ampere, a page with an uncorrectable error is left out from the next load of the
    driver on. Until then a job may still meet it, and a board has room for 64 such pages in its
    life. Newer GPUs replace rows instead (row_remap).
    """
    yield from where_supported(node, _pages, "no GPU of this node retires memory pages")


def _pages(gpu: Gpu) -> Iterator[Sample]:
    pages = gpu.retired_pages()
    if pages is None:
        return
    yield Sample("retired_pages_pending", pages.pending, "", gpu.subject)
    yield Sample("retired_pages", pages.single_bit + pages.double_bit, "pages", gpu.subject)
    yield Sample("retired_pages_single_bit", pages.single_bit, "pages", gpu.subject)
    yield Sample("retired_pages_double_bit", pages.double_bit, "pages", gpu.subject)
