"""Scenarios on the hosts of a lab."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.lab.lab import Node, Prepare
from tests.lab.scenario import Scenario, load

BOARDS = uuid.uuid5(uuid.NAMESPACE_URL, "urn:hwcheck:lab:boards")
SERIAL_DIGITS = 13


def prepare(scenario: str, faults: Mapping[str, str]) -> Prepare:
    """Return what makes every node that of a scenario, with a fault by the node's name.

    Raises ScenarioError when the scenario or a fault cannot be read.
    """
    healthy = load(scenario)
    faulty = {name: load(scenario, fault) for name, fault in faults.items()}

    def install(node: Node) -> Mapping[str, object]:
        return install_on(node, faulty.get(node.name, healthy))

    return install


def install_on(node: Node, scenario: Scenario) -> Mapping[str, object]:
    """Make a node that of a scenario, with GPUs of its own; return its inventory variables."""
    if scenario.nvml is not None:
        scenario = replace(scenario, nvml=with_own_boards(scenario.nvml, node.name))
    environment, variables = scenario.install(node.folder / "scenario")
    node.environment |= environment
    return variables


def with_own_boards(answers: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Return NVML's answers with identifiers and serial numbers that no other owner's GPUs have.

    What was equal within the node stays equal.
    """
    gpus = []
    for gpu in answers.get("gpus", ()):
        own = dict(gpu)
        if "uuid" in own:
            own["uuid"] = "GPU-" + str(uuid.uuid5(BOARDS, f"{owner} {gpu['uuid']}"))
        if "serial" in own:
            number = uuid.uuid5(BOARDS, f"{owner} {gpu['serial']}").int % 10**SERIAL_DIGITS
            own["serial"] = f"{number:0{SERIAL_DIGITS}}"
        gpus.append(own)
    return {**answers, "gpus": gpus}
