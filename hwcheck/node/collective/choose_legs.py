"""Which legs can differ on this node, and what the node's own environment is."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Sequence, Tuple

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.collective_spec import EVERY_NODE_LEGS, LOGGING, SITE, SOME_NODE_LEGS, LegPlan
from hwcheck.contract.facts import NcclSetting
from hwcheck.node.interconnect import Interconnect, nvlinks
from hwcheck.node.node import Node

LOGIN = ("process environment", "/etc/environment", "/etc/profile.d/")
"""Origins of what a shell sets."""
ONE = "there are no two GPUs to tell it by"
NO_LINK = "no pair of GPUs has NVLinks"


def choose(node: Node, gpus: int, wanted: Sequence[str]) -> Tuple[LegPlan, ...]:
    """Return the legs of a node with so many GPUs: those ``wanted``, or all that can differ."""
    # Without GPUs the legs are an exercise of themselves; one GPU has no way to choose.
    alone = ONE if gpus == 1 else ""
    plans = [replace(plan, absent=alone if plan.env else "") for plan in EVERY_NODE_LEGS]
    absent = _absent_by_links(node, gpus)
    plans += [replace(plan, absent=absent[plan.name]) for plan in SOME_NODE_LEGS]
    plans.append(_site(node.host.nccl_settings()) if gpus else LegPlan(SITE, {}, ONE))
    if wanted:
        return tuple(plan for plan in plans if plan.name in wanted)
    return tuple(plan for plan in plans if not plan.absent)


def _absent_by_links(node: Node, gpus: int) -> Dict[str, str]:
    """Return why the legs that tell NVLink and PCIe apart cannot differ; empty where they can."""
    if gpus < 2:
        return dict.fromkeys(("nvlink_only", "p2p_sys"), ONE)
    try:
        linked = [nvlinks(one, other) > 0 for one, other in Interconnect(node).pairs()]
    except CouldNotMeasure as error:
        return dict.fromkeys(("nvlink_only", "p2p_sys"), str(error))
    by_pcie = "" if not all(linked) else "every pair of GPUs has NVLinks"
    return {"p2p_sys": by_pcie, "nvlink_only": by_pcie or ("" if any(linked) else NO_LINK)}


def _site(settings: Sequence[NcclSetting]) -> LegPlan:
    """Return the leg with what is in force here. What comes from a file NCCL reads by itself."""
    in_force = [each for each in settings if not each.name.startswith(LOGGING)]
    login_env = {each.name: each.value for each in in_force if each.origin.startswith(LOGIN)}
    return LegPlan(
        SITE, login_env, "" if in_force else "nothing sets an NCCL variable on this node"
    )
