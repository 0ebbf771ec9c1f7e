"""NCCL has a known defect with these GPUs."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="This NCCL has a defect with GPUs of this generation (2.25 on Blackwell)",
    follows="collectives end with an error about shared memory of the kernel",
    fix="bring torch or NCCL to one with NCCL 2.26 or newer",
    confirm="python3 -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'",
    source="NVIDIA/nccl issue 1637, NVIDIA/nccl-tests issue 287",
    role="validation_env",
)
def nccl_too_old(case: Case) -> Sign | None:
    """Look for it. These are NCCL's own words, in the log of a leg that failed."""
    told = [text[:160] for text in case.said("ncclMaxSharedMem")][:2]
    collectives = dict.fromkeys(leg.collective for leg in case.legs)
    failed = [f for name in collectives for f in case.bad(name, "leg_state")]
    return sign("certain", failed if told else (), told)
