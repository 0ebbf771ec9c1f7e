"""time_sync: chrony asks the servers that are named, and nothing else sets the clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwcheck.provision.state.asserts import ask, asserts
from hwcheck.provision.state.node import daemon
from hwcheck.provision.state.packages import is_debian

OTHERS = ("systemd-timesyncd", "ntp", "ntpd", "ntpsec", "openntpd")
ACTIVE = "systemctl list-units --plain --no-legend --state=active"
ENABLED = "systemctl list-unit-files --no-legend --state=enabled"
"""Ends with 1 where there is none."""
PTP = ("phc2sys*", "timemaster*")
SYNCHRONISED = ("Normal", "Insert second", "Delete second")
"""What chronyc(1) calls the leap status of a clock that is synchronised."""

Role = Mapping[str, Any]


def enabled(role: Role) -> bool:
    """Return whether the role does anything on the host."""
    return bool(role["time_sync_ntp_servers"])


def settings(host: Any) -> list[list[str]]:
    """Return the lines of chrony's configuration as words."""
    file = "/etc/chrony/chrony.conf" if is_debian(host) else "/etc/chrony.conf"
    lines = (line.split() for line in ask(host, "cat %s", file).splitlines())
    return [words for words in lines if words and words[0][0] not in "#!;%"]


@asserts("time_sync_ntp_servers")
def test_service(host: Any) -> None:
    """The daemon runs now and at the next boot."""
    wrong = daemon(host, "chrony" if is_debian(host) else "chronyd", on=True)
    assert not wrong, wrong


@asserts("time_sync_ntp_servers", each=True)
def test_server(host: Any, wanted: Mapping[str, Any]) -> None:
    """The chronyd that runs asks the server."""
    name = str(wanted["hostname"])
    asked = [line.split(",")[2] for line in ask(host, "chronyc -c -N sources").splitlines()]
    assert name in asked, f"chronyd does not ask {name}, but {', '.join(asked) or 'nobody'}"


@asserts("time_sync_ntp_servers")
def test_servers_of_the_next_start(host: Any, wanted: list[Mapping[str, Any]]) -> None:
    """The next chronyd asks the servers and no others."""
    named = sorted(words[1] for words in settings(host) if words[0] in ("server", "pool", "peer"))
    expected = sorted(str(server["hostname"]) for server in wanted)
    assert named == expected, f"from its next start on chronyd asks {', '.join(named) or 'nobody'}"


@asserts("time_sync_ntp_servers")
def test_synchronised(host: Any) -> None:
    """The clock follows one of them."""
    status = ask(host, "chronyc -c tracking").rpartition(",")[2]
    assert status in SYNCHRONISED, f"the clock is not synchronised: chronyd says {status}"


@asserts("time_sync_ntp_servers")
def test_alone(host: Any) -> None:
    """No second service sets the clock, now or at the next boot."""
    for command, when in ((ACTIVE, "runs"), (ENABLED, "starts at boot")):
        patterns = [*(f"{name}.service" for name in OTHERS), *PTP]
        lines = ask(host, command + " %s" * len(patterns) + " || true", *patterns).splitlines()
        others = [line.split()[0] for line in lines if line.strip()]
        assert not others, f"{', '.join(others)} {when} beside chronyd"


@asserts(
    "time_sync_step_threshold",
    when=lambda role: enabled(role) and float(role["time_sync_step_threshold"]) >= 0,
)
def test_step_threshold(host: Any, wanted: float) -> None:
    """The clock jumps from this offset on, or never."""
    steps = [words[1:] for words in settings(host) if words[0] == "makestep"]
    expected = [[str(float(wanted)), "3"]] if float(wanted) else []
    assert steps == expected, f"makestep is {steps}, not {expected}"


@asserts("time_sync_min_sources", when=enabled)
def test_min_sources(host: Any, wanted: int) -> None:
    """As many servers must agree."""
    least = [words[1] for words in settings(host) if words[0] == "minsources"] or ["1"]
    assert int(least[-1]) == int(wanted), f"minsources is {least[-1]}, not {wanted}"
