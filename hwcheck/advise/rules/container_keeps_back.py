"""A container keeps back what its host has."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="The container keeps from NCCL what the host has",
    follows="jobs in containers of this kind fail, or go a slower way than the host could",
    fix="start it with --ipc=host (or --shm-size=1g), --ulimit memlock=-1, "
    "--device=/dev/infiniband and --cap-add SYS_NICE; on Kubernetes an emptyDir of medium Memory "
    "at /dev/shm, the RDMA device plugin and IPC_LOCK",
    confirm="df -h /dev/shm; ulimit -l; ls /dev/infiniband; grep -E 'Cap|Seccomp' "
    "/proc/self/status",
    source="NCCL User Guide, Troubleshooting, Shared memory and Networking issues; Docker "
    "documentation, docker run",
)
def container_keeps_back(case: Case) -> Sign | None:
    """Look for it. Two such things at once come from how it was started, not from the host."""
    if not case.container:
        return None
    collectives = dict.fromkeys(leg.collective for leg in case.legs)
    shm = case.bad("shm_size")
    small = shm or any("shm" in text for text in case.said("No space left"))
    legs = [f for name in collectives for f in case.leg_findings(name, ("default", "p2p_off"))]
    kept = [
        (*shm, *(legs if small else ())),
        case.bad("memlock", "memlock_unlimited"),
        case.of_legs("network_transport", "network_ports"),
    ]
    found = [findings for findings in kept if findings]
    confidence = "certain" if len(found) > 1 else "possible"
    own = [finding for findings in found for finding in findings]
    return sign(confidence, own, ["virtualization: the login is in a container"])
