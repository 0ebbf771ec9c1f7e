"""Shared memory cannot hold NCCL's segments."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="Shared memory (/dev/shm) is too small for NCCL",
    follows="NCCL ends with 'No space left on device' as soon as some GPUs talk through host "
    "memory",
    fix="start the container with --shm-size=1g or more (Kubernetes: an emptyDir of medium "
    "Memory at /dev/shm), and delete what dead jobs left there; never set "
    "NCCL_SHM_DISABLE for it",
    confirm="df -h /dev/shm; ls -la /dev/shm",
    source="NCCL User Guide, Troubleshooting, Shared memory; NVIDIA/nccl issues 290, 342 and "
    "525, pytorch/ci-infra issue 490",
)
def shm_too_small(case: Case) -> Sign | None:
    """Look for it. The size alone is enough, and so are NCCL's own words."""
    own = case.bad("shm_size")
    collectives = dict.fromkeys(leg.collective for leg in case.legs)
    failed = [f for name in collectives for f in case.leg_findings(name, ("default", "p2p_off"))]
    words = [text[:160] for text in case.said("No space left") if "shm" in text][:2]
    if not own and not words:
        return None
    inside = ["virtualization: the login is in a container"] if case.container else []
    return sign("certain", (*own, *failed), [*inside, *words])
