"""A PCIe link came up narrower or slower than both ends can."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="A PCIe link runs below what board and slot have",
    follows="copies to and from that GPU, or from all below that switch, are slower by that share, "
    "and so is every ring through it",
    fix="power off, reseat board, riser and cables; swap slots to see whether it follows the "
    "board or the slot; look for a speed limit of the slot in the firmware",
    confirm="nvidia-smi "
    "--query-gpu=index,pcie.link.gen.current,pcie.link.width.current,pcie.link.width.max "
    "--format=csv; sudo lspci -vv | grep -E '^[0-9a-f]|LnkCap:|LnkSta:'",
    source="NVML API Reference Guide, nvmlDeviceGetCurrPcieLinkWidth; NCCL reads the most that a "
    "link could be (src/misc/xml.cc) and does not see it",
)
def pcie_link_degraded(case: Case) -> Sign | None:
    """Look for it. Copies that are slow on the same GPU follow from it."""
    own = (
        *case.bad("pcie_link", "pcie_link_width"),
        *case.bad("pcie_uplinks"),
        *case.bad("pcie_link_under_load", "pcie_width", "pcie_generation"),
    )
    gpus = {finding.subject for finding in own}
    copies = case.of(gpus, "host_to_device", "device_to_host")
    slow = case.bad("gpu_pairs", "p2p_percent_of_alike")
    pairs = [f for f in slow if gpus & set(f.subject.split("-")) and not case.linked(f.subject)]
    return sign("certain", (*own, *copies, *pairs, *case.slow_over_pcie()) if own else ())
