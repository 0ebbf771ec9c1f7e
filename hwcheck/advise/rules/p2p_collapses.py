"""PCIe P2P of several pairs at once comes down to next to nothing."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="P2P collapses when several pairs of GPUs copy at once",
    follows="a pair by itself is as fast as it should be, and collectives over all GPUs run at a "
    "fraction of it",
    fix="spread the GPUs so that those of one switch write to one root port; update firmware of "
    "switches and board; compare NCCL_P2P_LEVEL=PXB and NCCL_P2P_DISABLE=1 over every collective, "
    "and test after each upgrade",
    confirm="nvidia-smi topo -m; fab validate --only gpu_pairs; sudo lspci -tv",
    source="local-inference-lab/rtx6kpro, hardware/collapse-report.md (2.7 to 7 GB/s where one "
    "pair has 50; Broadcom PEX890xx or the root complex of the CPU)",
)
def p2p_collapses(case: Case) -> Sign | None:
    """Look for it. ACS explains it better where it is seen."""
    return sign("likely", case.bad("gpu_pairs", "p2p_concurrent_percent"))
