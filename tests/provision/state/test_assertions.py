"""Every assertion, on nodes that are as wanted and on nodes that have drifted (cases/*.yml)."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hwcheck.inventory.inventory import Cluster, Host
from hwcheck.provision.role_vars import RoleVars, defaults
from hwcheck.provision.state.asserts import Asserts, NotMeasuredError
from hwcheck.provision.state.cases import Cases, roles_with_assertions
from hwcheck.shipped import parse_yaml
from tests.provision.state.fake_host import FakeHost

CASES = Path(__file__).parent / "cases"
ROLES = Path(__file__).parents[3] / "roles"
OF_NO_STATE = {"node_hardware", "node_reboot", "node_service", "refusals"}
"""Roles that change nothing by themselves that could be asserted."""


def cases() -> Iterator[Any]:
    for file in sorted(CASES.glob("*.yml")):
        for number, case in enumerate(parse_yaml(file.read_text())):
            yield pytest.param(file.stem, case, id=f"{file.stem}-{number}-{case['outcome']}")


def functions(role: str) -> dict[str, Callable[..., None]]:
    module = importlib.import_module(f"hwcheck.provision.state.test_{role}")
    found = inspect.getmembers(module, inspect.isfunction)
    return {name: function for name, function in found if name.startswith("test_")}


def outcome(role: str, case: Mapping[str, Any]) -> tuple[str, str]:
    """Run an assertion as the engine would, on a node that answers as the case says."""
    function = functions(role)[case["test"]]
    cluster = Cluster((Host("node", "node"),), "cluster.yml")
    role_vars = RoleVars({**defaults(role), **case.get("role", {})})
    made = Cases(cluster, (role,), {"node": role_vars}).of(function)
    if not made:
        return "not asserted", ""
    (asserted,) = [each for each in made if each.label == case.get("element", made[0].label)]
    node = FakeHost(case.get("node", {}))
    values = {"host": node, "wanted": asserted.wanted, "role": asserted.role_vars}
    try:
        applies = getattr(inspect.getmodule(function), "applies", None)
        if applies is not None:
            applies(node, asserted.role_vars)
        function(**{name: values[name] for name in inspect.signature(function).parameters})
    except AssertionError as error:
        return "fail", str(error).splitlines()[0]
    except pytest.skip.Exception as error:
        return "not applicable", str(error)
    except NotMeasuredError as error:
        return "inconclusive", str(error)
    return "pass", ""


@pytest.mark.parametrize(("role", "case"), list(cases()))
def test_the_outcome_and_its_reason(role: str, case: Mapping[str, Any]) -> None:
    found, reason = outcome(role, case)
    assert found == case["outcome"], reason
    assert case.get("reason", "") in reason


@pytest.mark.parametrize("role", roles_with_assertions())
def test_every_assertion_has_a_node_that_passes_and_one_that_drifted(role: str) -> None:
    listed = {(case["test"], case["outcome"]) for case in _listed(role)}
    for name in functions(role):
        assert {(name, "pass"), (name, "fail")} <= listed


@pytest.mark.parametrize("role", roles_with_assertions())
def test_every_assertion_is_about_a_variable_of_its_role(role: str) -> None:
    for name, function in functions(role).items():
        about = getattr(function, "asserts", None)
        assert isinstance(about, Asserts), name
        assert about.variable in defaults(role), name


def test_every_role_has_assertions() -> None:
    roles = {path.name for path in ROLES.iterdir() if path.is_dir()}
    assert set(roles_with_assertions()) == roles - OF_NO_STATE


def _listed(role: str) -> list[dict[str, Any]]:
    found = parse_yaml((CASES / f"{role}.yml").read_text())
    assert isinstance(found, list)
    return found
