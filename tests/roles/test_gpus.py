"""What the role gpu_settings sets of GPUs: clocks, ECC, compute mode, MIG and its instances."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.scenario import load
from tests.roles.machine import Machine, Played
from tests.roles.stated import Stated, state

ROLE = ["gpu_settings"]
WANTED: dict[str, object] = {
    "gpu_settings_compute_mode": "exclusive_process",
    "gpu_settings_ecc_mode": "disabled",
    "gpu_settings_locked_clocks": "1200,1755",
    "gpu_settings_locked_memory_clocks": "2619",
    "gpu_settings_mig": {"all": "3g.40gb,1g.10gb", 6: "enabled", "7": "disabled"},
}
MODES = "compute_mode,ecc.mode.pending,mig.mode.current,locked"
ASKED = f"nvidia-smi --query-gpu={MODES} | sed -n '1p; 7p; 8p'; nvidia-smi -L | grep MIG"
AS_IT_COMES = ["Default, Enabled, Disabled, "] * 3
LOCKED = "-lgc=1200,1755 -lmc=2619"
SET = [
    *(f"Exclusive_Process, Disabled, {mig}abled, {LOCKED}" for mig in ("En", "En", "Dis")),
    *(f"MIG {name} Device {n}:" for _ in range(6) for n, name in enumerate(("3g.40gb", "1g.10gb"))),
]
GPUS = "/run/hwlab/gpus.json"
UNIT = "/etc/systemd/system/hwcheck-gpu-settings.service"
IDLE, FAST = '"clocks.sm": "345"', '"clocks.sm": "1980"'
# Each with what the state says of it.
DRIFT = {
    "nvidia-smi -i 2 -c DEFAULT": "gpu_settings_compute_mode",
    "nvidia-smi -i 4 -e 1": "gpu_settings_ecc_mode",
    "nvidia-smi mig -i 5 -dci; nvidia-smi mig -i 5 -dgi": "gpu_settings_mig",
    f"sed -i 's/{IDLE}/{FAST}/' {GPUS}": "gpu_settings_locked_clocks",
    "rm /run/hwcheck/gpu-settings/1.clocks.locked.memory": "gpu_settings_locked_memory_clocks",
}
SHOWN_BY_THE_NEXT_BOOT = {
    "gpu_settings_compute_mode",
    "gpu_settings_locked_clocks",
    "gpu_settings_locked_memory_clocks",
    "gpu_settings_mig",
    "gpu_settings_persistence_mode",
}
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def machine(namespaces: None) -> Iterator[Machine]:
    with Machine(copy.deepcopy(dict(load("h100x8").host)), []) as machine:
        smi = Path(__file__).with_name("nvidia_smi.py").read_text()
        machine.write("/usr/bin/nvidia-smi", smi, 0o755)
        yield machine


def asked(machine: Machine) -> list[str]:
    lines = machine.ask(f"{{ {ASKED}; }} || true").splitlines()
    return [" ".join(line.split()[:4]) if "MIG" in line else line for line in lines]


@pytest.fixture(scope="module")
def predicted(machine: Machine) -> Played:
    return machine.play(ROLE, "--check", **WANTED)


@pytest.fixture(scope="module")
def before(machine: Machine, predicted: Played) -> Stated:
    assert [line.strip() for line in asked(machine)] == [line.strip() for line in AS_IT_COMES]
    return state(machine, ROLE, **WANTED)


@pytest.fixture(scope="module")
def first(machine: Machine, before: Stated) -> Played:
    return machine.play(ROLE, **WANTED)


@pytest.fixture(scope="module")
def second(machine: Machine, first: Played) -> Played:
    """The same once more, on a node that is at work."""
    return machine.play(ROLE, **WANTED, node_reboot_drained_command=["false"])


@pytest.fixture(scope="module")
def booted(machine: Machine, second: Played) -> Played:
    return machine.play(["node_reboot"], node_reboot_allowed=True)


def test_check_mode_predicts_what_the_first_run_changes(predicted: Played, first: Played) -> None:
    assert predicted.code == 0, predicted.text
    assert first.code == 0, first.text
    # It stands on what is not installed yet.
    assert set(first.changed) - set(predicted.changed) == {"gpu_settings : Enable the unit"}


def test_the_gpus_are_set_and_ecc_waits_for_a_boot(
    machine: Machine, before: Stated, second: Played
) -> None:
    assert before.variables("fail") == {*WANTED, "gpu_settings_persistence_mode"}, before.text
    assert asked(machine) == SET
    assert (second.code, second.changes) == (0, 0), second.text
    reasons = machine.ask("cat /run/hwcheck/reboot/gpu_settings").split("; ")
    assert reasons[0] == "gpu 0: ECC mode is Enabled, Disabled is pending"
    assert len(reasons) == 8
    waits = state(machine, ROLE, **WANTED)
    assert waits.variables("fail") == {"gpu_settings_ecc_mode"}, waits.text
    assert waits.variables("inconclusive") == set()


def test_a_boot_brings_all_of_it_back(machine: Machine, booted: Played) -> None:
    assert booted.code == 0, booted.text
    assert asked(machine) == SET
    holds = state(machine, ROLE, **WANTED)
    assert holds.code == 0, holds.text
    again = machine.play(ROLE, **WANTED)
    assert (again.code, again.changes) == (0, 0), again.text
    assert machine.ask("ls /run/hwcheck/reboot 2>/dev/null || true") == ""


def test_drift_is_found_refused_on_a_node_at_work_and_mended_on_another(
    machine: Machine, booted: Played
) -> None:
    machine.ask("; ".join(DRIFT))
    found = state(machine, ROLE, **WANTED)
    assert found.variables("fail") == set(DRIFT.values()), found.text
    gpus = machine.ask(f"cat {GPUS}")
    refused = machine.play(ROLE, **WANTED, node_reboot_drained_command=["false"])
    assert refused.code != 0
    assert "needs a change of its GPUs (gpu " in refused.text
    assert "and is not drained" in refused.text
    assert (refused.changed, machine.ask(f"cat {GPUS}")) == ([], gpus)
    machine.ask(f"sed -i 's/{FAST}/{IDLE}/' {GPUS}")
    mended = machine.play(ROLE, **WANTED)
    assert mended.changed == ["gpu_settings : Set them now"], mended.text
    assert asked(machine) == SET


@pytest.mark.wide
def test_what_only_the_next_boot_would_show_is_found(machine: Machine, booted: Played) -> None:
    machine.ask("systemctl -q disable hwcheck-gpu-settings")
    found = state(machine, ROLE, **WANTED)
    assert found.variables("fail") == SHOWN_BY_THE_NEXT_BOOT, found.text
    machine.ask(f"sed -i s/apply.*/apply/ {UNIT}")
    mended = machine.play(ROLE, **WANTED)
    assert mended.changed == [
        "gpu_settings : Set them at every boot",
        "gpu_settings : Enable the unit",
    ]
    holds = state(machine, ROLE, **WANTED)
    assert holds.code == 0, holds.text


def test_a_process_on_a_gpu_is_named(machine: Machine, booted: Played) -> None:
    machine.ask("touch /dev/nvidia0; sleep 600 </dev/nvidia0 >/dev/null 2>&1 & echo $! >/run/pid")
    refused = machine.play(ROLE, **WANTED | {"gpu_settings_power_limit_w": 500})
    machine.ask("kill $(cat /run/pid); rm /dev/nvidia0")
    assert refused.code != 0
    assert "gpu 0: power.limit 700 -\\u003e 500" in refused.text.replace(">", "\\u003e")
    assert "is not drained: sleep (process " in refused.text
    assert asked(machine) == SET


def test_a_gpu_that_is_not_there_is_named(machine: Machine, booted: Played) -> None:
    refused = machine.play(ROLE, **WANTED | {"gpu_settings_mig": {9: "enabled"}})
    assert refused.code != 0
    assert "gpu 9 is not there, and MIG is wanted on it" in refused.text
    assert refused.changed == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"gpu_settings_power_limit_w": 9000}, "a power limit is 200 to 700 W, 9000 W is wanted"),
        ({"gpu_settings_locked_clocks": "1755,1200"}, "the lowest clock comes first"),
    ],
)
def test_what_no_gpu_takes_is_refused_before_anything_is_written(
    machine: Machine, booted: Played, wrong: dict[str, object], says: str
) -> None:
    refused = machine.play(ROLE, **WANTED | wrong)
    assert refused.code != 0
    assert says in refused.text
    assert refused.changed == []


@pytest.mark.wide
def test_profiles_that_do_not_fit_are_told_in_the_words_of_nvidia_smi(
    machine: Machine, booted: Played
) -> None:
    refused = machine.play(ROLE, **WANTED | {"gpu_settings_mig": {0: "4g.40gb,4g.40gb"}})
    assert refused.code != 0
    assert "gpu 0: Failed to create GPU instances: Insufficient Resources" in refused.text
    assert refused.changed == []  # a boot does not ask for them
    assert machine.play(ROLE, **WANTED).code == 0
    assert asked(machine) == SET


@pytest.mark.wide
def test_a_gpu_before_hopper_keeps_its_mode_and_may_wait_for_a_reset(
    machine: Machine, booted: Played
) -> None:
    kept = "/var/lib/hwlab"
    machine.ask(f"touch {kept}/ampere {kept}/in-use; rm {GPUS} {kept}/inforom.json")
    split: dict[int, str] = {0: "3g.20gb", 7: "disabled"}
    only: dict[str, object] = {"gpu_settings_mig": split, "gpu_settings_power_limit_w": 500}
    waits = machine.play(ROLE, **only)
    assert waits.code == 0, waits.text
    reason = "gpu 0: MIG mode is Disabled, Enabled is pending"
    assert machine.ask("cat /run/hwcheck/reboot/gpu_settings") == reason
    assert machine.play(ROLE, **only).changes == 0
    rebooted = machine.play(["node_reboot"], node_reboot_allowed=True)
    assert rebooted.code == 0, rebooted.text
    machine.ask(f"rm {kept}/in-use")
    split[1] = "1g.5gb"
    reset = machine.play(ROLE, **only)
    assert reset.changed == ["gpu_settings : Set them now", "gpu_settings : Set them at every boot"]
    holds = state(machine, ROLE, **only)
    assert holds.code == 0, holds.text


@pytest.mark.wide
def test_what_a_gpu_does_not_have_is_refused_by_name(machine: Machine, booted: Played) -> None:
    machine.ask(f"touch /var/lib/hwlab/geforce; rm {GPUS}")
    for wanted, says in {
        "gpu_settings_ecc_mode": "gpu 0 does not have ecc.mode.pending: nvidia-smi says [N/A]",
        "gpu_settings_mig": "gpu 0 has no MIG: nvidia-smi says [N/A]",
    }.items():
        refused = machine.play(ROLE, gpu_settings_power_limit_w=500, **{wanted: WANTED[wanted]})
        assert refused.code != 0
        assert says in refused.text
        assert refused.changed == []
    refused = machine.play(ROLE, gpu_settings_locked_clocks="1755")
    assert refused.code != 0
    assert "nvidia-smi -lgc 1755: Setting locked GPU clocks is not supported" in refused.text
    without = machine.play(ROLE, gpu_settings_mig={"all": "disabled"})
    assert without.code == 0, without.text


@pytest.mark.wide
def test_check_mode_goes_on_where_the_driver_is_not_installed_yet(machine: Machine) -> None:
    machine.ask("mv /usr/bin/nvidia-smi /usr/bin/later")
    predicted = machine.play(ROLE, "--check", gpu_settings_power_limit_w=500)
    refused = machine.play(ROLE, gpu_settings_power_limit_w=500)
    machine.ask("mv /usr/bin/later /usr/bin/nvidia-smi")
    assert predicted.code == 0, predicted.text
    assert refused.code != 0
    assert "nvidia-smi is not there: apply the role nvidia_driver first" in refused.text
