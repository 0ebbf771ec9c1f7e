"""Only sockets work between the processes of a node."""

from __future__ import annotations

from hwcheck.advise.case import WITH_P2P, Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.numa_calls import wants_numa_calls
from hwcheck.advise.rule import rule
from hwcheck.judge.legs import is_clean


@rule(
    title="Processes may not share GPU or host memory here (CUDA IPC, /dev/shm)",
    follows="NCCL fails with P2P and with shared memory, and works over sockets at a fraction of "
    "the speed",
    fix="run the ranks in one container with a shared /dev/shm (--ipc=host or --shm-size=1g); "
    "in a virtual machine ask for CUDA IPC; until then NCCL_P2P_DISABLE=1 and "
    "NCCL_SHM_DISABLE=1",
    confirm="df -h /dev/shm; systemd-detect-virt; ipcs -m",
    source="PrimeIntellect-ai/prime-rl issue 2236; NCCL User Guide, Troubleshooting, Shared memory",
)
def ipc_blocked(case: Case) -> Sign | None:
    """Look for it. The legs default and p2p_off have to be bad, and net clean."""
    own = [
        finding
        for leg in case.legs
        if leg.leg == "net" and is_clean(leg)
        for finding in case.leg_findings(leg.collective, ("p2p_off", *WITH_P2P))
    ]
    both = {finding.subject for finding in own} >= {"leg default", "leg p2p_off"}
    inside = (case.vm or case.container) and not wants_numa_calls(case)
    return sign("likely" if inside else "possible", own if both else ())
