from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Optional

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.facts import Gid, KernelLog, KernelMessage, Mount, RdmaPort
from hwcheck.node.node import Gpu, NodeHost
from hwcheck.node.nvml.reader import NvmlReader
from hwcheck.testing.by_name import by_name, readings, shaped
from hwcheck.testing.fake_gpu import GPU_KEYS, FakeGpu
from hwcheck.testing.fake_host import DEFAULTS, HOST_KEYS, KEYS, FakeHost
from hwcheck.testing.fake_node import FakeNode

ROOMS = tuple(str(Path(inspect.getfile(kind)).parent) for kind in (NodeHost, Gpu))
HOST_READINGS = sorted(readings(NodeHost))
GPU_READINGS = sorted(readings(Gpu))
"""With the ways to ask that are no reading: a fake asks nobody."""


def _ask(reader: Any, name: str) -> Any:
    parameters = inspect.signature(getattr(reader, name)).parameters
    return getattr(reader, name)(*["gpu9"] * len(parameters))


def _ran(action: Callable[[], Any]) -> set[str]:
    """Return the functions of the real readers that an action runs."""
    names: set[str] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOMS):
            names.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        action()
    except CouldNotMeasure:
        pass
    finally:
        sys.setprofile(None)
    return names


@pytest.mark.parametrize("name", HOST_READINGS)
def test_a_fake_host_reads_nothing_of_this_machine(name: str) -> None:
    assert _ran(lambda: _ask(FakeHost({}), name)) == set()


@pytest.mark.parametrize("name", GPU_READINGS)
def test_a_fake_gpu_asks_nobody(name: str) -> None:
    assert _ran(lambda: _ask(FakeGpu(0, {}), name)) == set()


def test_a_reader_that_reads_is_noticed(tmp_path: Path) -> None:
    for name in ("pci_gpus", "locked_memory_limit_bytes", "kernel_setting"):
        assert name in _ran(lambda name=name: _ask(NodeHost(str(tmp_path)), name))


@pytest.mark.parametrize("name", HOST_READINGS)
def test_what_a_case_does_not_say_of_the_host_cannot_be_measured(name: str) -> None:
    has_default = name in DEFAULTS and name != "driver_parameter"
    if has_default:
        _ask(FakeHost({}), name)
    else:
        with pytest.raises(CouldNotMeasure, match="not there"):
            _ask(FakeHost({}), name)


class Power(NamedTuple):
    """One power supply."""

    watts: float
    fans: tuple[int, ...] = ()


class LaterReader(NodeHost):
    """The reader with what somebody may add to it."""

    def power_supplies(self) -> dict[str, Power]:
        return {Path("/proc/version").read_text(): Power(1.0)}

    def zone(self, number: int) -> Optional[Power]:  # noqa: UP045 - as the payload writes it
        return Power(float(Path("/proc/uptime").read_text().split()[number]))

    @property
    def place(self) -> str:
        return Path("/proc/version").read_text()


@by_name
class Later(LaterReader):
    """That reader, answered by name."""

    def __init__(self, **says: Any) -> None:
        self.says = says

    def _say(self, reading: str, *arguments: Any) -> Any:
        if reading not in self.says:
            raise CouldNotMeasure(f"{reading} is not told")
        return self.says[reading][str(arguments[0])] if arguments else self.says[reading]


def test_a_new_reading_is_answered_by_its_name_and_read_nowhere() -> None:
    supplies = {"psu0": {"watts": 3000, "fans": [40, 41]}}
    later = Later(power_supplies=supplies, zone={"1": None, "2": {"watts": 5}}, place="aisle 3")
    assert later.power_supplies() == {"psu0": Power(3000.0, (40, 41))}
    assert (later.zone(1), later.zone(2)) == (None, Power(5.0))
    assert later.place == "aisle 3"
    for ask in (Later().power_supplies, lambda: Later().zone(1), lambda: Later().place):
        with pytest.raises(CouldNotMeasure, match="is not told"):
            ask()
    with pytest.raises(CouldNotMeasure, match="pci_gpus is not told"):
        later.pci_gpus()


def test_every_reading_says_what_its_answer_becomes() -> None:
    for kind, but in ((NodeHost, ()), (Gpu, (NvmlReader,))):
        for name in readings(kind, *but):
            assert inspect.signature(getattr(kind, name)).return_annotation != "Any", name
            assert inspect.getdoc(getattr(kind, name)), name


def test_keys_that_differ_from_their_reading_are_those_of_a_reading() -> None:
    assert set(KEYS) | set(DEFAULTS) <= readings(NodeHost)
    assert {"container", "modules", "uptime_s", "pci_slot"} <= HOST_KEYS
    assert "in_container" not in HOST_KEYS
    assert {"temperature_c", "mig_mode", "error"} <= GPU_KEYS
    assert GPU_KEYS.isdisjoint({"read", "once", "subject"})


def test_a_key_that_is_no_reading_is_refused_by_name() -> None:
    with pytest.raises(AssertionError, match="swap_used_byte"):
        FakeNode({"swap_used_byte": 1})
    with pytest.raises(AssertionError, match="temperature_f"):
        FakeNode({"gpus": [{"temperature_f": 90}]}).gpus()


GID = {"index": 3, "address": "fe80::1", "kind": "RoCE v2"}


def test_what_is_special_of_a_host() -> None:
    host = FakeHost(
        {
            "mounts": [{"point": "/", "kind": "xfs", "source": "/dev/a", "options": ["rw", "ro"]}],
            "memory_by_numa_bytes": {"0": 5},
            "rdma_ports": [{"name": "mlx5_0/1", "pkeys": ["0x8001"], "gids": [GID]}],
            "module_parameters": {"nvidia_peermem.x": "1"},
            "container_settings": {"docker": {"error": "not readable"}},
            "kernel_log": {
                "complete": True,
                "messages": [{"text": "Xid 79", "age_s": 1}, {"text": "usb", "age_s": 2}],
            },
            "uptime_s": 50,
        }
    )
    assert host.mounts() == [Mount("/", "xfs", "/dev/a", ("rw", "ro"))]
    assert host.memory_by_numa_bytes() == {0: 5}
    (port,) = host.rdma_ports()
    assert (port.pkeys, port.gids, port.lanes) == ((0x8001,), (Gid(3, "fe80::1", "RoCE v2"),), 4)
    assert host.module_parameter("nvidia_peermem", "x") == "1"
    assert host.module_parameter("nvidia_peermem", "y") == ""
    assert host.kernel_log(["Xid"]) == KernelLog((KernelMessage("Xid 79", 1.0),), True, 50.0)
    with pytest.raises(CouldNotMeasure, match=r"^docker: not readable$"):
        host.container_settings("docker")
    assert host.container_settings("podman") is None


def test_one_read_after_the_other_and_what_is_said_of_a_peer() -> None:
    gpu = FakeGpu(
        0,
        {
            "temperature_c": {"then": [30, {"error": "lost"}]},
            "p2p_status": {"gpu1": {"read": "OK", "write": "NS"}, "all": {"error": "Unknown"}},
        },
    )
    assert gpu.temperature_c() == 30
    for _ in range(2):
        with pytest.raises(CouldNotMeasure, match=r"^gpu0: temperature_c: lost$"):
            gpu.temperature_c()
    assert gpu.p2p_status(1).write == "NS"
    with pytest.raises(CouldNotMeasure, match=r"^gpu0: p2p_status of gpu2: Unknown$"):
        gpu.p2p_status(2)
    with pytest.raises(CouldNotMeasure, match=r"^gpu1: fell off$"):
        FakeGpu(1, {"error": "fell off"}).temperature_c()


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        (RdmaPort, {"nmae": "mlx5_0"}, TypeError),
        (tuple[int, int], [1], ValueError),
        (Power, [1], AttributeError),
        (int, "many", ValueError),
    ],
)
def test_what_is_of_another_shape_is_refused(kind: Any, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        shaped(kind, value)
