"""The machine-readable summary (``--json``): a plain dict."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from hwcheck.advise.assessment import Assessment
from hwcheck.advise.records import Diagnosis, NcclAdvice
from hwcheck.advise.training_figures import figures_of, sentences
from hwcheck.judge.coverage import gaps, percent_of
from hwcheck.judge.models import Models
from hwcheck.judge.records import OUTCOMES, Finding
from hwcheck.report import words
from hwcheck.report.decision import decide, decision
from hwcheck.report.gates import GateView, gate_views
from hwcheck.results.multi_host import MultiHostRecord
from hwcheck.results.training import TrainingRecord, TrainingRun

FORMAT = 1


def summary(assessment: Assessment) -> dict[str, Any]:
    """Return the summary. Texts that came from a node are as they came: JSON needs no escaping.

    ``group`` is there where something was run over several hosts, ``training`` where something was
    trained.
    """
    run, judgement, advice = assessment.run, assessment.judgement, assessment.advice
    catalogue = assessment.catalogue
    multi_host = assessment.multi_host
    exercised = [record.host for record in run.records if words.has_exercise(record)]
    groups = decide(run, judgement, catalogue.checks)
    by_outcome = {
        name: [host.host for host in judgement.hosts if host.outcome == name] for name in OUTCOMES
    }
    return {
        "format": FORMAT,
        "id": run.meta.id,
        "run": str(run.path),
        "started": run.meta.started,
        "finished": run.meta.finished,
        "interrupted": run.meta.interrupted,
        "outcome": judgement.outcome,
        "exit_code": judgement.exit_code,
        "verdict": words.verdict(judgement),
        "decision": {
            "line": decision(groups, judgement.fabric),
            **{group.kind: list(group.hosts) for group in groups},
        },
        "notes": list(words.notes(run)),
        "coverage": {
            "measured": judgement.measured,
            "asked": judgement.asked,
            "not_applicable": sum(host.not_applicable for host in judgement.hosts),
            "percent": percent_of(judgement.hosts),
            "required_percent": judgement.required_percent,
            "shortfall": judgement.shortfall,
            "gaps": [asdict(gap) for gap in gaps(judgement)],
        },
        "hosts": {"total": len(judgement.hosts), **by_outcome},
        "host_results": [
            {
                "host": host.host,
                "outcome": host.outcome,
                "state": host.state,
                "reason": host.reason,
                "waived": host.waived,
                "measured": host.measured,
                "asked": host.asked,
                "not_applicable": host.not_applicable,
                "percent": percent_of([host]),
            }
            for host in judgement.hosts
        ],
        "findings": [_finding(finding) for finding in judgement.not_passed],
        "waivers": [
            {"state": use.state, "hosts": list(use.hosts), **asdict(use.waiver)}
            for use in judgement.waivers
        ],
        "causes": [_cause(cause) for cause in advice.causes.diagnoses],
        "actions": [asdict(action) for action in advice.actions],
        "nccl": {
            **_nccl(advice.nccl),
            "groups": [
                {
                    "name": group.name,
                    "alike": group.alike,
                    "hosts": list(group.hosts),
                    **_nccl(group.nccl),
                }
                for group in advice.groups
            ],
        },
        "gates": [_gate(gate) for gate in gate_views(run)],
        "exercise": {"hosts": exercised, "meaning": words.EXERCISE if exercised else ""},
        **({"group": _multi_host(multi_host)} if multi_host else {}),
        **(
            {"training": _training(assessment.training, catalogue.models)}
            if assessment.training
            else {}
        ),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    """Return a finding with the text of its reason and the code beside it."""
    reason = {"reason": finding.reason.text, "reason_code": finding.reason.code}
    return {**finding._asdict(), **reason}


def _cause(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a cause with the keys of the first version: ``follows`` is its effect."""
    return {
        "follows" if name == "effect" else name: value for name, value in asdict(diagnosis).items()
    }


def _nccl(advice: NcclAdvice) -> dict[str, Any]:
    return {
        "settings": {setting.name: setting.value for setting in advice.settings},
        "reasons": [asdict(setting) for setting in advice.settings],
        "summary": advice.summary,
        "evidence": list(advice.evidence),
        "unset": list(advice.unset),
    }


def _gate(gate: GateView) -> dict[str, str]:
    return {
        "gate": gate.gate,
        "state": gate.state,
        "hosts": gate.hosts,
        "said": gate.evidence,
    }


def _multi_host(record: MultiHostRecord) -> dict[str, Any]:
    return {
        "scopes": list(record.scopes),
        "hosts": list(record.hosts),
        "backend": record.backend,
        "finished": record.finished,
        "suspects": [asdict(suspect) for suspect in record.suspects],
        "absent": {host: reason.text for host, reason in record.absent.items()},
        "warnings": dict(record.warnings),
        "leg": record.leg,
        "unresolved": [reason.text for reason in record.unresolved],
        "not_compared": dict(record.not_compared),
        "runs": len(record.runs),
    }


def _training(record: TrainingRecord, models: Models) -> dict[str, Any]:
    return {
        "model": asdict(record.model),
        "dtype": record.dtype,
        "finished": record.finished,
        "absent": {host: reason.text for host, reason in record.absent.items()},
        "sentences": list(sentences(record, models)),
        "runs": [_training_run(record, run, models) for run in record.runs],
    }


def _training_run(record: TrainingRecord, run: TrainingRun, models: Models) -> dict[str, Any]:
    figures = figures_of(record, run, models)
    derived = {**asdict(figures), "exposed_s": figures.exposed_s} if figures else {}
    return {
        "hosts": list(run.hosts),
        "strategy": run.strategy,
        "leg": run.leg,
        "ranks": run.ranks,
        "degrees": asdict(run.degrees),
        "state": run.state,
        "reason": run.reason,
        **derived,
    }
