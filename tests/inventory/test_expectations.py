"""What an inventory may declare of a host."""

import json
from importlib import resources
from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory.expectations import NEEDS, VARIABLES, expectations
from hwcheck.inventory.variables import Variables
from hwcheck.run.plan import NODE_SETTINGS


def variables(**raw: object) -> Variables:
    return Variables("node01.example", raw, "cluster.yml")


ANY_WORD = {"driver_version", "gpu_model", "kernel", "hypervisor", "interface"}


@pytest.mark.parametrize("name", VARIABLES)
def test_every_variable_says_what_it_means_and_refuses_nonsense(name: str) -> None:
    assert VARIABLES[name].meaning
    if name.removeprefix("hwcheck_") not in ANY_WORD:
        with pytest.raises(UsageError, match=name):
            expectations(variables(**{name: "nonsense"}))


WORDS = sorted(ANY_WORD | {"cuda_driver_version", "vbios"})


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize(
    ("value", "kind"), [(570.10, "number"), (True, "boolean"), ("{{ v }}", "number")]
)
def test_a_word_that_yaml_took_for_a_number_is_refused(name: str, value: object, kind: str) -> None:
    declared = variables(**{f"hwcheck_{name}": value, "v": 570.10})
    with pytest.raises(UsageError, match=f"was read as a {kind}; write it in quotes") as caught:
        expectations(declared)
    assert f"node01.example: hwcheck_{name}: " in str(caught.value)


def test_a_template_may_lead_to_a_word_in_quotes() -> None:
    declared = variables(hwcheck_driver_version="{{ v }}.{{ n }}", v="570.10", n=4)
    assert expectations(declared) == {"driver_version": "570.10.4"}
    declared = variables(hwcheck_power_limit_w="{{ w }}", w=312.5)
    assert expectations(declared) == {"power_limit_w": 312.5}, "a quantity may be a number"


def test_versions_are_read_as_the_node_writes_them() -> None:
    declared = {"hwcheck_cuda_driver_version": "12.8", "hwcheck_vbios": "94.02.5c.00.04"}
    read = expectations(variables(**declared))
    assert read == {"cuda_driver_version": "12.8", "vbios": "94.02.5C.00.04"}


def test_supplies_cables_and_software_are_read() -> None:
    declared = {
        "hwcheck_psu_watts": 13_200,
        "hwcheck_psu_derate": 0.8,
        "hwcheck_host_power_w": "2500",
        "hwcheck_gpu_power_connectors": "8-pin, {{ second }}",
        "hwcheck_torch_version": "2.8.0+cu128",
        "hwcheck_nccl_version": "2.27.3",
    }
    read = expectations(variables(**declared, second="8-pin"))
    assert read == {
        "psu_watts": 13_200.0,
        "psu_derate": 0.8,
        "host_power_w": 2500.0,
        "power_budget_w": 10_560.0,
        "gpu_power_connectors": 375.0,
        "torch_version": "2.8.0+cu128",
        "nccl_version": "2.27.3",
    }
    for name in ("hwcheck_psu_derate", "hwcheck_nccl_version"):
        with pytest.raises(UsageError, match=name):
            expectations(variables(**{name: 1.5, "hwcheck_psu_watts": 1000}))


def test_the_page_on_the_inventory_lists_every_variable() -> None:
    page = (Path(__file__).parents[2] / "docs/inventory.md").read_text()
    assert [name for name in VARIABLES if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize("name", VARIABLES)
def test_null_is_not_declared(name: str) -> None:
    assert expectations(variables(**{name: None})) == {}


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("value", ["", " ", {"x": 1}, ["x"], "{{ nothing }}", "x" * 501])
def test_text_that_is_none_is_refused(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"hwcheck_{name}"):
        expectations(variables(**{f"hwcheck_{name}": value, "nothing": ""}))


@pytest.mark.parametrize("name", NEEDS)
def test_what_would_be_ignored_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}: means nothing without hwcheck_psu_watts"):
        expectations(variables(**{name: 0.5}))
    assert name.removeprefix("hwcheck_") in expectations(
        variables(**{name: 0.5, NEEDS[name]: 1000})
    )


def test_the_run_folder_knows_the_kind_of_every_variable() -> None:
    file = resources.files("hwcheck.results").joinpath("schema/results.schema.json")
    schema = file.read_text("utf-8")
    known = set(json.loads(schema)["$defs"]["expect"]["properties"])
    assert known == {name.removeprefix("hwcheck_") for name in VARIABLES} - NODE_SETTINGS
