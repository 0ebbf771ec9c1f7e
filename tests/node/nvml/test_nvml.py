"""nvml.py and the installed pynvml over a C library that answers as NVML does."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import pynvml
import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.reasons import (
    DRIVER_BROKEN,
    GPU_LOST,
    NO_ANSWER,
    NO_PERMISSION,
    NOT_MEASURED,
    Reason,
)
from hwcheck.node.nvml.nvml import Nvml, opening_timeout_s
from hwcheck.node.nvml.reader import DriverBroken, GpuLost, NoPermission, NvmlReader, TimedOut
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


@pytest.mark.urgent
def test_opening_may_take_longer_than_a_call(ask: Ask) -> None:
    """Two GPUs without persistence mode: each takes longer than a call may."""
    said = ask("slow_opening", bound_s=0.7, opening_s=20)
    assert said["status after"] == "ok"
    assert said["gpus"]["gpu1"]["temperature_c"] == 31
    assert 2 <= said["opening_s"] < 4


def test_gpus_that_are_open_take_no_time(ask: Ask) -> None:
    assert ask()["opening_s"] < 1


@pytest.mark.urgent
@pytest.mark.parametrize(
    ("deviation", "where"), [("hang_init", ""), ("hang_handle", ": gpu1 does not open")]
)
def test_a_driver_that_hangs_when_it_is_opened_is_given_up(
    ask: Ask, deviation: str, where: str
) -> None:
    """Negative control of the test above."""
    started = time.monotonic()
    said = ask(deviation, bound_s=0.3, opening_s=1)
    hung = "NVML did not answer within 1 s" + where
    assert said["status after"] == hung
    assert said["gpus"] == said["opening_s"] == f"could not measure: {hung}"
    assert said["facts"] == []
    assert time.monotonic() - started < 8


@pytest.mark.parametrize(("gpus", "bound_s"), [(1, 40), (8, 110), (0, 110)])
def test_opening_is_bounded_by_what_is_on_the_bus(gpus: int, bound_s: float) -> None:
    assert opening_timeout_s(gpus) == bound_s


def test_the_stand_in_says_nothing_of_its_own(ask: Ask) -> None:
    """Negative control: without a scenario there is no driver, with another one other GPUs."""
    assert ask("no such deviation")["status"] == "Driver Not Loaded"
    lost, healthy, same = (ask(deviation)["gpus"] for deviation in ("lost", "", ""))
    assert lost != healthy == same


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


class RefusingLibrary:
    """NVML that answers every question with one kind of error."""

    def __init__(self, error: CouldNotMeasure) -> None:
        self.error = error

    def ask(self, names: Sequence[str], *args: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NoPermission("Insufficient Permissions"), NO_PERMISSION),
        (GpuLost("GPU is lost"), GPU_LOST),
        (TimedOut("Timeout"), NO_ANSWER),
        (DriverBroken("Driver Not Loaded"), DRIVER_BROKEN),
        (CouldNotMeasure("Unknown Error"), NOT_MEASURED),
    ],
)
def test_an_error_of_nvml_keeps_its_code_where_it_is_said_of_a_gpu(
    error: CouldNotMeasure, code: str
) -> None:
    reader = NvmlReader(RefusingLibrary(error), 1, None)  # type: ignore[arg-type]
    with pytest.raises(type(error)) as refused:
        reader.read("ECC errors", "nvmlDeviceGetTotalEccErrors")
    assert refused.value.reason == Reason(code, f"gpu1: ECC errors: {error}")
