"""BAR1 does not reach all of a GPU's memory."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="The window into GPU memory (BAR1) is smaller than the memory",
    follows="peers and network cards cannot map it: P2P fails with error 205 or goes through the "
    "host",
    fix="switch on Above 4G Decoding and Resizable BAR in the firmware; on boards with a "
    "display mode choose the compute mode",
    confirm="nvidia-smi -q -d MEMORY; sudo lspci -vv -d 10de: | grep -A3 'Resizable BAR'",
    source="NVIDIA GPUDirect RDMA documentation, PCI BAR sizes; tinygrad/open-gpu-kernel-modules "
    "issues 36 and 44",
)
def bar1_small(case: Case) -> Sign | None:
    """Look for it. What a guest reads of BAR1 is not to be trusted."""
    own = case.bad("bar1_size", "bar1_total_bytes")
    if case.vm or not own:
        return None
    return sign("certain", (*own, *case.p2p_trouble(over_pcie=True)))
