"""Which assertions a run has."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Cluster, Host
from hwcheck.provision.role_vars import RoleVars, defaults
from hwcheck.provision.state import test_nccl, test_system_tuning
from hwcheck.provision.state.cases import Cases
from hwcheck.provision.state.request import choose_roles


def cases(*roles: str, problem: str = "", **variables: Any) -> Cases:
    """Return the cases of two hosts; the first has these variables, and this problem."""
    plain = {name: value for role in roles for name, value in defaults(role).items()}
    wrong = {next(iter(plain)): problem} if problem else {}
    role_vars = {"n1": RoleVars({**plain, **variables}, wrong), "n2": RoleVars(plain)}
    return Cases(Cluster((Host("n1", "n1"), Host("n2", "n2")), "cluster.yml"), roles, role_vars)


def test_every_element_is_a_case_of_its_own() -> None:
    made = cases("system_tuning", system_tuning_sysctls={"vm.a": 1, "vm.b": 2})
    found = made.of(test_system_tuning.test_sysctl)
    assert [case.id for case in found][:3] == ["n1-vm.a", "n1-vm.b", "n2-vm.zone_reclaim_mode"]
    assert found[1].wanted == ("vm.b", 2)
    assert made.counts == {"n1": 2, "n2": len(found) - 2}


@pytest.mark.parametrize("nothing", [None, "", "unmanaged", [], {}])
def test_what_is_left_alone_is_not_asserted(nothing: object) -> None:
    made = cases("system_tuning", system_tuning_cpu_governor=nothing)
    found = made.of(test_system_tuning.test_cpu_governor)
    assert [case.id for case in found] == ["n2"]


def test_where_a_variable_is_not_known_each_test_of_the_role_says_so() -> None:
    found = cases("system_tuning", problem="no").of(test_system_tuning.test_sysctl)
    assert [(each.id, each.problem) for each in found][:2] == [
        ("n1", f"{next(iter(defaults('system_tuning')))}: no"),
        ("n2-vm.zone_reclaim_mode", ""),
    ]


def test_a_role_that_is_not_asked_for_has_no_case() -> None:
    assert cases("system_tuning").of(test_nccl.test_package) == []


def test_a_test_that_names_no_variable_is_refused() -> None:
    def without_variable() -> None: ...

    without_variable.__module__ = "hwcheck.provision.state.test_nccl"
    with pytest.raises(UsageError, match="without_variable: say with @asserts"):
        cases("nccl").of(without_variable)


def test_roles_are_chosen_by_name() -> None:
    assert choose_roles("rdma, nccl") == ("nccl", "rdma")
    assert set(choose_roles(None)) > {"nccl", "rdma"}
    for text in ("nosuch", "", ","):
        with pytest.raises(UsageError, match="no role with assertions"):
            choose_roles(text)
