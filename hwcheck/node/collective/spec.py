"""What is measured: the legs, their environments, and the orders handed to the launcher."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Dict, Mapping, Tuple

from hwcheck.wire import Request

MIB = 1024 * 1024
CPU_RANKS = 2
SYSTEM_CONF = "/etc/nccl.conf"
SYSTEM_CONF_NOTE = SYSTEM_CONF + " exists: NCCL reads it in every leg"

# A leg starts from an environment without these: a value left in a profile or in an image would
# make the leg something else than its name says. CUDA_VISIBLE_DEVICES goes because every GPU of
# the node is measured.
FOREIGN_PREFIXES = ("NCCL_", "TORCH_NCCL_", "GLOO_", "TORCH_DISTRIBUTED_", "CUDA_VISIBLE_DEVICES")

# Set for every leg: what is recorded and where, not how data travels. PCI order makes rank n GPU n
# of NVML; NCCL_CONF_FILE stands in for ~/.nccl.conf (NCCL user guide, "Environment variables").
# Nothing stands in for SYSTEM_CONF, which sets what is not set yet (NVIDIA/nccl,
# src/misc/param.cc).
COMMON_ENV = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,ENV,P2P,SHM,NET",
    "NCCL_CONF_FILE": "/dev/null",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
}

# Several ranks on one GPU: NCCL refuses a GPU twice on one host, so each rank is a host of its own.
ONE_GPU_ENV = {
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_NET": "Socket",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_IB_DISABLE": "1",
    "NCCL_MNNVL_ENABLE": "0",
}


@dataclass(frozen=True)
class LegPlan:
    """A leg's name and the variables that make it what it is."""

    name: str
    env: Mapping[str, str]


LEGS = (
    LegPlan("default", {}),
    LegPlan("p2p_off", {"NCCL_P2P_DISABLE": "1"}),
    LegPlan("net", {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}),
)


@dataclass(frozen=True)
class Spec:
    """The launcher's orders.

    ``gpus`` 0 means gloo on the CPU. ``budget_s`` is for the import of torch and all legs
    together; a leg is killed ``grace_s`` after its share of it: that long may a healthy start
    take on top. ``one_gpu`` puts every rank on GPU 0, each as a host of its own.
    """

    collective: str
    ranks: int
    gpus: int
    budget_s: float
    memory_available_bytes: int
    legs: Tuple[LegPlan, ...] = LEGS
    min_bytes: int = MIB
    max_bytes: int = 1024 * MIB
    warmups: int = 5
    iterations: int = 20
    grace_s: float = 30.0
    one_gpu: bool = False

    @property
    def backend(self) -> str:
        """``nccl`` or ``gloo``."""
        return "nccl" if self.gpus else "gloo"

    def to_json(self) -> str:
        """Return the orders as one JSON object."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Spec:
        """Rebuild from ``to_json``; raises TypeError when a key is unknown or missing."""
        data: Dict[str, Any] = json.loads(text)
        data["legs"] = tuple(LegPlan(**leg) for leg in data["legs"])
        return cls(**data)


def plan(request: Request, collective: str, gpus: int, memory_available_bytes: int) -> Spec:
    """Return the orders for one node: one rank for each GPU, or two on the CPU where none is."""
    return Spec(
        collective=collective,
        ranks=gpus or CPU_RANKS,
        gpus=gpus,
        budget_s=request.budget_s,
        memory_available_bytes=memory_available_bytes,
    )


def rank_environment(
    spec: Spec, leg: LegPlan, rank: int, outside: Mapping[str, str]
) -> Dict[str, str]:
    """Return the whole environment of one rank, given the one that it would inherit."""
    env = {name: value for name, value in outside.items() if not name.startswith(FOREIGN_PREFIXES)}
    env.update(COMMON_ENV)
    if not spec.gpus:
        env["GLOO_SOCKET_IFNAME"] = "lo"
    if spec.one_gpu:
        env.update(ONE_GPU_ENV, NCCL_HOSTID="hwcheck-%d" % rank)
    env.update(leg.env)
    return env


def size_text(size_bytes: int) -> str:
    """Return ``64 MiB``, ``512 KiB`` or ``100 B``."""
    for unit, scale in (("MiB", MIB), ("KiB", 1024)):
        if size_bytes >= scale:
            return "%g %s" % (size_bytes / scale, unit)
    return "%d B" % size_bytes
