"""A container refuses NCCL the NUMA calls that it needs."""

from __future__ import annotations

from collections.abc import Iterator

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.numa_calls import wants_numa_calls
from hwcheck.advise.rule import rule
from hwcheck.judge.legs import is_clean
from hwcheck.judge.records import Finding

WORDS = ("cuMem host", "cuMemHost", "shm.cc", "get_mempolicy")


@rule(
    title="The container refuses the NUMA calls that NCCL 2.24 to 2.26.4 needs for shared memory",
    follows="NCCL fails as soon as two GPUs talk through host memory, with an error of CUDA that "
    "names no reason",
    fix="start the container with --cap-add SYS_NICE, or take NCCL 2.26.5 or newer; until then "
    "NCCL_CUMEM_HOST_ENABLE=0",
    confirm="numactl -s; grep Seccomp /proc/self/status; python3 -c 'import torch; "
    "print(torch.cuda.nccl.version())'",
    source="NCCL User Guide, Troubleshooting, NUMA support in containers; pytorch/pytorch issue "
    "152302 (2.26.2: NCCL_CUMEM_HOST_ENABLE=0 helps; 2.26.5 falls back by itself)",
)
def numa_calls_blocked(case: Case) -> Sign | None:
    """Look for it. Shared memory has to fail, the network not, in a container or in these words."""
    own = tuple(_failed(case)) if wants_numa_calls(case) else ()
    told = list(dict.fromkeys(text[:160] for word in WORDS for text in case.said(word)))[:2]
    if not (case.container or told) or any(case.said("No space left")):
        return None
    inside = ["virtualization: the login is in a container"] if case.container else []
    return sign("likely", own, [*inside, *told])


def _failed(case: Case) -> Iterator[Finding]:
    for leg in case.legs:
        if leg.leg != "net" or not is_clean(leg):
            continue
        failed = case.leg_findings(leg.collective, ("p2p_off", "default", "site"))
        if any(f.subject == "leg p2p_off" and f.value == "failed" for f in failed):
            yield from failed
