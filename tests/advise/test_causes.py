"""Causes of hosts: ranked, without symptoms, folded over the hosts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hwcheck.advise import rules
from hwcheck.advise.catalogue import shipped
from hwcheck.advise.causes import causes_of, diagnose, in_words, rules_of
from hwcheck.advise.rule import HostFindings, Rule, Sign, rule
from hwcheck.contract.reasons import Reason
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
    assert cause.observed == (
        "n[1-3]: power_cap: power_limit_percent 71.4 %, at least 99 % wanted (gpu1)",
        "n1: gpu1 is at 0000:20:00.0",
        "n2: gpu1 is at 0000:20:00.0",
        "n3: gpu1 is at 0000:20:00.0",
    )
    assert (cause.outcome, cause.explains) == ("fail", ("power_cap",))


def test_the_gravest_comes_first() -> None:
    causes = diagnosed(
        ("n1", {"samples": {"memlock": {"memlock_unlimited": False}}}), ("n2", CAPPED)
    )
    assert [cause.cause for cause in causes.diagnoses] == ["power_limit_lowered", "memlock_limited"]


def test_a_symptom_is_no_cause() -> None:
    causes = diagnosed(("n1", ACS))
    assert causes.by_host == {"n1": ("acs_redirect",)}
    titles = {finding.metric: title for finding, title in causes.explained.items()}
    assert set(titles) == {"acs_redirect", "leg_state"}
    assert set(titles.values()) == {causes.diagnoses[0].title}


def test_a_healthy_host_and_one_without_an_answer_have_none() -> None:
    run = run_of(("n1", {"samples": {"memlock": {"memlock_unlimited": True}}}))
    assert diagnose(run, judge(run, shipped()), shipped().rules).by_host == {}
    lost = factories.run(factories.record("n1", None, reason="no way"))
    assert diagnose(lost, judge(lost, shipped()), shipped().rules).diagnoses == ()


def finding(metric: str, outcome: str = "fail", subject: str = "node") -> Finding:
    return Finding("n1", "check", outcome, metric, subject)


def rule_of(name: str, sign: Sign | None = None) -> Rule:
    return Rule(name, lambda host: sign, name, "", "", "", "")


def test_ranks_go_by_confidence_then_outcome_then_what_is_explained() -> None:
    a, b, c, d = (finding(name, "warn" if name == "d" else "fail") for name in "abcd")
    signs = {
        "narrow": Sign("certain", (a,)),
        "wide": Sign("certain", (a, b)),
        "mild": Sign("certain", (d,)),
        "vague": Sign("possible", (a, b, c, d)),
        "symptom": Sign("likely", (a, b)),
        "independent": Sign("possible", (d,), independent=True),
    }
    rules = {name: rule_of(name, sign) for name, sign in signs.items()}
    host = HostFindings("n1", HostRecord("n1", "reported"), (a, b, c, d))
    order = [cause.rule.cause for cause in causes_of(host, rules)]
    assert order == ["wide", "mild", "vague", "independent"]


def test_rules_that_are_given_take_the_place_of_the_shipped_ones() -> None:
    run = run_of(("n1", CAPPED))
    judgement = judge(run, shipped())
    (capped, *_) = (f for f in judgement.findings if f.outcome == "fail")
    rules = {"of_a_site": rule_of("of_a_site", Sign("certain", (capped,)))}
    assert diagnose(run, judgement, rules).by_host == {"n1": ("of_a_site",)}
    assert diagnose(run, judgement, {}).diagnoses == ()


def module(name: str, **values: object) -> ModuleType:
    """Return a module with these attributes; a rule among them is declared in it."""
    made = ModuleType(name)
    made.__file__ = f"rules/{name}.py"
    for value in values.values():
        if isinstance(value, Rule):
            value.look.__module__ = name
    vars(made).update(values)
    return made


def test_rules_are_collected_from_modules_in_the_order_of_their_names() -> None:
    fans = rule_of("fans_stopped")
    one = module("one", fans_stopped=fans, LIMIT=3)
    two = module("two", dust=rule_of("dust"), rule=rule)
    vars(two)["fans_stopped"] = fans  # imported from the other module, so not a rule of this one
    assert list(rules_of([one, two])) == ["dust", "fans_stopped"]


def test_a_file_without_a_rule_and_a_second_rule_of_one_name_are_refused() -> None:
    with pytest.raises(TypeError, match=r"rules/empty\.py declares no rule"):
        rules_of([module("empty", LIMIT=3)])
    twice = (module(name, dust=rule_of("dust")) for name in ("one", "two"))
    with pytest.raises(TypeError, match=r"rules/two\.py: there is another rule named dust"):
        rules_of(twice)


def test_every_public_function_of_the_shipped_files_is_a_rule() -> None:
    for path in sorted(Path(rules.__path__[0]).glob("*.py")):
        functions = re.findall(r"^def ([a-z]\w*)\(", path.read_text("utf-8"), re.MULTILINE)
        assert set(functions) <= set(shipped().rules), path.name


def test_findings_in_words_are_folded_and_harmless() -> None:
    lines = list(
        in_words(
            [
                Finding("n", "c", "fail", "m", "gpu0", 3, "C"),
                Finding("n", "c", "fail", "m", "gpu1", 3, "C"),
                Finding("n", "c", "fail", "m\x1b[31m", "leg \x07x", 4),
                Finding("n", "c", "inconclusive", reason=Reason("", "why\nnot")),
                Finding("n", "c", "warn", "m", "node", 5, reason=Reason("", "r" * 999)),
                Finding("n", "c", "fail", "v", value="1", wanted="2\x1b"),
                Finding("n", "c", "warn", "v", value="1", limit="like its neighbors"),
                Finding("n", "c", "warn", "w", value=1),
            ]
        )
    )
    assert lines[:2] == ["c: m 3 C (gpu[0-1])", "c: m 4 (leg x)"]
    assert lines[2].startswith("c: m 5: rrr")
    assert len(lines[2]) < 200
    assert lines[3:6] == ["c: v 1, wanted 2", "c: w 1", "c: why not"]


def test_checks_that_could_not_be_measured_for_one_reason_are_one_line() -> None:
    blind = [
        Finding("n", name, "inconclusive", reason=Reason("gpu_lost", "GPU is lost"))
        for name in "abcde"
    ]
    of_host = Finding(
        "n", "", "inconclusive", reason=Reason("", "NVML counts 7 GPUs and the node names 8")
    )
    lines = list(in_words([*blind, of_host]))
    assert lines == ["a, b, c and 2 more: GPU is lost", of_host.reason.text]


def test_many_hosts_stand_beside_what_was_observed_and_not_in_each_line() -> None:
    names = [f"n{place:03}" for place in range(1, 80, 2)]
    run = run_of(*((name, CAPPED) for name in names))
    (cause,) = diagnose(run, judge(run, shipped()), shipped().rules).diagnoses
    assert cause.hosts == tuple(names)
    assert cause.observed[0].startswith("all 40 hosts: power_cap: ")
    run = run_of(*((name, CAPPED) for name in names[:2]))
    (cause,) = diagnose(run, judge(run, shipped()), shipped().rules).diagnoses
    assert cause.observed[0].startswith("n[001,003]: power_cap: ")


def test_a_gpu_is_named_with_its_place_and_serial_unless_all_are() -> None:
    one = diagnosed(("n1", {"samples": {"power_cap": {"power_limit_percent": {"gpu1": 71.4}}}}))
    assert "n1: gpu1 is at 0000:20:00.0" in one.diagnoses[0].observed
    both = {"power_limit_percent": {"gpu0": 71.4, "gpu1": 71.4}}
    (cause,) = diagnosed(("n1", {"samples": {"power_cap": both}})).diagnoses
    assert not [text for text in cause.observed if "is at" in text]
    run = run_of(("n1", CAPPED))
    (record,) = run.records
    assert record.report is not None
    gpus = [
        {**gpu, "serial": f"S{gpu['index']}\x1b", "slot": f"{gpu['index']}-A"}
        for gpu in record.report.facts["gpus"]
    ]
    report = replace(record.report, facts={**record.report.facts, "gpus": gpus})
    run = replace(run, records=(replace(record, report=report),))
    assert (
        "n1: gpu1 is at 0000:20:00.0, slot 1-A, serial S1"
        in diagnose(run, judge(run, shipped()), shipped().rules).diagnoses[0].observed[-1]
    )


def test_of_equally_grave_causes_the_one_that_explains_more_comes_first() -> None:
    lost = {"gpu_lost": {"gpu_answer": {"gpu1": "GPU is lost"}}, "vbios": {}}
    causes = diagnosed(
        (
            "n1",
            {
                "expect": {"driver_version": "570.1"},
                "samples": {"driver": {"driver_version": "550.1"}},
            },
        ),
        ("n2", {"samples": lost}),
    )
    assert [cause.cause for cause in causes.diagnoses] == ["gpu_lost", "driver_differs"]


def test_what_a_cause_brings_comes_after_it_and_is_no_cause_of_its_own() -> None:
    a, b = finding("a"), finding("b")
    rules = {
        "brought": rule_of("brought", Sign("certain", (a,))),
        "bringer": replace(rule_of("bringer", Sign("likely", (a, b))), brings=("brought",)),
    }
    host = HostFindings("n1", HostRecord("n1", "reported"), (a, b))
    assert [cause.rule.cause for cause in causes_of(host, rules)] == ["bringer"]
    rules["bringer"] = replace(rules["bringer"], look=lambda host: Sign("possible", (a, b)))
    assert [cause.rule.cause for cause in causes_of(host, rules)] == ["brought", "bringer"]


@pytest.mark.parametrize(("other", "crosses"), [("2.26.2", True), ("2.22.3", False)])
def test_versions_of_which_none_has_most_hosts_are_held_against_each_other(
    other: str, crosses: bool
) -> None:
    def host(version: str) -> dict[str, Any]:
        return {"path": "NODE", "samples": {"software_versions": {"nccl_version": version}}}

    causes = diagnosed(("n1", host("2.21.5")), ("n2", host(other)))
    assert ("nccl_p2p_default" in causes.by_host["n1"]) is crosses
