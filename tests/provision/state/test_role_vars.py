"""What a role is told: defaults, the inventory over them, templates with their types."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host
from hwcheck.provision.role_vars import defaults, role_vars


def of(variables: dict[str, Any]) -> dict[str, Any]:
    return role_vars(Host("n1", "n1", variables=variables), "system_tuning", "cluster.yml")


def test_the_inventory_comes_before_the_defaults() -> None:
    found = of({"system_tuning_hugepages": 12, "other": 1})
    assert found["system_tuning_hugepages"] == 12
    assert set(found) == set(defaults("system_tuning"))


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("{{ pages }}", 64),
        ("{{ pages * 2 }}", 128),
        ("{{ version }}", "580"),
        ("{{ sysctls }}", {"vm.swappiness": 10}),
        ("{{ pages }} and {{ version }}", "64 and 580"),
        ("{{ 'yes' | bool }}", True),
        (["{{ version }}"], ["580"]),
        ({"a": {"b": "{{ inventory_hostname }}"}}, {"a": {"b": "n1"}}),
        ("{{ to }}", 64),
    ],
)
def test_templates_keep_their_types(value: object, wanted: object) -> None:
    others = {"pages": 64, "version": "580", "sysctls": {"vm.swappiness": 10}, "to": "{{ pages }}"}
    assert of({"system_tuning_hugepages": value, **others})["system_tuning_hugepages"] == wanted


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("{{ ansible_facts.os_family }}", "'ansible_facts' is undefined"),
        ("{{ nosuch }}", "'nosuch' is undefined"),
        ("{{ 1 | nosuch }}", "No filter named 'nosuch'"),
        ("{{ system_tuning_hugepages }}", "refers to itself"),
    ],
)
def test_what_only_ansible_knows_is_refused_by_name(value: str, why: str) -> None:
    with pytest.raises(UsageError, match=r"cluster\.yml: n1: system_tuning_hugepages: ") as caught:
        of({"system_tuning_hugepages": value})
    assert why in str(caught.value)


def test_a_role_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="no role nosuch"):
        defaults("nosuch")
