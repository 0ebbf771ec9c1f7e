"""Causes and actions go by the codes of reasons: their words are free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from hwcheck.advise.actions import actions
from hwcheck.advise.catalogue import shipped
from hwcheck.advise.causes import diagnose
from hwcheck.advise.remedies import REMEDY_OF
from hwcheck.contract.reasons import CODES, GPU_LOST, NO_PERMISSION, NOT_MEASURED, Reason
from hwcheck.judge.judge import judge
from hwcheck.judge.past import joined
from hwcheck.judge.records import Judgement
from hwcheck.results.run_folder import Run
from tests.advise.nodes import diagnosed, former_runs, run_of
from tests.advise.test_rules import BY_CAUSE

TOO_FEW_RIGHTS = {
    "xid": "the kernel log cannot be read; run as root or as a member of group adm",
    "pcie_acs": "only 64 bytes of the configuration space of 0000:00:01.1 can be read; the rest "
    "needs root",
    "stray_processes": "gpu1: graphics processes: Insufficient Permissions",
    "ecc_errors": "gpu0: ECC errors: Insufficient Permissions",
    "container_files": "Permission denied",
    "nccl_topology_file": "/etc/nccl/topo.xml: Permission denied",
}
LOST = {"gpu_lost": {"gpu_answer": {"gpu3": "GPU is lost"}}}


@pytest.mark.parametrize("check", TOO_FEW_RIGHTS)
@pytest.mark.parametrize("former", [False, True], ids=["code", "words of a former run"])
def test_too_few_rights_are_one_cause_and_no_lost_gpus(check: str, former: bool) -> None:
    text = TOO_FEW_RIGHTS[check]
    unmeasured = {check: text if former else {"code": NO_PERMISSION, "text": text}}
    alone = diagnosed(("n1", {"unmeasured": unmeasured}))
    assert alone.by_host == {"n1": ("login_unprivileged",)}
    beside = diagnosed(("n1", {"unmeasured": unmeasured, "samples": LOST}))
    assert {each.cause for each in beside.diagnoses if check in each.explains} == {
        "login_unprivileged"
    }


def test_what_the_lost_gpu_keeps_back_is_laid_to_it() -> None:
    unmeasured = {"ecc_errors": {"code": GPU_LOST, "text": "Permission denied"}}
    causes = diagnosed(("n1", {"unmeasured": unmeasured, "samples": LOST}))
    (cause,) = causes.diagnoses
    assert (cause.cause, "ecc_errors" in cause.explains) == ("gpu_lost", True), "words decide"


def judged(case: Mapping[str, Any]) -> tuple[Run, Judgement]:
    host = ("n1", case)
    beside = [(f"like{n}", case["beside"]) for n in range(4) if "beside" in case]
    run = run_of(host, *beside)
    return run, judge(run, shipped(), past=joined(former_runs(host)))


def without_words(run: Run, judgement: Judgement) -> tuple[Run, Judgement]:
    """Return both with another text in place of that of each reason, those of NCCL apart."""
    findings = tuple(
        finding._replace(reason=replace(finding.reason, text="x")) for finding in judgement.findings
    )
    records = []
    for record in run.records:
        assert record.report is not None
        results = tuple(
            replace(result, reason=replace(result.reason, text="x"))
            for result in record.report.results
        )
        records.append(replace(record, report=replace(record.report, results=results)))
    return replace(run, records=tuple(records)), replace(judgement, findings=findings)


def told(run: Run, judgement: Judgement) -> tuple[Any, ...]:
    """Return causes with what they explain and how sure they are, and what is to be done."""
    causes = diagnose(run, judgement, shipped().rules)
    explained = {(each.cause, each.confidence, tuple(each.explains)) for each in causes.diagnoses}
    to_do = {
        (action.cause, action.fix, action.role, check)
        for action in actions(run, judgement, shipped().checks, causes.explained)
        for check in action.checks or (action.check,)
    }
    return causes.by_host, explained, to_do


CASES = [
    pytest.param(case, id=f"{cause}: {case['doc']}")
    for cause, cases in sorted(BY_CAUSE.items())
    for case in cases["fires"] + cases["silent"]
]


@pytest.mark.parametrize("case", CASES)
def test_another_text_moves_neither_a_cause_nor_an_action(case: Mapping[str, Any]) -> None:
    made = judged(case)
    assert told(*without_words(*made)) == told(*made)


def test_another_code_moves_both() -> None:
    case = {"unmeasured": {"xid": {"code": NO_PERMISSION, "text": "x"}}}
    other = {"unmeasured": {"xid": {"code": NOT_MEASURED, "text": "x"}}}
    assert told(*judged(case)) != told(*judged(other))


@pytest.mark.parametrize("code", sorted(CODES))
def test_an_action_has_the_remedy_of_its_code(code: str) -> None:
    run, judgement = judged({"unmeasured": {"xid": {"code": code, "text": "why"}}})
    (action,) = [
        each for each in actions(run, judgement, shipped().checks) if each.checks == ("xid",)
    ]
    meant = REMEDY_OF[code]
    assert (action.cause, action.fix, action.role) == (meant.cause, meant.fix, meant.role)
    of_its_check = shipped().checks["xid"].remedy.command if meant.by_text else ""
    assert action.command == (meant.command or of_its_check)
    assert Reason(code, "why").text in action.evidence[0]
