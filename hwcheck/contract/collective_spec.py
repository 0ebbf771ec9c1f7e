"""What is measured: the legs, their environments, and the orders handed to the launcher."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, Mapping, Tuple

from hwcheck.contract.wire import COLLECTIVES, Request

MIB = 1024 * 1024
CPU_RANKS = 2
TOO_SMALL = "every size has less than 16 bytes for each rank"
SILENCE_S = 10.0
FLOOR_GBPS = 0.1  # no way between two ranks of a node that works is slower
NOISE = 1.25  # what was timed once may take a quarter more the next time
SYSTEM_CONF = "/etc/nccl.conf"
SYSTEM_CONF_NOTE = SYSTEM_CONF + " exists: NCCL reads it in every leg"
USER_CONF_NOTE = "~/.nccl.conf exists: NCCL before 2.23 reads it in every leg"

# A leg starts from an environment without these: a value left in a profile or in an image would
# make the leg something else than its name says. CUDA_VISIBLE_DEVICES goes because every GPU of
# the node is measured.
FOREIGN_PREFIXES = (
    *("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "GLOO_", "TORCH_DISTRIBUTED_"),
    "CUDA_VISIBLE_DEVICES",
)

# Set for every leg: what is recorded and where, not how data travels. PCI order makes rank n GPU n
# of NVML. An empty NCCL_DEBUG_FILE is stdout (NVIDIA/nccl, src/debug.cc), and being set it keeps
# NCCL from the file that /etc/nccl.conf may name: there nobody would find the proof of a leg.
COMMON_ENV = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,ENV,P2P,SHM,NET,NVLS,TUNING",
    "NCCL_DEBUG_FILE": "",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
}
LOGGING = "NCCL_DEBUG"
"""NCCL_DEBUG, NCCL_DEBUG_FILE and so on: they say what is printed and not how data goes."""

# In place of ~/.nccl.conf (NCCL user guide, "Environment variables"; since 2.23), but in the leg
# "site". Nothing stands in for SYSTEM_CONF, see conf_files.
NO_CONF = {"NCCL_CONF_FILE": "/dev/null"}

# Torch's flight recorder (docs.pytorch.org, "Flight Recorder"): 64 collectives, under its new name
# and its old one. Torch would dump it to files at its own time limit.
RECORDER_ENV = {
    "TORCH_FR_BUFFER_SIZE": "64",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "64",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
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
    """A leg's name and the variables that make it what it is; or why it cannot differ here."""

    name: str
    env: Mapping[str, str]
    absent: str = ""


SECOND_TRY: Mapping[str, Mapping[str, str]] = {"net": {"NCCL_NET": "Socket"}}
"""What is added to a leg's variables where it failed: a network plugin that cannot be used inside
one node does not make a bad node (NCCL user guide, NCCL_NET)."""

PAIRS = "gpu_pairs"
"""The check that has every two GPUs copy to each other."""

DIAGNOSTICS = "nccl_diagnostics"
"""The check that has NCCL run its own diagnostics."""

SITE = "site"
"""The leg that keeps the node's own NCCL environment."""

EVERY_NODE_LEGS = (
    LegPlan("default", {}),
    LegPlan("p2p_off", {"NCCL_P2P_DISABLE": "1"}),
    LegPlan("net", {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}),
)
"""The legs of every node."""

SOME_NODE_LEGS = (
    LegPlan("nvlink_only", {"NCCL_P2P_LEVEL": "NVL"}),
    LegPlan("p2p_sys", {"NCCL_P2P_LEVEL": "SYS"}),
)
"""Legs of nodes on which they can differ; beside ``site``, whose environment is the node's."""


@dataclass(frozen=True)
class CollectiveSpec:
    """The launcher's orders.

    ``gpus`` 0 means gloo on the CPU. ``budget_s`` is for the timing of all legs of all collectives
    together; a turn ends ``grace_s`` after its share of it, which counts from its first verified
    run. ``turns``: how often the sizes that are compared are timed, as far as the budget goes.
    ``one_gpu`` puts every rank on GPU 0, each as a host of its own. With ``pairs`` every two GPUs
    copy to each other before the legs, outside the budget, each from the CPUs near it:
    ``near_cpus`` has them for each GPU (``0-31,64-95``), empty where unknown. With ``diagnostics``
    NCCL runs its own after the legs, outside the budget too.

    The start of a turn is outside the budget too. Processes, CUDA contexts and the communicator
    have ``start_s``: 1 to 4 s usually, a minute on a cold DGX B200 (NVIDIA/nccl issue 1646). What
    the communicator connects at its first collective (NCCL 2.22 on, NCCL_RUNTIME_CONNECT) has
    ``connect_s`` from then on.
    """

    collectives: Tuple[str, ...]
    ranks: int
    gpus: int
    budget_s: float
    memory_available_bytes: int
    legs: Tuple[LegPlan, ...] = EVERY_NODE_LEGS
    min_bytes: int = MIB
    max_bytes: int = 1024 * MIB
    step_factor: int = 2
    warmups: int = 5
    iterations: int = 20
    dtype: str = "float"
    turns: int = 3
    grace_s: float = 30.0
    start_s: float = 120.0
    connect_s: float = 30.0
    one_gpu: bool = False
    pairs: bool = False
    diagnostics: bool = False
    near_cpus: Tuple[str, ...] = ()

    @property
    def backend(self) -> str:
        """``nccl`` or ``gloo``."""
        return "nccl" if self.gpus else "gloo"

    def silence_s(self, size_bytes: int) -> float:
        """Return how long ranks may be silent at a size before that is a hang.

        They speak after each run, which takes no longer than the floor of bandwidth allows.
        """
        return min(SILENCE_S, self.grace_s) + 2 * size_bytes / (FLOOR_GBPS * 1e9)

    def first_run_s(self, size_bytes: int) -> float:
        """Return how long the first run of a turn may take once the communicator is there."""
        return self.connect_s + 2 * size_bytes / (FLOOR_GBPS * 1e9)

    def to_dict(self) -> Dict[str, Any]:
        """Return the orders as plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, orders: Mapping[str, Any]) -> CollectiveSpec:
        """Rebuild from ``to_dict``; raises TypeError when a key is unknown or missing."""
        data = dict(orders)
        data["collectives"] = tuple(data["collectives"])
        data["near_cpus"] = tuple(data.get("near_cpus", ()))
        data["legs"] = tuple(LegPlan(**leg) for leg in data["legs"])
        return cls(**data)


def spec_of(
    request: Request,
    gpus: int,
    memory_available_bytes: int,
    legs: Tuple[LegPlan, ...] = EVERY_NODE_LEGS,
    near_cpus: Tuple[str, ...] = (),
) -> CollectiveSpec:
    """Return the orders for one node: one rank for each GPU, or two on the CPU where none is."""
    timing = request.timing
    return CollectiveSpec(
        collectives=tuple(name for name in COLLECTIVES if name in request.checks),
        ranks=gpus or CPU_RANKS,
        gpus=gpus,
        budget_s=request.budget_s,
        memory_available_bytes=memory_available_bytes,
        legs=legs,
        min_bytes=timing.min_bytes,
        max_bytes=timing.max_bytes,
        step_factor=timing.step_factor,
        warmups=timing.warmups,
        iterations=timing.iterations,
        dtype=timing.dtype,
        pairs=PAIRS in request.checks and gpus > 1,
        diagnostics=DIAGNOSTICS in request.checks and gpus > 1,
        near_cpus=near_cpus,
    )


def rank_environment(
    spec: CollectiveSpec, leg: LegPlan, rank: int, outside: Mapping[str, str]
) -> Dict[str, str]:
    """Return the whole environment of one rank, given the one that it would inherit."""
    env = {name: value for name, value in outside.items() if not name.startswith(FOREIGN_PREFIXES)}
    env.update(COMMON_ENV)
    if leg.name != SITE:
        env.update(NO_CONF)
    if spec.gpus:
        env.update(RECORDER_ENV)
    else:
        env["GLOO_SOCKET_IFNAME"] = "lo"
    if spec.one_gpu:
        env.update(ONE_GPU_ENV, NCCL_HOSTID="hwcheck-%d" % rank)
    env.update(leg.env)
    return env


def size_text(size_bytes: int) -> str:
    """Return ``64 MiB``, ``512 KiB`` or ``100 B``."""
    for unit, scale in (("MiB", MIB), ("KiB", 1024)):
        if size_bytes >= scale:
            # A chunk for each of 3 ranks is a few bytes short of 1024 MiB.
            return "%g %s" % (round(size_bytes / scale, 1), unit)
    return "%d B" % size_bytes
