"""The switches do not add up for all_reduce."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule

NVLS = "add up"
"""Words of an expectation that reckons with it."""


@rule(
    title="NVLink SHARP (NVLS) is not in use although the switches have it",
    follows="all_reduce runs as a ring, at about three quarters of what the node can do",
    fix="look for NCCL_NVLS_ENABLE=0 or NCCL_ALGO in force, and for 'Failed to bind NVLink "
    "SHARP' in NCCL's log: then restart or repair the fabric manager",
    confirm="env | grep -E 'NCCL_(NVLS|ALGO)'; systemctl status nvidia-fabricmanager; "
    "NCCL_DEBUG=INFO with any job",
    source="NVIDIA/nccl src/graph/tuning.cc; pytorch/pytorch issue 177472; 8 H200 reach 482 GB/s "
    "with it and 368 without (ml-engineering)",
)
def nvls_unused(case: Case) -> Sign | None:
    """Look for it. NCCL says in its log whether it made the channels."""
    slow = [finding for finding in case.slow() if NVLS in finding.limit]
    without = {f"leg {leg.leg}" for leg in case.legs if leg.transport.get("nvls") is False}
    unbound = [text[:160] for text in case.said("Failed to bind NVLink SHARP")][:1]
    own = slow if unbound else [finding for finding in slow if finding.subject in without]
    also = unbound or ["NCCL made no NVLS channel"]
    return sign("certain" if unbound else "likely", own, also)
