"""Settings of a host and expectations of it: the ``hwcheck_`` variables."""

import json
from dataclasses import fields
from importlib import resources
from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory.expectations import (
    EXPECTATIONS,
    NEEDS,
    SETTINGS,
    VARIABLES,
    HostSettings,
    expectations,
    refuse_unknown,
    settings,
)
from hwcheck.inventory.variables import Variables


def variables(**raw: object) -> Variables:
    return Variables("node01.example", raw, "cluster.yml")


def read(**raw: object) -> tuple[HostSettings, dict[str, object]]:
    """Return what both kinds of variables come down to."""
    written = variables(**raw)
    return settings(written), expectations(written)


ANY_WORD = {
    *("driver_version", "gpu_model", "kernel", "hypervisor", "interface", "nvlink_domain"),
    *("rack", "power_feed", "scheduler_node"),
}


@pytest.mark.parametrize("name", [*SETTINGS, *EXPECTATIONS])
def test_every_variable_says_what_it_means_and_refuses_nonsense(name: str) -> None:
    assert {**SETTINGS, **EXPECTATIONS}[name].meaning
    if name.removeprefix("hwcheck_") not in ANY_WORD:
        with pytest.raises(UsageError, match=name):
            read(**{name: "nonsense"})


WORDS = sorted(ANY_WORD | {"cuda_driver_version", "vbios"})


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize(
    ("value", "kind"), [(570.10, "number"), (True, "boolean"), ("{{ v }}", "number")]
)
def test_a_word_that_yaml_took_for_a_number_is_refused(name: str, value: object, kind: str) -> None:
    declared = {f"hwcheck_{name}": value, "v": 570.10}
    with pytest.raises(UsageError, match=f"was read as a {kind}; write it in quotes") as caught:
        read(**declared)
    assert f"node01.example: hwcheck_{name}: " in str(caught.value)


def test_a_template_may_lead_to_a_word_in_quotes() -> None:
    declared = variables(hwcheck_driver_version="{{ v }}.{{ n }}", v="570.10", n=4)
    assert expectations(declared) == {"driver_version": "570.10.4"}
    declared = variables(hwcheck_power_limit_w="{{ w }}", w=312.5)
    assert expectations(declared) == {"power_limit_w": 312.5}, "a quantity may be a number"


def test_versions_are_read_as_the_node_writes_them() -> None:
    declared = {"hwcheck_cuda_driver_version": "12.8", "hwcheck_vbios": "94.02.5c.00.04"}
    assert expectations(variables(**declared)) == {
        "cuda_driver_version": "12.8",
        "vbios": "94.02.5C.00.04",
    }


def test_supplies_cables_and_software_are_read() -> None:
    declared = {
        "hwcheck_psu_watts": 13_200,
        "hwcheck_psu_derate": 0.8,
        "hwcheck_host_power_w": "2500",
        "hwcheck_gpu_power_connectors": "8-pin, {{ second }}",
        "hwcheck_torch_version": "2.8.0+cu128",
        "hwcheck_nccl_version": "2.27.3",
    }
    assert expectations(variables(**declared, second="8-pin")) == {
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


def test_old_versions_warn_or_fail_and_nothing_else() -> None:
    assert expectations(variables(hwcheck_version_floors="fail")) == {"version_floors": "fail"}
    assert expectations(variables(hwcheck_imex="per_job")) == {"imex": "per_job"}
    with pytest.raises(UsageError, match="hwcheck_version_floors: 'yes' is neither warn nor fail"):
        expectations(variables(hwcheck_version_floors="yes"))


def test_the_page_on_the_inventory_lists_every_variable() -> None:
    page = (Path(__file__).parents[2] / "docs/inventory.md").read_text()
    assert [name for name in VARIABLES if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize("name", VARIABLES)
def test_null_is_not_declared(name: str) -> None:
    assert read(**{name: None}) == (HostSettings(), {})


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("value", ["", " ", {"x": 1}, ["x"], "{{ nothing }}", "x" * 501])
def test_text_that_is_none_is_refused(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"hwcheck_{name}"):
        read(**{f"hwcheck_{name}": value, "nothing": ""})


@pytest.mark.parametrize("name", NEEDS)
def test_what_would_be_ignored_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}: means nothing without hwcheck_psu_watts"):
        expectations(variables(**{name: 0.5}))
    assert name.removeprefix("hwcheck_") in expectations(
        variables(**{name: 0.5, NEEDS[name]: 1000})
    )


def test_the_schema_of_the_run_folder_has_every_expectation_and_no_setting() -> None:
    file = resources.files("hwcheck.results").joinpath("schema/results.schema.json")
    names = set(json.loads(file.read_text("utf-8"))["$defs"]["expect"]["properties"])
    assert names == {key.removeprefix("hwcheck_") for key in EXPECTATIONS}


def test_a_setting_is_no_expectation() -> None:
    host_settings, expect = read(
        hwcheck_torch_python="/opt/{{ name }}/bin/python",
        hwcheck_interface="bond0.100",
        hwcheck_gpus=8,
        name="torch",
    )
    wanted = HostSettings(torch_python="/opt/torch/bin/python", interface="bond0.100")
    assert (host_settings, expect) == (wanted, {"gpus": 8})
    assert {field.name for field in fields(HostSettings)} == {
        key.removeprefix("hwcheck_") for key in SETTINGS
    }


def test_an_unknown_variable_is_refused_with_the_nearest() -> None:
    refuse_unknown(variables(hwcheck_gpus=8, other=1))
    with pytest.raises(UsageError, match=r"hwcheck_gpu: .*; did you mean hwcheck_gpus\?"):
        refuse_unknown(variables(hwcheck_gpu=8))


@pytest.mark.parametrize(
    ("connectors", "watts"),
    [
        ("none", 75),
        ("6-pin", 150),
        ("8-pin, 8-pin", 375),
        ("6-pin,8-PIN", 300),
        ("12V-2x6", 675),
        ("12VHPWR", 675),
        ("450 W", 525),
        ("8-pin, 175w", 400),
    ],
)
def test_slot_and_connectors_together(connectors: str, watts: float) -> None:
    declared = variables(hwcheck_gpu_power_connectors=connectors)
    assert expectations(declared) == {"gpu_power_connectors": watts}


@pytest.mark.parametrize(
    "connectors", ["", "2 x 8-pin", "8-pin; 8-pin", "8-pin,", "450", "0 W", "1e9 W", "none, 8-pin"]
)
def test_what_is_no_connector_is_refused(connectors: str) -> None:
    with pytest.raises(UsageError, match=r"is not none, 6-pin, .* or a figure such as 450 W"):
        expectations(variables(hwcheck_gpu_power_connectors=connectors))
