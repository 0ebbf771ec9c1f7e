"""LiveNode: in this process with NVML replaced, and whole, over fake /proc, /sys and NVML."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest

from hwcheck.node.check import CouldNotMeasure, NotApplicable
from hwcheck.node.collective import launch as collective
from hwcheck.node.live import LiveNode
from hwcheck.node.load import launch, run
from hwcheck.node.load.records import GpuWork, LoadRun
from hwcheck.node.load.run import Times
from hwcheck.node.load.spec import BurnSpec
from hwcheck.node.nvml_events import EventWatch
from hwcheck.node.nvml_reader import NotSupported
from hwcheck.wire import Leg, Request
from tests.node.fakes import FakeNode
from tests.node.payloads import run_payload
from tests.node.roots import Root

IDLE = ("gpu_count", "driver", "power_cap", "temperature_idle", "pcie_link", "persistence_mode")
ADDRESSES = ("0000:18:00.0", "0001:2a:00.0")
VERSION = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23 22:50:36 UTC 2025\n"
)


T = TypeVar("T")


class FakeNvml:
    """``Nvml`` as far as LiveNode uses it, over the GPUs of a case."""

    def __init__(self, says: Mapping[str, Any]) -> None:
        node = FakeNode(says)
        self.status, self.gpus = node.nvml_status, node.gpus

    def watch_events(self) -> EventWatch:
        return EventWatch(NoNvml(), [])


class NoNvml:
    """A driver that has no events."""

    def ask(self, names: Sequence[str], *args: Any) -> Any:
        raise NotSupported("Not Supported")

    def constant(self, name: str) -> Any:
        raise NotSupported(name)

    def together(self, work: Callable[[], T]) -> T:
        return work()

    def error_text(self, code: int) -> str:
        raise NotSupported(str(code))


def _node(root: Path, says: Mapping[str, Any], **request: Any) -> LiveNode:
    made = Request(token="0", checks=(), host_root=str(root), **request)
    node = LiveNode(made, "payload", lambda text: None)
    node._nvml = FakeNvml(says)  # type: ignore[assignment]
    return node


@pytest.mark.parametrize(
    ("says", "busy"),
    [
        ({"gpus": [{"compute_processes": []}]}, ""),
        ({"gpus": [{"compute_processes": [7, 8]}]}, "gpu0 is in use by process 7, 8"),
        ({"nvml_status": "Driver Not Loaded"}, ""),
    ],
)
def test_busy_says_who_uses_a_gpu(tmp_path: Path, says: Mapping[str, Any], busy: str) -> None:
    said = _node(tmp_path, says).busy()
    assert said.startswith(busy)
    assert bool(said) == bool(busy)


def test_a_gpu_that_does_not_say_is_not_taken_for_idle(tmp_path: Path) -> None:
    with pytest.raises(CouldNotMeasure, match="gpu0"):
        _node(tmp_path, {"gpus": [{}]}).busy()


def test_no_legs_over_the_rest_of_a_node_that_lost_a_gpu(tmp_path: Path) -> None:
    Root(tmp_path).device(ADDRESSES[0])
    node = _node(tmp_path, {"gpus": [{"pci_address": ADDRESSES[0]}, {"error": "GPU is lost"}]})
    with pytest.raises(CouldNotMeasure, match="gpu1: GPU is lost"):
        list(node.legs("all_reduce"))


def test_busy_names_a_schedulers_job_first(tmp_path: Path) -> None:
    Root(tmp_path).write("proc/77/comm", "slurmstepd\n")
    said = _node(tmp_path, {"gpus": [{"compute_processes": [7]}]}).busy()
    assert said == "a scheduler's job is running: slurmstepd (pid 77)"


@pytest.mark.parametrize(
    ("bus", "expect", "gpus"),
    [(True, {}, 2), (False, {"gpus": 2}, 2), (False, {}, 0)],
)
def test_legs_get_the_gpus_of_a_node_that_has_or_should_have_some(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bus: bool,
    expect: Mapping[str, Any],
    gpus: int,
) -> None:
    root = Root(tmp_path)
    root.write("proc/meminfo", "MemAvailable: 4 kB\n")
    if bus:
        root.device(ADDRESSES[0])
    asked: list[tuple[Any, ...]] = []

    def run_legs(*arguments: Any) -> Iterator[Leg]:
        asked.append(arguments)
        return iter(())

    monkeypatch.setattr(collective, "run_legs", run_legs)
    says = [{"pci_address": address, "mig_mode": None} for address in ADDRESSES]
    assert list(_node(tmp_path, {"gpus": says}, expect=expect).legs("all_reduce")) == []
    assert asked[0][1:5] == ("payload", "all_reduce", gpus, 4096)


@pytest.mark.parametrize("on", [[True, True], [False, True]])
def test_no_legs_over_instances_of_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: Sequence[bool]
) -> None:
    Root(tmp_path).device(ADDRESSES[0])
    monkeypatch.setattr(collective, "run_legs", lambda *_: pytest.fail("ranks were started"))
    modes = [{"current": each, "pending": each} for each in on]
    says = [
        {"pci_address": address, "mig_mode": mode}
        for address, mode in zip(ADDRESSES, modes, strict=True)
    ]
    node = _node(tmp_path, {"gpus": says})
    with pytest.raises(NotApplicable, match="MIG is on"):
        list(node.legs("all_reduce"))
    with pytest.raises(NotApplicable, match="MIG is on"):
        node.load()


class Burn:
    """A burn that is at work at once, or cannot be started."""

    backend = "cuda"
    made: ClassVar[list[Burn]] = []

    def __init__(self, spec: BurnSpec, python: str, payload: str) -> None:
        self.spec, self.library = spec, ""
        Burn.made.append(self)

    def start(self) -> None:
        if self.spec.gpus[0].uuid == "GPU-none":
            raise CouldNotMeasure("no torch")
        self.library = "torch 2.8.0"

    def stop(self) -> tuple[GpuWork, ...]:
        return (GpuWork("gpu0", "bf16", 8192, 1000),)

    def problem(self) -> str:
        return ""

    def give_up(self, why: str) -> None:
        raise AssertionError(why)


@pytest.fixture
def loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], LiveNode]:
    root = Root(tmp_path)
    root.write("proc/meminfo", "MemAvailable: 4 kB\n")
    root.device(ADDRESSES[0])
    monkeypatch.setattr(Burn, "made", [])
    monkeypatch.setattr(launch, "Burn", Burn)
    monkeypatch.setattr(run, "times", lambda request, gpus: Times(0.0, 0.0, 0.0))

    def node(uuid: str) -> LiveNode:
        made = _node(
            tmp_path, {"gpus": [{"pci_address": ADDRESSES[0], "uuid": uuid, "mig_mode": None}]}
        )
        made._nvml.sampled = list  # type: ignore[method-assign]
        return made

    return node


def test_the_load_runs_once_and_is_handed_on_once(loading: Callable[[str], LiveNode]) -> None:
    node, recorded = loading("GPU-aaaa"), list[LoadRun]()
    node._recorded = recorded.append
    assert node.reported_under_load() is None
    load = node.load()
    assert node.load() is load
    assert recorded == [load]
    assert (len(Burn.made), load.work[0].products) == (1, 1000)
    assert Burn.made[0].spec.gpus[0].uuid == "GPU-aaaa"
    assert node.reported_under_load() is not None


def test_a_load_that_cannot_be_run_is_not_tried_again(
    loading: Callable[[str], LiveNode],
) -> None:
    node, recorded = loading("GPU-none"), list[LoadRun]()
    node._recorded = recorded.append
    for _ in range(2):
        with pytest.raises(CouldNotMeasure, match="no torch"):
            node.load()
    assert (len(Burn.made), recorded) == (1, [])
    assert node.reported_under_load() is None, "nothing was loaded"


def test_no_load_on_the_rest_of_a_node_that_lost_a_gpu(tmp_path: Path) -> None:
    Root(tmp_path).device(ADDRESSES[0])
    node = _node(tmp_path, {"gpus": [{"pci_address": ADDRESSES[0]}, {"error": "GPU is lost"}]})
    with pytest.raises(CouldNotMeasure, match="gpu1: GPU is lost"):
        node.load()


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """Two GPUs on the bus, each under a x16 Gen 5 port, and a loaded driver."""
    root = Root(tmp_path / "root")
    for address in ADDRESSES:
        port = root.device(address)
        root.write(port + "/max_link_width", "16\n")
        root.write(port + "/max_link_speed", "32.0 GT/s PCIe\n")
    root.write("proc/driver/nvidia/version", VERSION)
    return root


def test_the_idle_checks_on_a_whole_node(root: Root, fake_nvml: Path, tmp_path: Path) -> None:
    answer = run_payload(IDLE, root.path, tmp_path, library=fake_nvml / "new")
    assert {check: result.state for check, result in answer.results.items()} == {
        **dict.fromkeys(IDLE, "done"),
        "temperature_idle": "could_not_measure",
    }
    values = {
        (sample.metric, sample.subject): sample.value
        for result in answer.results.values()
        for sample in result.samples
    }
    assert values[("nvml_gpus", "node")] == values[("pci_gpus", "node")] == 2
    assert values[("seen_by_nvml", "pci 0001:2a:00.0")] is True
    assert values[("driver_version", "node")] == "570.86.15"
    assert values[("power_limit_percent", "gpu1")] == 71.5
    assert values[("temperature_c", "gpu0")] == 30
    assert values[("pcie_link_width", "gpu1")] == 8
    assert values[("persistence_mode", "gpu1")] is False
    assert "gpu1 is not idle: process 4711" in answer.results["temperature_idle"].reason
    assert [gpu["uuid"] for gpu in answer.report.facts["gpus"]] == ["GPU-aaaa", "GPU-bbbb"]


def test_a_lost_gpu_shows_in_every_check_and_hides_nothing(
    root: Root, fake_nvml: Path, tmp_path: Path
) -> None:
    answer = run_payload(IDLE, root.path, tmp_path, library=fake_nvml / "new", deviation="lost")
    count = {sample.subject: sample.value for sample in answer.results["gpu_count"].samples}
    assert (count["pci 0000:18:00.0"], count["pci 0001:2a:00.0"]) == (True, False)
    for check in ("power_cap", "temperature_idle", "pcie_link", "persistence_mode"):
        assert answer.results[check].reason == "gpu1: GPU is lost"
        assert {sample.subject for sample in answer.results[check].samples} == {"gpu0"}
