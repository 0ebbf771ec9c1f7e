"""The stages of an acceptance: which checks each runs, and what a repair makes it repeat. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hwcheck.node import checks
from hwcheck.node.wire import COLLECTIVES
from hwcheck.results.multi_host import SCOPES

INVENTORY = (
    *("gpu_count", "gpu_model", "gpu_lost", "serials", "parts", "cabling", "nvme_drives"),
    *("inforom", "vbios", "driver", "cuda_driver", "kernel", "software_versions", "tool_versions"),
    "virtualization",
)
"""What is there, and in which versions."""
STATE = "state"
GATES = "gate_proof"
SECOND_OPINION = "dcgm_diag"


LINKS = (
    *("topology", "pcie_link", "nvlink_state", "p2p_status", "infiniband_ports", "peermem"),
    *("driver", "software_versions", "virtualization"),
)
"""What a bandwidth of the node's own links is held against."""

MACHINE = ("system", "board", "chassis", "cpu", "memory", "gpu", "psu")
"""Kinds of parts that a load uses; another network card or drive leaves it as it was."""


@dataclass(frozen=True)
class Stage:
    """``checks`` run on single nodes, in a visit of ``profile``; none where it is over hosts.

    ``void_by`` are the kinds of parts (``gpu``, ``nic``) whose exchange makes a host repeat it;
    with none every call repeats it. ``beside`` are checks of other stages that its run repeats,
    since a bandwidth is held against what they say of links and software.
    """

    name: str
    doc: str
    checks: tuple[str, ...]
    profile: str = "quick"
    void_by: tuple[str, ...] = MACHINE
    beside: tuple[str, ...] = ()

    @property
    def over_hosts(self) -> bool:
        """Whether it is a run over several hosts at once."""
        return self.name in SCOPES


def _stages() -> Mapping[str, Stage]:
    every = checks.load()
    idle = tuple(name for name, check in every.items() if not (check.load or name in INVENTORY))
    timed = tuple(name for name in every if name in COLLECTIVES)
    rest = {*INVENTORY, *idle, *timed, GATES, SECOND_OPINION}
    load = tuple(name for name in every if name not in rest)
    both = (*MACHINE, "nic")
    stages = (
        Stage("inventory", "read parts, versions and cabling", INVENTORY, void_by=()),
        Stage(STATE, "assert what the roles promise", (), void_by=("system", "board", "nvme")),
        Stage("idle", "read settings and health; no load", idle, void_by=()),
        Stage("prove", "break collectives on purpose: the gates must fire", (GATES,)),
        Stage("load", "every GPU at full load to a steady state", load, "burn_in", beside=LINKS),
        Stage("dcgm", "NVIDIA's dcgmi diag, where it is installed", (SECOND_OPINION,)),
        Stage("collectives", "collectives within each node", timed, "standard", both, LINKS),
        Stage("pairs", "a collective over every two hosts", (), void_by=both),
        Stage("rails", "a collective over each rail", (), void_by=both),
        Stage("all", "a collective over the whole set", (), void_by=both),
    )
    return {stage.name: stage for stage in stages}


STAGES = _stages()
"""By name, in the order in which a host passes them; each opens the next."""
