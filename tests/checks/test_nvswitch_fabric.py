"""nvswitch_fabric on nodes that have NVSwitches on their own bus: the fabric manager has to run."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.judge.host_case import NodeFacts
from hwcheck.node.main import run_check
from hwcheck.testing.cases import outcomes
from hwcheck.testing.fake_node import FakeNode
from tests.checks.test_cases import REGISTRY

BUS = {"pci_gpus": ["0000:18:00.0"], "nvswitches": ["0000:c4:00.0"]}
CHECK = REGISTRY["nvswitch_fabric"]
A100 = {"fabric": None, "mig_mode": None}
H100 = {"fabric": {"state": "completed", "status": "Success"}, "mig_mode": None}


def found(gpu: dict[str, Any], **host: Any) -> dict[str, str]:
    node = FakeNode({**BUS, "gpus": [gpu], **host})
    return outcomes(CHECK, run_check(CHECK, node), NodeFacts({}, {}, mig=False), shipped().models)


@pytest.mark.parametrize("gpu", [A100, H100])
@pytest.mark.parametrize(("runs", "outcome"), [(True, "pass"), (False, "warn")])
def test_a_fabric_manager_that_does_not_run(gpu: dict[str, Any], runs: bool, outcome: str) -> None:
    # Where no GPU registers, what passes is not applicable.
    judged = found(gpu, fabric_manager_runs=runs)
    assert judged.get("fabric_manager node", "pass") == outcome
    assert ("fabric_manager node" in judged) == (gpu is H100 or not runs)


@pytest.mark.parametrize(
    "host",
    [
        {"fabric_manager_runs": None},
        {"fabric_manager_runs": False, "container": True},
        {"fabric_manager_runs": False, "nvswitches": []},
    ],
)
def test_where_it_cannot_be_seen_or_need_not_run(host: dict[str, Any]) -> None:
    assert "fabric_manager node" not in found(H100, **host)
