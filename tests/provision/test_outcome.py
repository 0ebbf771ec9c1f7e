"""From Ansible's statistics to hosts and an exit code."""

from __future__ import annotations

import pytest

from hwcheck.provision.outcome import exit_code, host_outcomes

STATS = {
    "processed": {"good": 1, "bad": 1, "away": 1},
    "ok": {"good": 4, "bad": 2},
    "changed": {"good": 1},
    "failures": {"bad": 1},
    "dark": {"away": 1},
}


def test_each_host_has_its_outcome_and_reason() -> None:
    found = host_outcomes(["good", "bad", "away", "other"], STATS, {"bad": "no", "good": "late"})
    assert [(host.host, host.outcome, host.reason) for host in found] == [
        ("good", "ok", ""),
        ("bad", "failed", "no"),
        ("away", "unreachable", ""),
        ("other", "untouched", ""),
    ]
    assert found[0].summary() == "good: ok (4 ok, 1 changed)"
    assert found[3].summary() == "other: untouched (no task ran)"


@pytest.mark.parametrize(
    ("hosts", "complete", "code"),
    [
        (["good"], True, 0),
        (["good", "other"], True, 0),
        (["good", "away"], True, 3),
        (["good", "away", "bad"], True, 1),
        (["good", "other"], False, 3),
    ],
)
def test_the_exit_code(hosts: list[str], complete: bool, code: int) -> None:
    assert exit_code(host_outcomes(hosts, STATS, {}), complete=complete) == code
