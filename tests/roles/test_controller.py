"""The role of a controller, applied for real: its user, hwcheck itself, and timers of systemd."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.scenario import load
from tests.roles.controller import STANDS_ON, write_files
from tests.roles.machine import Machine, Played
from tests.roles.packages import Package
from tests.roles.stated import Stated, state

ROLE = ["hwcheck_controller"]
FILES = (
    "find /etc /opt /var/lib/hwcheck -not -name '*.pyc' -not -name __pycache__ "
    "-printf '%p %m %u %s %T@\\n' 2>/dev/null | sort | md5sum"
)
NOT_PREDICTED = {
    "hwcheck_controller : Install hwcheck",
    "hwcheck_controller : Install or remove each sweep",
}
"""They stand on what is not installed yet."""
DRIFT = {
    "hwcheck_controller : Copy the inventory and what it needs": "cd /etc/hwcheck; chmod 644 *.yml",
    "hwcheck_controller : Make the folders of the runs": "chown root /var/lib/hwcheck/runs",
    "hwcheck_controller : Install or remove each sweep": "systemctl stop hwcheck-sweep-*.timer",
}
"""By the task that mends it."""
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def machine(namespaces: None) -> Iterator[Machine]:
    packages = [Package(name, "1-1") for name in STANDS_ON]
    with Machine(load("h100x8").host, packages) as machine:
        yield machine


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    return write_files(tmp_path_factory.mktemp("controller"))


@pytest.fixture(scope="module")
def predicted(machine: Machine, variables: dict[str, object]) -> tuple[Played, bool]:
    """Check mode, and whether it left everything as it was."""
    files = machine.ask(FILES)
    played = machine.play(ROLE, "--check", **variables)
    return played, machine.ask(FILES) == files


@pytest.fixture(scope="module")
def before(machine: Machine, predicted: object, variables: dict[str, object]) -> Stated:
    return state(machine, ROLE, **variables)


@pytest.fixture(scope="module")
def first(machine: Machine, before: Stated, variables: dict[str, object]) -> Played:
    return machine.play(ROLE, **variables)


def timers(machine: Machine) -> list[str]:
    """Return the timers of sweeps that are started."""
    listed = machine.ask("systemctl list-timers --all --plain --no-legend 'hwcheck-*'")
    return sorted(word for word in listed.split() if word.endswith(".timer"))


def test_a_host_that_is_no_controller_is_left_alone(machine: Machine, first: Played) -> None:
    assert machine.play(ROLE).changes == 0


def test_check_mode_changes_nothing_and_predicts_the_changes(
    predicted: tuple[Played, bool], first: Played
) -> None:
    played, untouched = predicted
    assert (played.code, untouched) == (0, True), played.text
    assert first.code == 0, first.text
    assert set(first.changed) - set(played.changed) == NOT_PREDICTED
    assert set(played.changed) <= set(first.changed)


def test_the_first_run_makes_a_controller_and_the_second_changes_nothing(
    machine: Machine, first: Played, variables: dict[str, object]
) -> None:
    assert first.code == 0, first.text
    (timer,) = timers(machine)
    unit = machine.ask(f"systemctl cat {timer} {timer.removesuffix('.timer')}.service")
    assert "OnCalendar=*-*-* 03:15:00" in unit
    assert "User=hwcheck" in unit
    assert "ReadWritePaths=-/var/lib/hwcheck\n" in unit, "there its metrics are"
    assert (
        "ExecStart=/opt/hwcheck/controller/bin/hwcheck sweep run --hosts /etc/hwcheck/cluster.yml "
        "--out /var/lib/hwcheck/runs --budget 3h --notify /etc/hwcheck/notify.yml"
    ) in unit
    assert machine.ask("stat -c '%U %G %a' /etc/hwcheck/notify.yml") == "root hwcheck 640"
    assert machine.ask("cat /var/lib/hwcheck/.ssh/id_ed25519.pub").startswith("ssh-ed25519 ")
    dry = "sweep run --hosts /etc/hwcheck/cluster.yml --out /var/lib/hwcheck/runs --dry-run"
    said = machine.ask(f"/opt/hwcheck/controller/bin/hwcheck {dry}")
    assert "batch 1: gpu1: new" in said
    second = machine.play(ROLE, **variables)
    assert (second.code, second.changes) == (0, 0), second.text


@pytest.mark.wide
def test_check_mode_says_of_a_controller_that_nothing_would_change(
    machine: Machine, first: Played, variables: dict[str, object]
) -> None:
    assert first.code == 0, first.text
    again = machine.play(ROLE, "--check", **variables)
    assert again.code == 0, again.text
    # In check mode pip cannot tell what it would do, once it is given options of its own.
    assert set(again.changed) <= {"hwcheck_controller : Install hwcheck"}, again.text


def test_the_state_fails_before_and_holds_after(
    machine: Machine, before: Stated, first: Played, variables: dict[str, object]
) -> None:
    assert before.variables("fail") == {
        *("hwcheck_controller_user", "hwcheck_controller_ssh_key"),
        *("hwcheck_controller_path", "hwcheck_controller_runs"),
    }, before.text
    after = state(machine, ROLE, **variables)
    assert after.code == 0, after.text
    assert after.variables("pass") == before.variables("fail") | before.variables("inconclusive")


@pytest.mark.wide
def test_drift_is_found_and_mended(
    machine: Machine, first: Played, variables: dict[str, object]
) -> None:
    machine.ask("; ".join(DRIFT.values()))
    found = state(machine, ROLE, **variables)
    assert found.variables("fail") == {"hwcheck_controller_runs", "hwcheck_controller_night"}
    assert ".timer: would be started" in found.text
    mended = machine.play(ROLE, **variables)
    assert mended.changed == list(DRIFT), mended.text
    assert state(machine, ROLE, **variables).code == 0


@pytest.mark.wide
def test_the_other_choices_hold(
    machine: Machine, first: Played, variables: dict[str, object]
) -> None:
    wanted = {
        **variables,
        "hwcheck_controller_night": "absent",
        "hwcheck_controller_minutes": "present",
    }
    assert machine.play(ROLE, **wanted).code == 0
    (timer,) = timers(machine)
    assert timer.endswith("-minutes.timer")
    assert machine.play(ROLE, **wanted).changes == 0
    assert state(machine, ROLE, **wanted).code == 0


def test_what_sweep_install_refuses_is_refused_in_its_words(
    machine: Machine, first: Played, variables: dict[str, object]
) -> None:
    refused = machine.play(
        ROLE, **{**variables, "hwcheck_controller_options": ["--budget", "soon"]}
    )
    assert refused.code != 0
    assert "--budget soon: it takes seconds, or 45m, 8h, 7d, 4w" in refused.text
