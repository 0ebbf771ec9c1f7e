from __future__ import annotations

from hwcheck import checks
from hwcheck.checks.faults_under_load import OF_ACTION, OF_KIND
from hwcheck.checks.shared import xids
from hwcheck.node.nvml.events import KINDS

REGISTRY = checks.load()


def test_every_event_that_is_listened_to_has_a_meaning() -> None:
    assert {*OF_KIND, "xid"} == set(KINDS.values())


def test_every_action_of_the_catalog_counts_as_something() -> None:
    asked = {action for _, action in xids.XID_CATALOG.values()}
    asked |= {*xids.RECOVERY_ACTIONS.values(), *xids.SXID_ACTIONS.values(), xids.UNKNOWN[1]}
    assert asked <= set(OF_ACTION)


def test_idle_then_load_then_what_looks_back_on_it() -> None:
    stages = [(check.after_load, check.load) for check in REGISTRY.values()]
    assert stages == sorted(stages)
    assert list(REGISTRY)[-1] == "faults_under_load"
    assert stages.index((False, True)) > 0
