"""A run, judged whole."""

from __future__ import annotations

from dataclasses import replace

from hwcheck.advise.assessment import assess
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import VISIT_ENDED, Reason
from hwcheck.results.run_folder import HostRecord
from tests import factories
from tests.factories import gpu_host
from tests.judge.test_multi_host import HEALTHY

RUN = factories.run(gpu_host("a"), gpu_host("b", power_limit_w=(3, 400.0)))


def test_it_has_what_every_renderer_needs() -> None:
    assessment = assess(RUN, shipped(), HEALTHY)
    assert (assessment.run, assessment.multi_host) == (RUN, HEALTHY)
    assert [host.outcome for host in assessment.judgement.hosts] == ["pass", "fail"]
    assert "power_cap" in [action.check for action in assessment.advice.actions]
    assert [cause.hosts for cause in assessment.advice.causes.diagnoses] == [("b",)]


def test_a_required_coverage_that_is_not_reached() -> None:
    away = HostRecord("a", "unreachable", Reason(VISIT_ENDED, "connect: refused"))
    run = replace(RUN, records=(away, RUN.records[1]))
    assert assess(run, shipped(), required_percent=100).judgement.shortfall != ""
    assert assess(RUN, shipped(), required_percent=100).judgement.shortfall == "", "the control"
    assert assess(run, shipped()).judgement.required_percent is None
