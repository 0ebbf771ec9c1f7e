from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.judge.multi_host import with_group, without_group
from hwcheck.judge.records import Finding, HostVerdict, Judgement
from hwcheck.results.multi_host import GroupRecord, Suspect
from tests.results.test_multi_host import RUN

HEALTHY = GroupRecord(("pairs",), ("a", "b"), "gloo", (RUN,), finished=True)


def judgement(*outcomes: str, asked: int = 3, findings: tuple[Finding, ...] = ()) -> Judgement:
    hosts = tuple(
        HostVerdict(name, outcome, "reported", "", asked, asked, 0)
        for name, outcome in zip("abc", outcomes, strict=False)
    )
    return Judgement("pass", 0, hosts, findings)


def outcomes(judged: Judgement) -> dict[str, str]:
    return {host.host: host.outcome for host in judged.hosts}


def test_a_healthy_group_changes_no_outcome() -> None:
    judged = with_group(judgement("pass", "warn"), HEALTHY)
    assert (outcomes(judged), judged.exit_code) == ({"a": "pass", "b": "warn"}, 0)
    assert [(host.asked, host.measured) for host in judged.hosts] == [(4, 4), (4, 4)]
    assert with_group(judged, None) is judged


@pytest.mark.parametrize("suspects", [("b",), ("b", "a")])
def test_a_suspect_fails_and_so_does_the_run(suspects: tuple[str, ...]) -> None:
    record = replace(HEALTHY, suspects=(Suspect(suspects, "slow", ("5 GB/s", "20 GB/s")),))
    judged = with_group(judgement("pass", "pass"), record)
    failed = {name for name, outcome in outcomes(judged).items() if outcome == "fail"}
    assert (failed, judged.outcome, judged.exit_code) == (set(suspects), "fail", 1)
    reason = next(host.reason for host in judged.hosts if host.host == "b")
    assert "slow: 5 GB/s; 20 GB/s" in reason
    assert ("link between" in reason) == (len(suspects) == 2)
    assert without_group(judged).findings == ()


@pytest.mark.parametrize(
    ("change", "unproven"),
    [
        ({"absent": {"b": "busy"}}, {"a", "b"}),
        ({"unresolved": ("a and b: hang",)}, {"a", "b"}),
        ({"finished": False}, {"a", "b"}),
    ],
)
def test_what_could_not_be_measured_is_unproven(
    change: dict[str, object], unproven: set[str]
) -> None:
    judged = with_group(judgement("pass", "pass", "pass"), replace(HEALTHY, **change))  # type: ignore[arg-type]
    found = {name for name, outcome in outcomes(judged).items() if outcome == "inconclusive"}
    assert (found, judged.exit_code) == (unproven, 3), "c is in no group"


def test_a_suspect_weighs_more_than_what_is_unproven() -> None:
    record = replace(HEALTHY, suspects=(Suspect(("a",), "hang", ()),), absent={"a": "gone"})
    judged = with_group(judgement("pass", "inconclusive"), record)
    assert (outcomes(judged)["a"], judged.exit_code) == ("fail", 1)


def test_hosts_of_which_nothing_else_was_asked_are_judged_by_the_group() -> None:
    nothing = tuple(
        Finding(name, "", "inconclusive", reason="no check applies to this host") for name in "ab"
    )
    judged = with_group(
        judgement("inconclusive", "inconclusive", asked=0, findings=nothing), HEALTHY
    )
    assert (outcomes(judged), judged.findings) == ({"a": "pass", "b": "pass"}, ())
    assert (judged.exit_code, judged.asked, judged.measured) == (0, 2, 2)


def test_what_was_lost_stays_lost() -> None:
    lost = judgement("inconclusive", "pass", asked=0)
    lost = replace(lost, hosts=tuple(replace(host, state="lost") for host in lost.hosts))
    assert outcomes(with_group(lost, HEALTHY))["a"] == "inconclusive"
