"""hwcheck_controller: the user, the program, its folders and the timers of the sweeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hwcheck.provision.state.asserts import NotMeasuredError, ask, asserts

Role = Mapping[str, Any]
OWNER = "stat -c %%U:%%G:%%a %s 2>/dev/null || echo none"


def enabled(role: Role) -> bool:
    """Return whether the host is a controller."""
    return bool(role["hwcheck_controller_enabled"])


def wants(sweep: str, state: str) -> Any:
    """Return when a sweep is to be there, or not to be."""
    return lambda role: enabled(role) and role[f"hwcheck_controller_{sweep}"] == state


@asserts("hwcheck_controller_user", when=enabled)
def test_user(host: Any, wanted: str, role: Role) -> None:
    """The user is there, with its home."""
    fields = ask(host, "getent passwd %s || echo none", wanted).split(":")
    assert len(fields) > 5, f"there is no user {wanted}"
    home = str(role["hwcheck_controller_home"])
    assert fields[5] == home, f"the home of {wanted} is {fields[5]}, not {home}"


@asserts(
    "hwcheck_controller_ssh_key",
    when=lambda role: enabled(role) and bool(role["hwcheck_controller_ssh_key"]),
)
def test_ssh_key(host: Any, role: Role) -> None:
    """It has an SSH key that nobody else may read."""
    user, home = (str(role[f"hwcheck_controller_{name}"]) for name in ("user", "home"))
    key = f"{home}/.ssh/id_ed25519"
    owner = ask(host, OWNER, key)
    assert owner == f"{user}:{user}:600", f"{key} is {owner}, not {user}:{user}:600"


@asserts("hwcheck_controller_path", when=enabled)
def test_program(host: Any, role: Role) -> None:
    """The program hwcheck starts."""
    program = _program(role)
    assert host.run("%s --version", program).succeeded, f"{program} does not start"


@asserts("hwcheck_controller_runs", when=enabled)
def test_runs(host: Any, wanted: str, role: Role) -> None:
    """The user may write to the folder of the runs."""
    user = str(role["hwcheck_controller_user"])
    owner = ask(host, OWNER, wanted)
    assert owner == f"{user}:{user}:750", f"{wanted} is {owner}, not {user}:{user}:750"


@asserts("hwcheck_controller_night", when=wants("night", "present"))
def test_night(host: Any, role: Role) -> None:
    """The timer of the night is as `hwcheck sweep install` would have it, and runs."""
    when = [*("--at", role["hwcheck_controller_at"])]
    when += ["--randomize", role["hwcheck_controller_randomize"]]
    _as_installed(host, role, [], [*when, *role["hwcheck_controller_options"]])


@asserts("hwcheck_controller_night", when=wants("night", "absent"))
def test_no_night(host: Any, role: Role) -> None:
    """There is no sweep of a night."""
    _as_removed(host, role, [])


@asserts("hwcheck_controller_minutes", when=wants("minutes", "present"))
def test_minutes(host: Any, role: Role) -> None:
    """The timer beside jobs is as `hwcheck sweep install` would have it, and runs."""
    _as_installed(host, role, MINUTES, role["hwcheck_controller_minutes_options"])


@asserts("hwcheck_controller_minutes", when=wants("minutes", "absent"))
def test_no_minutes(host: Any, role: Role) -> None:
    """There is no sweep beside jobs."""
    _as_removed(host, role, MINUTES)


MINUTES = ["--level", "minutes"]


def _program(role: Role) -> str:
    return f"{role['hwcheck_controller_path']}/bin/hwcheck"


def _as_installed(host: Any, role: Role, level: Sequence[str], more: Sequence[object]) -> None:
    user = ["--run-as", role["hwcheck_controller_user"]]
    _unchanged(host, role, "install", [*level, *user, *more])


def _as_removed(host: Any, role: Role, level: Sequence[str]) -> None:
    _unchanged(host, role, "remove", level)


def _unchanged(host: Any, role: Role, action: str, words: Sequence[object]) -> None:
    """See that `hwcheck sweep install` or `remove` would change nothing."""
    of = [*("--hosts", role["hwcheck_controller_inventory"])]
    of += ["--out", role["hwcheck_controller_runs"], *words, "--dry-run"]
    folder = str(role["hwcheck_controller_config"])
    command = " ".join(["cd %s && %s sweep", action, *["%s"] * len(of)])
    done = host.run(command, folder, _program(role), *map(str, of))
    if done.failed:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.rc}"]
        raise NotMeasuredError(reason[0])
    wrong = [line for line in done.stdout.splitlines() if "would be" in line]
    assert not wrong, wrong[0]
