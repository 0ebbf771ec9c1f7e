"""Causes of hosts: ranked, without symptoms, folded over the hosts."""

from __future__ import annotations

import pytest

from hwcheck.advise.case import Case
from hwcheck.advise.cause_records import Rule, Sign
from hwcheck.advise.diagnose import causes_of, diagnose, seen
from hwcheck.judge.evidence import Known
from hwcheck.judge.judge import judge
from hwcheck.judge.records import Finding
from hwcheck.results.run_folder import HostRecord
from tests import factories
from tests.advise.nodes import diagnosed, run_of

CAPPED = {"samples": {"power_cap": {"power_limit_percent": {"gpu1": 71.4}}}}
ACS = {
    "path": "NODE",
    "samples": {"pcie_acs": {"acs_redirect": {"pci 0000:40:01.1": True}}},
    "legs": [{"leg": "default", "state": "hang"}, {"leg": "p2p_off", "gbps": 14.0}],
}


def test_hosts_with_one_cause_are_folded() -> None:
    hosts = [(f"n{number}", CAPPED) for number in range(1, 4)]
    (cause,) = diagnosed(*hosts, ("n4", {"samples": {}})).diagnoses
    assert cause.hosts == ("n1", "n2", "n3")
    assert cause.observed == ("n[1-3]: power_cap: power_limit_percent 71.4 % (gpu1)",)
    assert (cause.outcome, cause.explains) == ("fail", ("power_cap",))


def test_the_gravest_comes_first() -> None:
    found = diagnosed(
        ("n1", {"samples": {"memlock": {"memlock_unlimited": False}}}), ("n2", CAPPED)
    )
    assert [cause.cause for cause in found.diagnoses] == ["power_limit_lowered", "memlock_limited"]


def test_a_symptom_is_no_cause() -> None:
    found = diagnosed(("n1", ACS))
    assert found.by_host == {"n1": ("acs_redirect",)}
    titles = {finding.metric: title for finding, title in found.explained.items()}
    assert set(titles) == {"acs_redirect", "leg_state"}
    assert set(titles.values()) == {found.diagnoses[0].title}


def test_a_healthy_host_and_one_without_an_answer_have_none() -> None:
    run = run_of(("n1", {"samples": {"memlock": {"memlock_unlimited": True}}}))
    assert diagnose(run, judge(run)).by_host == {}
    lost = factories.run(factories.record("n1", None, reason="no way"))
    assert diagnose(lost, judge(lost)).diagnoses == ()


def finding(metric: str, outcome: str = "fail", subject: str = "node") -> Finding:
    return Finding("n1", "check", outcome, metric, subject)


def case(*findings: Finding) -> Case:
    return Case("n1", HostRecord("n1", "reported"), Known(), findings)


def test_ranks_go_by_confidence_then_outcome_then_what_is_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b, c, d = (finding(name, "warn" if name == "d" else "fail") for name in "abcd")
    signs = {
        "narrow": Sign("certain", (a,)),
        "wide": Sign("certain", (a, b)),
        "mild": Sign("certain", (d,)),
        "vague": Sign("possible", (a, b, c, d)),
        "symptom": Sign("likely", (a, b)),
        "own": Sign("possible", (d,), stands=True),
    }
    rules = {
        name: Rule(name, lambda case, sign=sign: sign, name, "", "", "", "")
        for name, sign in signs.items()
    }
    monkeypatch.setattr("hwcheck.advise.diagnose.load", lambda: rules)
    order = [found.rule.cause for found in causes_of(case(a, b, c, d))]
    assert order == ["wide", "mild", "vague", "own"]


def test_what_was_seen_is_folded_and_harmless() -> None:
    lines = list(
        seen(
            [
                Finding("n", "c", "fail", "m", "gpu0", 3, "C"),
                Finding("n", "c", "fail", "m", "gpu1", 3, "C"),
                Finding("n", "c", "fail", "m\x1b[31m", "leg \x07x", 4),
                Finding("n", "c", "inconclusive", reason="why\nnot"),
                Finding("n", "c", "warn", "m", "node", 5, reason="r" * 999),
            ]
        )
    )
    assert lines[:3] == ["c: m 3 C (gpu[0-1])", "c: m 4 (leg x)", "c: why not"]
    assert lines[3].startswith("c: m 5: rrr")
    assert len(lines[3]) < 200
