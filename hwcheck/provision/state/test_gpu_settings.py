"""gpu_settings: power limits, clocks and modes of every GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hwcheck.provision.state.asserts import ask, asserts
from hwcheck.provision.state.next_boot import enabled_problem
from hwcheck.provision.state.node import need_gpu, read

SETS = "/usr/local/sbin/hwcheck-gpu-settings"
UNIT = "hwcheck-gpu-settings"
KINDS = ("applications", "default_applications")
SWITCH = {"enabled": "Enabled", "disabled": "Disabled"}
COMPUTE = {
    "default": "Default",
    "exclusive_process": "Exclusive_Process",
    "prohibited": "Prohibited",
}
LOCKED = "/run/hwcheck/gpu-settings"
"""Has which clocks were locked since the boot; nvidia-smi does not tell."""
CLOCK_STEP_MHZ = 30
"""A locked clock may be the next higher one that the GPU has."""
INSTANCE = re.compile(r"GPU (\d+):|\s+MIG (\S+)\s+Device")

Role = Mapping[str, Any]


def applies(host: Any, role: Role) -> None:
    """Skip the assertions where the role does nothing."""
    need_gpu(host, when=bool(role["gpu_settings_only_with_gpu"]))


def query(host: Any, field: str) -> list[tuple[str, str]]:
    """Return what nvidia-smi says of every GPU, by its index."""
    text = ask(host, f"nvidia-smi --query-gpu=index,{field} --format=csv,noheader,nounits")
    pairs = [line.partition(",") for line in text.splitlines()]
    return [(gpu.strip(), actual.strip()) for gpu, _, actual in pairs]


@asserts(
    "gpu_settings_power_limit_w", when=lambda role: float(role["gpu_settings_power_limit_w"]) > 0
)
def test_power_limit(host: Any, wanted: float) -> None:
    """Every GPU has the power limit."""
    for gpu, actual in query(host, "power.limit"):
        try:
            is_same = abs(float(actual) - float(wanted)) < 1
        except ValueError:
            is_same = False  # [N/A]
        assert is_same, f"the power limit of GPU {gpu} is {actual} W, not {wanted} W"


@asserts(
    "gpu_settings_application_clocks",
    when=lambda role: role["gpu_settings_application_clocks"] != "reset",
)
def test_application_clocks(host: Any, wanted: str) -> None:
    """Every GPU has the application clocks, memory and graphics."""
    pair = ", ".join(part.strip() for part in str(wanted).split(","))
    for gpu, actual in query(host, "clocks.applications.memory,clocks.applications.graphics"):
        assert actual == pair, f"the application clocks of GPU {gpu} are {actual} MHz, not {pair}"


@asserts(
    "gpu_settings_application_clocks",
    when=lambda role: role["gpu_settings_application_clocks"] == "reset",
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


@asserts("gpu_settings_persistence_mode")
def test_persistence_mode(host: Any, wanted: str) -> None:
    """Every GPU has the mode."""
    for gpu, actual in query(host, "persistence_mode"):
        assert actual == SWITCH[wanted], f"persistence mode of GPU {gpu} is {actual}"


@asserts("gpu_settings_compute_mode")
def test_compute_mode(host: Any, wanted: str) -> None:
    """Every GPU has the mode."""
    for gpu, actual in query(host, "compute_mode"):
        assert actual == COMPUTE[wanted], f"compute mode of GPU {gpu} is {actual}"


@asserts("gpu_settings_ecc_mode")
def test_ecc_mode(host: Any, wanted: str) -> None:
    """Every GPU has the mode, now and after the next boot."""
    for gpu, actual in query(host, "ecc.mode.current,ecc.mode.pending"):
        now, _, pending = actual.partition(", ")
        mode = SWITCH[wanted]
        assert pending == mode, f"ECC mode of GPU {gpu} is {pending} from the next boot on"
        assert now == mode, f"ECC mode of GPU {gpu} is {now}: {pending} waits for a reboot"


@asserts("gpu_settings_mig", each=True)
def test_mig(host: Any, wanted: tuple[Any, str], role: Role) -> None:
    """A GPU, or each that is not named, has MIG mode and the instances."""
    which, value = str(wanted[0]), str(wanted[1])
    named = {str(gpu) for gpu in role["gpu_settings_mig"]}
    modes = dict(query(host, "mig.mode.current,mig.mode.pending"))
    chosen = set(modes) - named if which == "all" else {which}
    mode = "Disabled" if value == "disabled" else "Enabled"
    has = instances(host) if value not in SWITCH else {}
    for gpu in sorted(chosen):
        now, _, pending = modes.get(gpu, "not there, ").partition(", ")
        if value == "disabled" and now.startswith("["):
            continue  # a GPU without MIG
        waits = f": {pending} waits for a reset" if pending == mode else ""
        assert now == mode, f"MIG mode of GPU {gpu} is {now}{waits}"
        assert pending == mode, f"MIG mode of GPU {gpu} is {pending} after the next reset"
        if value not in SWITCH:
            profiles = has.get(gpu, [])
            assert sorted(profiles) == sorted(value.split(",")), (
                f"the MIG devices of GPU {gpu} are {','.join(profiles) or 'none'}, not {value}"
            )


def instances(host: Any) -> dict[str, list[str]]:
    """Return the profiles of each GPU's MIG devices, by its index."""
    by_gpu: dict[str, list[str]] = {}
    gpu = ""
    for line in ask(host, "nvidia-smi -L").splitlines():
        match = INSTANCE.match(line)
        if match and match[1]:
            gpu = match[1]
        elif match:
            by_gpu.setdefault(gpu, []).append(match[2])
    return by_gpu


@asserts("gpu_settings_locked_clocks")
def test_locked_clocks(host: Any, wanted: str) -> None:
    """Every GPU was told since the boot, and does not run above."""
    _locked(host, wanted, "clocks.locked", "clocks.sm")


@asserts("gpu_settings_locked_memory_clocks")
def test_locked_memory_clocks(host: Any, wanted: str) -> None:
    """Every GPU was told since the boot, and its memory does not run above."""
    _locked(host, wanted, "clocks.locked.memory", "clocks.mem")


def _locked(host: Any, wanted: str, setting: str, clock: str) -> None:
    for gpu, actual in query(host, clock):
        locked = read(host, f"{LOCKED}/{gpu}.{setting}") or "nothing"
        assert locked == str(wanted), f"GPU {gpu} was told {locked} since the boot, not {wanted}"
        if wanted != "reset" and actual.isdecimal():
            top = int(str(wanted).rpartition(",")[2])
            assert int(actual) <= top + CLOCK_STEP_MHZ, (
                f"{clock} of GPU {gpu} is {actual} MHz: it is not locked to {wanted} MHz"
            )


@asserts(
    "gpu_settings_power_limit_w", when=lambda role: float(role["gpu_settings_power_limit_w"]) > 0
)
def test_power_limit_at_boot(host: Any, wanted: float) -> None:
    """The next boot sets the power limit."""
    _at_boot(host, "power.limit", f"{wanted}")


@asserts("gpu_settings_application_clocks")
def test_application_clocks_at_boot(host: Any, wanted: str) -> None:
    """The next boot sets the clocks."""
    _at_boot(host, "clocks.applications", wanted)


@asserts("gpu_settings_locked_clocks")
def test_locked_clocks_at_boot(host: Any, wanted: str) -> None:
    """The next boot locks the clocks."""
    _at_boot(host, "clocks.locked", wanted)


@asserts("gpu_settings_locked_memory_clocks")
def test_locked_memory_clocks_at_boot(host: Any, wanted: str) -> None:
    """The next boot locks the clocks of the memory."""
    _at_boot(host, "clocks.locked.memory", wanted)


@asserts("gpu_settings_persistence_mode")
def test_persistence_mode_at_boot(host: Any, wanted: str) -> None:
    """The next boot sets the mode."""
    _at_boot(host, "persistence_mode", SWITCH[wanted])


@asserts("gpu_settings_compute_mode")
def test_compute_mode_at_boot(host: Any, wanted: str) -> None:
    """The next boot sets the mode."""
    _at_boot(host, "compute_mode", COMPUTE[wanted])


@asserts("gpu_settings_mig", each=True)
def test_mig_at_boot(host: Any, wanted: tuple[Any, str]) -> None:
    """The next boot makes the instances, which no GPU keeps."""
    _at_boot(host, f"mig.{wanted[0]}", wanted[1])


def _at_boot(host: Any, setting: str, wanted: str) -> None:
    """Assert that a GPU, which forgets what it was told, is told this at boot."""
    wrong = enabled_problem(host, UNIT)
    assert not wrong, wrong
    assert host.run("test -x %s", SETS).succeeded, f"{SETS} is missing"
    lines = ask(host, "systemctl cat %s", UNIT).splitlines()
    starts = [line.split()[2:] for line in lines if line.startswith("ExecStart=")]
    at_boot = dict(word.partition("=")[::2] for word in (starts[-1] if starts else []))
    actual = at_boot.get(setting, "left alone")
    assert actual == wanted, f"{UNIT}: {setting} is {actual} at boot, not {wanted}"
