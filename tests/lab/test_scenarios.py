"""The scenarios are read strictly, tell one story, and say where their values come from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hwcheck import checks
from hwcheck.node.host.reader import NodeHost
from tests.lab.places import with_places
from tests.lab.scenario import FOLDER, Scenario, load, names, overlay
from tests.lab.tree_writer import ScenarioError

NEEDED = {
    *("h100x8", "a100x8", "rtx4090x4", "titan_rtx_x2", "a40x8", "a100_mig", "gb200", "none"),
    *("a100x8_guest", "rtx4090_desktop", "h100_pod", "b200x8", "a40x10"),
}
REGISTRY = checks.load()
HEALTHY = [load(name) for name in names()]
SMALL = {
    "doc": "one GPU",
    "nvml": {"gpu": {"power_w": 70}, "gpus": [{"pci_address": "0000:18:00.0"}]},
    "host": {"pci": {"0000:17:00.0": {"0000:18:00.0": "gpu"}}, "numa": [{"cpus": "0-3"}]},
    "expect": {"gpus": 1},
    "faults": {
        "hot": {
            "doc": "it is hot",
            "check": "temperature_idle",
            "outcome": "fail",
            "nvml": {"gpus": {0: {"temperature_c": 99}}},
            "expect": {"gpus": 2},
        }
    },
}


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "small.yml"
    path.write_text(yaml.safe_dump({**SMALL, **changes}))
    return path


def test_the_scenarios_that_are_needed_are_there() -> None:
    assert set(names()) >= NEEDED


@pytest.mark.parametrize("scenario", HEALTHY, ids=lambda scenario: scenario.name)
def test_nvml_and_the_bus_show_the_same_gpus(scenario: Scenario, tmp_path: Path) -> None:
    _, variables = scenario.install(tmp_path / "node")
    on_bus = NodeHost(str(variables["hwcheck_host_root"])).pci_gpus()
    gpus = (scenario.nvml or {}).get("gpus", [])
    assert sorted(gpu["pci_address"] for gpu in gpus) == on_bus
    assert len(on_bus) == scenario.expect["gpus"]


@pytest.mark.parametrize("scenario", HEALTHY, ids=lambda scenario: scenario.name)
def test_a_scenario_names_its_sources(scenario: Scenario) -> None:
    text = (FOLDER / f"{scenario.name}.yml").read_text("utf-8")
    assert scenario.nvml is None or "\n# Sources. " in text


@pytest.mark.parametrize("scenario", HEALTHY, ids=lambda scenario: scenario.name)
def test_every_fault_is_of_checks_that_there_are(scenario: Scenario) -> None:
    for name in scenario.faults:
        fault = load(scenario.name, name).fault
        assert fault is not None
        assert fault.doc
        assert {fault.check, *fault.also} <= set(REGISTRY)


def test_a_gpu_may_be_that_of_another_scenario() -> None:
    of, own = load("a40x8").nvml, load("a40x10").nvml
    assert of is not None
    assert own is not None
    assert {key for key in of["gpu"] if own["gpu"][key] != of["gpu"][key]} == set()
    assert own["gpu"].keys() - of["gpu"].keys() == {"nvlinks"}
    assert len(own["gpus"]) == 10


def test_a_fault_lies_over_its_scenario(tmp_path: Path) -> None:
    path = write(tmp_path)
    healthy, faulty = load(path), load(path, "hot")
    assert healthy.fault is None
    assert healthy.nvml == SMALL["nvml"]
    assert faulty.fault is not None
    assert (faulty.fault.check, faulty.fault.outcome) == ("temperature_idle", "fail")
    assert faulty.nvml is not None
    assert faulty.nvml["gpus"] == [{"pci_address": "0000:18:00.0", "temperature_c": 99}]
    assert (faulty.expect, faulty.host) == ({"gpus": 2}, healthy.host)


@pytest.mark.parametrize(
    ("base", "over", "result"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ([{"a": 1}, {"a": 2}], {1: {"b": 3}}, [{"a": 1}, {"a": 2, "b": 3}]),
        ([1, 2, 3], {1: None}, [1, 3]),
        ({7: {"a": 1}}, {7: {"b": 2}}, {7: {"a": 1, "b": 2}}),
        (None, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": 1}, {}, {"a": 1}),
    ],
)
def test_overlay(base: object, over: object, result: object) -> None:
    assert overlay(base, over) == result


def test_an_overlay_changes_nothing_of_what_lies_below() -> None:
    base = {"gpus": [{"a": {"b": 1}}]}
    overlay(base, {"gpus": {0: {"a": {"b": 2}}}})
    assert base == {"gpus": [{"a": {"b": 1}}]}


def test_an_item_that_is_not_there() -> None:
    with pytest.raises(ScenarioError, match="no item 2 in a list of 2"):
        overlay([1, 2], {2: 3})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"hosts": {}}, "small.yml: unknown: hosts"),
        ({"expect": {"gpu": 8}}, "small.yml: expect: unknown: gpu"),
        ({"faults": {"hot": {"checks": "x"}}}, "small.yml: faults: hot: unknown: checks"),
        ({"faults": {"hot": {"outcome": "pass"}}}, "small.yml: faults: hot: no outcome 'pass'"),
        ({"faults": {"cold": {}}}, "small.yml: no fault 'hot'; known: cold"),
    ],
)
def test_a_scenario_that_cannot_be(
    changes: Mapping[str, Any], problem: str, tmp_path: Path
) -> None:
    path = write(tmp_path, **changes)
    with pytest.raises(ScenarioError) as refusal:
        load(path, "hot")
    assert str(refusal.value).startswith(problem)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="known: a100_mig, "):
        load(tmp_path / "none_such.yml")
    (tmp_path / "broken.yml").write_text("doc: [")
    with pytest.raises(ScenarioError, match=r"broken\.yml: while parsing"):
        load(tmp_path / "broken.yml")
    (tmp_path / "list.yml").write_text("- doc")
    with pytest.raises(ScenarioError, match=r"list\.yml: .* is not a mapping"):
        load(tmp_path / "list.yml")


def test_an_unknown_quantity_of_nvml_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, nvml={"gpus": [{"watts": 7}]})
    with pytest.raises(ValueError, match="watts"):
        load(path).install(tmp_path / "node")


def test_a_folder_that_the_loader_would_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no path with a space"):
        load(write(tmp_path)).install(tmp_path / "a node")


def test_what_a_node_needs(tmp_path: Path) -> None:
    environment, variables = load(write(tmp_path)).install(tmp_path / "node")
    files = {key: environment[key] for key in ("LD_PRELOAD", "HWLAB_KERNEL", "HWLAB_NVML")}
    assert all(Path(path).is_file() and tmp_path in Path(path).parents for path in files.values())
    assert (Path(environment["LD_LIBRARY_PATH"]) / "libnvidia-ml.so.1").is_file()
    assert variables == {"hwcheck_host_root": str(tmp_path / "node/root"), "hwcheck_gpus": 1}


def test_a_node_without_nvml_has_no_library(tmp_path: Path) -> None:
    environment, _ = load(write(tmp_path, nvml=None)).install(tmp_path / "node")
    assert set(environment) == {"LD_PRELOAD", "HWLAB_KERNEL"}


def test_two_nodes_may_read_one_tree(tmp_path: Path) -> None:
    path = write(tmp_path)
    _, first = load(path).install(tmp_path / "first")
    _, second = load(path, "hot").install(tmp_path / "second", tmp_path / "first/root")
    assert second == {**first, "hwcheck_gpus": 2}
    assert not (tmp_path / "second/root").exists()


def test_places_come_from_the_tree_unless_they_are_given() -> None:
    gpus: list[dict[str, Any]] = [{"pci_address": f"0000:{bus}:00.0"} for bus in ("18", "28", "38")]
    gpus[1]["cpu_affinity"] = "7"
    switch = {"0000:16:00.0": {"0000:17:00.0": {"0000:18:00.0": "gpu"}}}
    host = {
        "pci": {"0000:15:01.0": switch, "0000:27:01.0": {"0000:28:00.0": "gpu"}},
        "numa": [{"cpus": "0-3"}, {"cpus": "4-7", "buses": ["0000:15", "0000:27"]}],
    }
    near = {"memory_affinity": [1], "cpu_affinity": "4-7"}
    assert with_places({"gpus": gpus}, host)["gpus"] == [
        {**gpus[0], "path": "numa1/root0000:15/switch0000:16:00.0", **near},
        {**gpus[1], "path": "numa1/root0000:27", **near, "cpu_affinity": "7"},
        gpus[2],
    ]


def test_one_numa_node_that_the_firmware_does_not_name() -> None:
    host = {"pci": {"0000:17:00.0": {"0000:18:00.0": "gpu"}}, "numa": [{"cpus": "0-3"}]}
    answers = with_places({"gpu": {}, "gpus": [{"pci_address": "0000:18:00.0"}]}, host)
    assert answers["gpus"] == [
        {"pci_address": "0000:18:00.0", "path": "numa0/root0000:17", "cpu_affinity": "0-3"}
    ]
