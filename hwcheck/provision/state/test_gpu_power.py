"""gpu_power: power limits, application clocks and persistence mode of every GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwcheck.provision.state.asserts import ask, asserts
from hwcheck.provision.state.next_boot import enabled_problem
from hwcheck.provision.state.node import need_gpu

SETS = "/usr/local/sbin/hwcheck-gpu-power"
UNIT = "hwcheck-gpu-power"
KINDS = ("applications", "default_applications")
PERSISTENCE = {"enabled": "Enabled", "disabled": "Disabled"}


def applies(host: Any, role: Mapping[str, Any]) -> None:
    """Skip the assertions where the role does nothing."""
    need_gpu(host, when=bool(role["gpu_power_only_with_gpu"]))


def query(host: Any, field: str) -> list[tuple[str, str]]:
    """Return what nvidia-smi says of every GPU, by its index."""
    text = ask(host, f"nvidia-smi --query-gpu=index,{field} --format=csv,noheader,nounits")
    pairs = [line.partition(",") for line in text.splitlines()]
    return [(gpu.strip(), actual.strip()) for gpu, _, actual in pairs]


@asserts("gpu_power_limit_w", when=lambda role: float(role["gpu_power_limit_w"]) > 0)
def test_power_limit(host: Any, wanted: float) -> None:
    """Every GPU has the power limit."""
    for gpu, actual in query(host, "power.limit"):
        try:
            is_same = abs(float(actual) - float(wanted)) < 1
        except ValueError:
            is_same = False  # [N/A]
        assert is_same, f"the power limit of GPU {gpu} is {actual} W, not {wanted} W"


@asserts(
    "gpu_power_application_clocks",
    when=lambda role: role["gpu_power_application_clocks"] != "reset",
)
def test_application_clocks(host: Any, wanted: str) -> None:
    """Every GPU has the application clocks, memory and graphics."""
    pair = ", ".join(part.strip() for part in str(wanted).split(","))
    for gpu, actual in query(host, "clocks.applications.memory,clocks.applications.graphics"):
        assert actual == pair, f"the application clocks of GPU {gpu} are {actual} MHz, not {pair}"


@asserts(
    "gpu_power_application_clocks",
    when=lambda role: role["gpu_power_application_clocks"] == "reset",
)
def test_clocks_reset(host: Any) -> None:
    """Every GPU has the application clocks that it comes with."""
    pairs = [f"clocks.{kind}.{clock}" for kind in KINDS for clock in ("memory", "graphics")]
    for gpu, actual in query(host, ",".join(pairs)):
        clocks = actual.split(", ")
        current, default = ", ".join(clocks[:2]), ", ".join(clocks[2:])
        assert current == default, (
            f"the application clocks of GPU {gpu} are {current} MHz, not {default}"
        )


@asserts("gpu_power_persistence_mode")
def test_persistence_mode(host: Any, wanted: str) -> None:
    """Every GPU has the mode."""
    for gpu, actual in query(host, "persistence_mode"):
        assert actual == PERSISTENCE[wanted], f"persistence mode of GPU {gpu} is {actual}"


@asserts("gpu_power_limit_w", when=lambda role: float(role["gpu_power_limit_w"]) > 0)
def test_power_limit_at_boot(host: Any, wanted: float) -> None:
    """The next boot sets the power limit."""
    _at_boot(host, f"{wanted}", 0)


@asserts("gpu_power_application_clocks")
def test_application_clocks_at_boot(host: Any, wanted: str) -> None:
    """The next boot sets the clocks."""
    _at_boot(host, wanted, 1)


@asserts("gpu_power_persistence_mode")
def test_persistence_mode_at_boot(host: Any, wanted: str) -> None:
    """The next boot sets the mode."""
    _at_boot(host, PERSISTENCE[wanted], 2)


def _at_boot(host: Any, wanted: str, position: int) -> None:
    """Assert that a GPU, which forgets what it was told, is told this at boot."""
    wrong = enabled_problem(host, UNIT)
    assert not wrong, wrong
    assert host.run("test -x %s", SETS).succeeded, f"{SETS} is missing"
    lines = ask(host, "systemctl cat %s", UNIT).splitlines()
    starts = [line.split()[2:] for line in lines if line.startswith("ExecStart=")]
    told = (starts[-1] if starts else [])[position : position + 1]
    assert told == [wanted], f"{UNIT} sets {' '.join(told) or 'nothing'} at boot, not {wanted}"
