"""LiveNode: in this process with NVML replaced, and whole, over fake /proc, /sys and NVML."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.check import CouldNotMeasure, NotApplicable
from hwcheck.contract.pairs_run import PairCopy, PairsRun
from hwcheck.contract.wire import Leg, Request
from hwcheck.node import load_lock
from hwcheck.node.live import LiveNode
from hwcheck.node.threads import Bounded
from hwcheck.node.together import launch as collective
from tests.node.live_nodes import ADDRESSES, live_node
from tests.node.payloads import run_payload
from tests.node.roots import Root

IDLE = ("gpu_count", "driver", "power_cap", "temperature_idle", "pcie_link", "persistence_mode")
VERSION = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23 22:50:36 UTC 2025\n"
)


@pytest.mark.parametrize(
    ("says", "busy"),
    [
        ({"gpus": [{"compute_processes": []}]}, ""),
        ({"gpus": [{"compute_processes": [7, 8]}]}, "gpu0 is in use by process 7, 8"),
        ({"nvml_status": "Driver Not Loaded"}, ""),
    ],
)
def test_busy_says_who_uses_a_gpu(tmp_path: Path, says: Mapping[str, Any], busy: str) -> None:
    said = live_node(tmp_path, says).busy()
    assert said.startswith(busy)
    assert bool(said) == bool(busy)


def test_a_gpu_that_does_not_say_is_not_taken_for_idle(tmp_path: Path) -> None:
    with pytest.raises(CouldNotMeasure, match="gpu0"):
        live_node(tmp_path, {"gpus": [{}]}).busy()


def test_no_legs_over_the_rest_of_a_node_that_lost_a_gpu(tmp_path: Path) -> None:
    Root(tmp_path).device(ADDRESSES[0])
    node = live_node(tmp_path, {"gpus": [{"pci_address": ADDRESSES[0]}, {"error": "GPU is lost"}]})
    with pytest.raises(CouldNotMeasure, match="gpu1: GPU is lost"):
        list(node.legs("all_reduce"))


def test_busy_names_a_schedulers_job_first(tmp_path: Path) -> None:
    Root(tmp_path).write("proc/77/comm", "slurmstepd\n")
    said = live_node(tmp_path, {"gpus": [{"compute_processes": [7]}]}).busy()
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
    says = [
        {"pci_address": address, "mig_mode": None, "compute_processes": []} for address in ADDRESSES
    ]
    assert list(live_node(tmp_path, {"gpus": says}, expect=expect).legs("all_reduce")) == []
    assert asked[0][1:4] == ("payload", gpus, 4096)


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
    node = live_node(tmp_path, {"gpus": says})
    with pytest.raises(NotApplicable, match="MIG is on"):
        list(node.legs("all_reduce"))
    with pytest.raises(NotApplicable, match="MIG is on"):
        node.load()


def test_no_load_on_the_rest_of_a_node_that_lost_a_gpu(tmp_path: Path) -> None:
    Root(tmp_path).device(ADDRESSES[0])
    node = live_node(tmp_path, {"gpus": [{"pci_address": ADDRESSES[0]}, {"error": "GPU is lost"}]})
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


def test_the_idle_checks_on_a_wholelive_node(root: Root, fake_nvml: Path, tmp_path: Path) -> None:
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
    assert "gpu1 is not idle: process 4711" in answer.results["temperature_idle"].reason.text
    assert [gpu["uuid"] for gpu in answer.report.facts["gpus"]] == ["GPU-aaaa", "GPU-bbbb"]


def test_a_desktop_is_no_job(root: Root, fake_nvml: Path, tmp_path: Path) -> None:
    """GNOME computes and draws: the GPU is idle as long as it has little to do."""
    library, names = fake_nvml / "new", ("temperature_idle", "stray_processes")
    answer = run_payload(names, root.path, tmp_path, library=library, deviation="desktop")
    values = {
        (sample.metric, sample.subject): sample.value
        for name in names
        for sample in answer.results[name].samples
    }
    assert answer.results["temperature_idle"].state == "done"
    assert values[("temperature_c", "gpu1")] == 31
    assert values[("compute_processes", "gpu1")] == 0
    assert values[("graphics_processes", "gpu1")] == 2


def test_opening_nvml_may_take_longer_with_more_gpus_on_the_bus(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds: list[float] = []

    def hang(self: Bounded, timeout_s: float, *call: object) -> None:
        bounds.append(timeout_s)
        raise CouldNotMeasure("NVML hangs")

    monkeypatch.setattr(Bounded, "call_within", hang)
    for place in range(2, 5):
        node = LiveNode(Request("0", (), host_root=str(root.path)), "", lambda _: None)
        assert node.nvml_status() == "NVML hangs"
        root.device(f"0000:4{place}:00.0")
    assert bounds == [50, 60, 70], "30 s, and 10 s for each of two, three and four"


def test_a_lost_gpu_shows_in_every_check_and_hides_nothing(
    root: Root, fake_nvml: Path, tmp_path: Path
) -> None:
    answer = run_payload(IDLE, root.path, tmp_path, library=fake_nvml / "new", deviation="lost")
    count = {sample.subject: sample.value for sample in answer.results["gpu_count"].samples}
    assert (count["pci 0000:18:00.0"], count["pci 0001:2a:00.0"]) == (True, False)
    for check in ("power_cap", "temperature_idle", "pcie_link", "persistence_mode"):
        assert answer.results[check].reason.code == "gpu_lost"
        subjects = {sample.subject for sample in answer.results[check].samples}
        assert subjects - {"node"} == {"gpu0"}


def test_the_collectives_of_a_visit_are_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Root(tmp_path).write("proc/meminfo", "MemAvailable: 4 kB\n")
    started = []

    def run_legs(*arguments: Any) -> Iterator[Leg]:
        started.append(arguments)
        for name in ("all_reduce", "alltoall"):
            yield Leg(name, "default", "gloo", 2, "done")

    monkeypatch.setattr(collective, "run_legs", run_legs)
    node = live_node(tmp_path, {})
    for name in ("all_reduce", "alltoall", "all_reduce"):
        assert [leg.collective for leg in node.legs(name)] == [name]
    assert len(started) == 1


def test_the_copies_between_gpus_are_part_of_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(tmp_path)
    root.write("proc/meminfo", "MemAvailable: 4 kB\n")
    root.device(ADDRESSES[0])
    run = PairsRun((PairCopy(0, 1, True, 20.0),))
    asked: list[tuple[Any, ...]] = []

    def run_legs(*arguments: Any) -> Iterator[Leg | PairsRun]:
        asked.append(arguments)
        yield run
        yield Leg("all_reduce", "default", "nccl", 2, "done")

    monkeypatch.setattr(collective, "run_legs", run_legs)
    says = [
        {
            "pci_address": address,
            "mig_mode": None,
            "compute_processes": [],
            "loss": loss,
            "cpu_affinity": cpus,
        }
        for address, loss, cpus in zip(
            ADDRESSES, ("", "gpu1: GPU is lost"), ("0-31", None), strict=True
        )
    ]
    node = live_node(tmp_path, {"gpus": says})
    assert node.pairs() == run
    assert [leg.leg for leg in node.legs("all_reduce")] == ["default"]
    assert len(asked) == 1
    driver, near_cpus = asked[0][-2:]
    assert driver() == "gpu1: GPU is lost"
    assert near_cpus == ("0-31", "")


@pytest.mark.parametrize(
    "question",
    [lambda node: node.pairs(), lambda node: node.legs("x"), lambda node: node.broken_legs()],
)
def test_a_node_at_work_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: Callable[[LiveNode], Any]
) -> None:
    root = Root(tmp_path)
    root.write("proc/meminfo", "MemAvailable: 4 kB\n")
    root.device(ADDRESSES[0])
    for name in ("run_legs", "drive"):
        monkeypatch.setattr(collective, name, lambda *_, **__: pytest.fail("ranks were started"))
    says = [
        {"pci_address": address, "mig_mode": None, "compute_processes": [7]}
        for address in ADDRESSES
    ]
    with pytest.raises(load_lock.BusyError, match="gpu0 is in use by process 7"):
        list(question(live_node(tmp_path, {"gpus": says})))
