"""nvml.py and the installed pynvml over a C library that answers as NVML does."""

from __future__ import annotations

import sys
import time

import pynvml
import pytest

from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.nvml.nvml import Nvml
from tests.node.conftest import Ask


def test_what_nvml_says_of_the_node(ask: Ask) -> None:
    said = ask()
    assert (said["status"], said["driver"], said["cuda"]) == ("ok", "570.86.15", "12.8")
    assert set(said["gpus"]) == {"gpu0", "gpu1"}


def test_a_lost_gpu_does_not_hide_the_others(ask: Ask) -> None:
    said = ask("lost")
    assert said["gpus"]["gpu0"]["pci_address"] == "0000:18:00.0"
    assert said["gpus"]["gpu1"].pop("loss") == "gpu1: GPU is lost"
    assert said["gpus"]["gpu0"]["loss"] == ""
    assert set(said["gpus"]["gpu1"].values()) == {"could not measure: gpu1: GPU is lost"}
    assert said["facts"][1] == {"index": 1, "error": "GPU is lost"}


def test_a_hung_call_is_given_up_and_nvml_is_not_called_again(ask: Ask) -> None:
    started = time.monotonic()
    said = ask("hang_power", bound_s=0.5)
    hung = "NVML did not answer within 0.5 s"
    assert said["status"] == "ok"
    assert said["gpus"]["gpu0"]["power_limit_w"] == 700.0
    assert said["gpus"]["gpu1"]["pci_address"] == "0001:2a:00.0"
    assert said["gpus"]["gpu1"]["power_limit_w"] == f"could not measure: gpu1: power limit: {hung}"
    assert said["gpus"]["gpu1"]["temperature_c"] == f"could not measure: gpu1: temperature: {hung}"
    assert said["status after"] == hung
    # One bound is waited for. Twenty calls follow: had each waited, it would be 10 s.
    assert time.monotonic() - started < 8


def test_a_hang_at_the_start_is_a_status(ask: Ask) -> None:
    said = ask("hang_init", bound_s=0.5)
    assert said["status"] == "NVML did not answer within 0.5 s"
    assert said["facts"] == []


def test_the_stand_in_says_nothing_of_its_own(ask: Ask) -> None:
    """Negative control: without a scenario there is no driver, with another one other GPUs."""
    assert ask("no such deviation")["status"] == "Driver Not Loaded"
    assert ask("lost") != ask() == ask()


def test_without_the_library_the_status_is_nvmls_own_text(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    def no_library() -> None:
        raise missing

    monkeypatch.setattr(pynvml, "nvmlInit", no_library)
    nvml = Nvml()
    assert nvml.status() == "NVML Shared Library Not Found"
    with pytest.raises(CouldNotMeasure, match="NVML Shared Library Not Found"):
        nvml.gpus()


def test_without_pynvml_the_status_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Nvml().status().startswith("pynvml cannot be imported")
