"""A scenario is refused, with the key's name, where the library would not know what is meant."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.lab import nvml, nvml_keys, scenario
from tests.lab.nvml_keys import functions, lay_over, lines, versions

LOAD = dict.fromkeys(nvml_keys.LOAD_REQUIRED, 1)


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ({"driver": "570"}, "unknown key 'driver'"),
        ({"gpus": [{"power_watts": 70}]}, "gpu.0: unknown key 'power_watts'"),
        ({"gpu": {"clocks": {"sm": 1}}, "gpus": [{}]}, "gpu.0.clocks: unknown key 'sm'"),
        ({"gpus": [{}, {"power_w": "70"}]}, "gpu.1.power_w: '70' is not a number"),
        ({"gpus": [{"power_w": True}]}, "gpu.0.power_w: True is not a number"),
        ({"gpus": [{"power_w": -1}]}, "gpu.0.power_w: -1 is not 0 or more"),
        ({"gpus": [{"pcie_replays": 1.5}]}, "1.5 is not a whole number"),
        ({"gpus": [{"persistence_mode": 1}]}, "1 is not true or false"),
        ({"gpus": [{"serial": 1650522000001}]}, "is not a text of one line"),
        ({"gpus": [{"name": "two\nlines"}]}, "is not a text of one line"),
        ({"gpus": [{"brand": "tesler"}]}, "'tesler' is not one of unknown, quadro, tesla"),
        ({"gpus": [{"compute_capability": 9.0}]}, "9.0 is not a version such as 9.0"),
        ({"gpus": [{"device_id": "H100"}]}, "'H100' is not a number such as 0x233010DE"),
        ({"gpus": [{"clock_event_reasons": ["hot"]}]}, "'hot' is not one of idle"),
        ({"gpus": [{"clock_event_reasons": "idle"}]}, "'idle' is not a list"),
        ({"gpus": [{"ecc_mode": {"current": True}}]}, "lacks pending"),
        ({"gpus": [{"ecc_errors": {"locations": {"ram": {}}}}]}, "unknown key 'ram'"),
        ({"gpus": [{"under_load": {"power_w": 1}}]}, "lacks ambient_c, resistance_c_per_w"),
        ({"gpus": [{"load": {"until_s": 1}}]}, "lacks since_s"),
        ({"gpus": [{"under_load": {**LOAD, "new_errors": {"xid": 1}}}]}, "unknown key 'xid'"),
        ({"gpus": [{"lost": "yes"}]}, "'yes' is not true, false or opened"),
        ({"gpus": [{"processes": [{"pid": 1}]}]}, "is not a process with a kind"),
        ({"gpus": [{"nvlinks": [{"version": "4.0"}]}]}, "lacks active"),
        ({"gpus": [{"nvlinks": [{"active": True, "remote": "gpu:1"}]}]}, "not a GPU with a pci"),
        ({"gpus": [{"nvlinks": [{"active": True, "remote": "nic:0"}]}]}, "is not gpu:3"),
        ({"gpus": [{"fabric": {"status": "SUCCESS"}}]}, "lacks state"),
        ({"gpus": [{"errors": {"power": "UNKNOWN"}}]}, "'power' is not a function"),
        ({"gpus": [{"errors": {"power_w": "BROKEN"}}]}, "'BROKEN' is not one of SUCCESS"),
        ({"gpus": [{"hang": ["nvmlDeviceGetPower"]}]}, "is not a function that the library has"),
        ({"hang": ["nvmlDeviceGetPower"]}, "is not a function that the library has"),
        ({"init_error": "NO_DRIVER"}, "'NO_DRIVER' is not one of"),
        ({"topology": {"0-1": "single"}, "gpus": [{}]}, "not a pair of these 1 GPUs"),
        ({"topology": {"0-1": "near"}, "gpus": [{}, {}]}, "'near' is not one of internal"),
        ({"p2p": {"all": {"fly": "OK"}}, "gpus": [{}, {}]}, "unknown capability 'fly'"),
        ({"gpus": [{"cpu_affinity": "all"}]}, "is not a list of numbers"),
        ({"gpus": [{"memory_used_bytes": 1, "memory_reserved_bytes": 2}]}, "is part of"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path: Path, scenario: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        nvml.write(tmp_path / "scenario", scenario)
    assert not (tmp_path / "scenario").exists()


def test_defaults_and_own_values() -> None:
    found = lines({"gpu": {"clocks": {"sm_mhz": 1, "memory_mhz": 2}, "serial": "1"},
                   "gpus": [{}, {"clocks": {"sm_mhz": 3}, "serial": None}]})  # fmt: skip
    assert {key: value for key, value in found.items() if key != "gpus"} == {
        "gpu.0.clocks.sm_mhz": "1",
        "gpu.0.clocks.memory_mhz": "2",
        "gpu.0.serial": "1",
        "gpu.1.clocks.sm_mhz": "3",
        "gpu.1.clocks.memory_mhz": "2",
    }
    base = {"clocks": {"sm_mhz": 1}}
    lay_over(base, {"clocks": {"sm_mhz": 2}})
    assert base == {"clocks": {"sm_mhz": 1}}


def test_every_version_of_a_function() -> None:
    assert versions("hang", "nvmlInit") == ["nvmlInit", "nvmlInitWithFlags", "nvmlInit_v2"]
    assert versions("hang", "nvmlDeviceGetCount_v2") == ["nvmlDeviceGetCount_v2"]
    assert "nvmlDeviceGetEncoderUtilization" in functions()


def test_every_key_is_documented() -> None:
    documented = nvml.__doc__ or ""
    missing = [key for key in {**nvml_keys.GPU, **nvml_keys.NODE} if key not in documented]
    assert missing == []


@pytest.mark.parametrize("name", scenario.names())
def test_the_scenarios_of_the_lab_are_accepted(tmp_path: Path, name: str) -> None:
    given = scenario.load(name).nvml
    if given is not None:
        nvml.write(tmp_path / "scenario", given)
        gpus = f"gpus={len(given.get('gpus', []))}\n"
        assert gpus in (tmp_path / "scenario").read_text("utf-8")
