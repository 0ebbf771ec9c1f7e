"""The stages of an acceptance: which checks each runs, and what a repair makes it repeat. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hwcheck.node import checks
from hwcheck.node.check import STAGES as CHECK_STAGES
from hwcheck.results.multi_host import SCOPES

STATE = "state"
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
    checks: tuple[str, ...] = ()
    profile: str = "quick"
    void_by: tuple[str, ...] = MACHINE
    beside: tuple[str, ...] = ()

    @property
    def over_hosts(self) -> bool:
        """Whether it is a run over several hosts at once."""
        return self.name in SCOPES


def _stages() -> Mapping[str, Stage]:
    every = checks.load().values()
    by_stage = {name: tuple(c.id for c in every if c.stage == name) for name in CHECK_STAGES}
    beside = {name: tuple(c.id for c in every if name in c.beside) for name in CHECK_STAGES}
    both = (*MACHINE, "nic")
    stages = (
        Stage("inventory", "read parts, versions and cabling", void_by=()),
        Stage(STATE, "assert what the roles promise", void_by=("system", "board", "nvme")),
        Stage("idle", "read settings and health; no load", void_by=()),
        Stage("prove", "break collectives on purpose: the gates must fire"),
        Stage("load", "every GPU at full load to a steady state", profile="burn_in"),
        Stage("dcgm", "NVIDIA's dcgmi diag, where it is installed"),
        Stage("collectives", "collectives within each node", profile="standard", void_by=both),
        Stage("pairs", "a collective over every two hosts", void_by=both),
        Stage("rails", "a collective over each rail", void_by=both),
        Stage("all", "a collective over the whole set", void_by=both),
    )
    return {
        stage.name: replace(
            stage, checks=by_stage.get(stage.name, ()), beside=beside.get(stage.name, ())
        )
        for stage in stages
    }


STAGES = _stages()
"""By name, in the order in which a host passes them; each opens the next."""
