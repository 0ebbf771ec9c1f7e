"""Limits of the idle checks: each has a case in which it fires, here where tests/cases has none."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.judge.evidence import Known
from hwcheck.limits import Equal, FromFleet
from hwcheck.node.main import run_check
from tests.node.checks.test_cases import FILES, REGISTRY, outcomes, read
from tests.node.fakes import FakeNode

BUS = {"pci_gpus": ["0000:18:00.0"]}
PORT = {"name": "mlx5_0/1", "counters": {"symbol_error": 65535}}
MEMORY = {
    "temperature_c": 40,
    "temperature_slowdown_c": 88,
    "temperature_shutdown_c": None,
    "memory_temperature_c": 92,
    "memory_temperature_max_c": 95,
    "fan_speeds_percent": [],
}
HERE: dict[tuple[str, str, str], tuple[dict[str, Any], dict[str, Any]]] = {
    ("gpu_count", "container_gpus", "fail"): (
        {"container": True, "gpus": [{"pci_address": "0000:18:00.0"}]},
        {"gpus": 2},
    ),
    ("gpu_lost", "recovery_action", "fail"): ({"gpus": [{"loss": "", "recovery_action": 1}]}, {}),
    ("infiniband_ports", "symbol_errors_full", "warn"): ({"rdma_ports": [PORT], "gpus": []}, {}),
    ("nvswitch_fabric", "fabric_manager", "warn"): (
        {
            "nvswitches": ["0000:c4:00.0"],
            "fabric_manager_runs": False,
            "gpus": [{"fabric": None, "mig_mode": None}],
        },
        {},
    ),
    ("thermal_margin", "memory_thermal_margin_c", "warn"): ({"gpus": [MEMORY]}, {}),
}
"""Node and inventory by check, metric and outcome."""


def declared() -> set[tuple[str, str, str]]:
    """Return each outcome that a limit of an idle check on the node itself can give."""
    found = set()
    for name, check in REGISTRY.items():
        for metric in () if check.load or check.after_load else check.metrics:
            for limit in metric.limits:
                if isinstance(limit.operand, FromFleet):
                    continue  # tests/judge: it takes several hosts
                borders = {"fail", "warn"}
                if isinstance(limit, Equal):
                    borders = {limit.otherwise}
                else:
                    borders = {each for each in borders if getattr(limit, each) is not None}
                found |= {(name, metric.name, outcome) for outcome in borders}
    return found


def shown() -> set[tuple[str, str, str]]:
    """Return each outcome that a case shows."""
    return {
        (file.parent.name, key.split()[0], outcome)
        for file in FILES
        for key, outcome in read(file)["outcomes"].items()
    }


def test_every_limit_of_an_idle_check_fires_somewhere() -> None:
    assert declared() - shown() == set(HERE)


@pytest.mark.parametrize("gate", HERE, ids=".".join)
def test_a_limit_fires(gate: tuple[str, str, str]) -> None:
    check, metric, outcome = gate
    node, expect = HERE[gate]
    result = run_check(REGISTRY[check], FakeNode({**BUS, **node}, expect))
    found = outcomes(REGISTRY[check], result, Known(expect, {}, mig=False))
    assert outcome in {each for key, each in found.items() if key.split()[0] == metric}
