"""The stages of an acceptance: which checks each runs, and what a repair makes it repeat. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hwcheck.contract.check import Check
from hwcheck.results.options import SCOPES

STATE = "state"
MACHINE = ("system", "board", "chassis", "cpu", "memory", "gpu", "psu")
"""Kinds of parts that a load uses; another network card or drive leaves it as it was."""


@dataclass(frozen=True)
class Stage:
    """A stage of single nodes, in a visit of ``profile``, or one over hosts, which has no checks.

    ``void_by`` are the kinds of parts (``gpu``, ``nic``) whose exchange makes a host repeat it;
    with none every call repeats it.
    """

    name: str
    doc: str
    profile: str = "quick"
    void_by: tuple[str, ...] = MACHINE

    @property
    def over_hosts(self) -> bool:
        """Whether it is a run over several hosts at once."""
        return self.name in SCOPES

    def checks(self, checks: Iterable[Check]) -> tuple[str, ...]:
        """Return the checks that it runs on single nodes; none where it is over hosts."""
        return tuple(check.id for check in checks if check.stage == self.name)

    def beside(self, checks: Iterable[Check]) -> tuple[str, ...]:
        """Return checks of other stages that its run repeats: bandwidths are held against them."""
        return tuple(check.id for check in checks if self.name in check.beside)


BOTH = (*MACHINE, "nic")
STAGES: Mapping[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage("inventory", "read parts, versions and cabling", void_by=()),
        Stage(STATE, "assert what the roles promise", void_by=("system", "board", "nvme")),
        Stage("idle", "read settings and health; no load", void_by=()),
        Stage("prove", "break collectives on purpose: the gates must fire"),
        Stage("load", "every GPU at full load to a steady state", "burn_in"),
        Stage("dcgm", "NVIDIA's dcgmi diag, where it is installed"),
        Stage("collectives", "collectives within each node", "standard", BOTH),
        Stage("pairs", "a collective over every two hosts", void_by=BOTH),
        Stage("rails", "a collective over each rail", void_by=BOTH),
        Stage("all", "a collective over the whole set", void_by=BOTH),
    )
}
"""By name, in the order in which a host passes them; each opens the next."""
