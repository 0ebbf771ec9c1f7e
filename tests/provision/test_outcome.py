"""From Ansible's statistics to hosts and an exit code."""

from __future__ import annotations

import pytest

from hwcheck.errors import UsageError
from hwcheck.provision.outcome import exit_code, host_outcomes, role_vars

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


def test_what_a_play_told_of_its_roles() -> None:
    told = {"hwcheck_role_vars": {"good": {"nccl_conf": "present"}}, "other": 1}
    assert role_vars({**STATS, "artifact_data": told}) == {"good": {"nccl_conf": "present"}}
    assert role_vars(STATS) == {}


@pytest.mark.parametrize("told", ["present", {"good": "present"}, ["good"]])
def test_what_is_no_variables_of_hosts_is_refused(told: object) -> None:
    with pytest.raises(UsageError, match=r"^set_stats hwcheck_role_vars: it is not "):
        role_vars({"artifact_data": {"hwcheck_role_vars": told}})
