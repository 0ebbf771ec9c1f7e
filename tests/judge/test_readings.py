"""Samples as readings of a check's metrics."""

from __future__ import annotations

from dataclasses import replace

from hwcheck.advise.catalogue import shipped
from hwcheck.contract.check import Check, Metric, Remedy
from hwcheck.contract.limits import AtLeast, Equal, FromInventory, FromSample
from hwcheck.contract.reasons import UNKNOWN_METRIC, Reason
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.judge.fleet import Fleet
from hwcheck.judge.host_case import NodeFacts
from hwcheck.judge.limits import hold, references
from hwcheck.judge.readings import Readings

SHARE = AtLeast("s", fail=0.8, of=FromSample("watts_max"))
METRICS = (
    Metric("watts", "W", "", (SHARE,)),
    Metric("watts_max", "W", ""),
    Metric("gpus", "GPUs", "", (Equal(FromInventory("gpus"), "s"), Equal(8, "s"))),
)
CHECK = Check("demo", lambda node: iter(()), METRICS, Remedy("c", "f"), True, False, "doc")


def readings(*samples: Sample) -> Readings:
    return Readings(CHECK, CheckResult("demo", "done", samples=samples))


def test_what_is_no_reading_is_a_doubt_about_its_subject() -> None:
    found = readings(
        Sample("watts", -5, "W", "gpu0"), Sample("volts", 3, "V", "gpu1"), Sample("watts", 5, "W")
    )
    assert [subject for subject, _ in found.doubts] == ["gpu0", "gpu1"]
    assert found.doubts[1][1] == Reason(UNKNOWN_METRIC, "volts is not a metric of this check")
    assert [sample.subject for sample in found.samples] == ["node"]


def test_only_what_has_a_limit_is_held() -> None:
    found = readings(Sample("watts", 5, "W", "gpu0"), Sample("watts_max", 7, "W", "gpu0"))
    assert [metric.name for metric, _ in found.held] == ["watts"]
    assert found.by_subject("watts_max") == {"gpu0": 7}
    assert found.by_subject("volts") == {}


def test_a_reference_is_of_the_subject_or_of_the_node() -> None:
    for subject, reference in (("gpu0", 7), ("node", 7), ("gpu1", None)):
        found = readings(Sample("watts", 5, "W", "gpu0"), Sample("watts_max", 7, "W", subject))
        ((metric, sample),) = found.held
        assert list(references(found, metric, sample, NodeFacts(), shipped().models, Fleet())) == [
            (SHARE, reference)
        ]


def test_what_nobody_declared_is_no_limit() -> None:
    found = readings(Sample("gpus", 8, "GPUs"))
    ((metric, sample),) = found.held
    for expect, wanted in (({}, [None]), ({"gpus": 4}, [4, None])):
        given = references(found, metric, sample, NodeFacts(expect), shipped().models, Fleet())
        assert [reference for _, reference in given] == wanted


def test_the_words_of_a_limit_tell_yes_from_one() -> None:
    yes = Metric("up", "", "", (Equal(FromSample("wanted"), "s"),))
    sample = Sample("up", True)
    texts = [hold("n", "demo", yes, sample, yes.limits[0], value).limit for value in (True, 1)]
    assert texts == ["= wanted (yes)", "= wanted (1)"]


def test_text_against_a_border_is_inconclusive() -> None:
    finding = hold("n", "demo", METRICS[0], replace(Sample("watts", 1, "W"), value="x"), SHARE, 7)
    assert finding.outcome == "inconclusive"
    assert "a limit on a number" in finding.reason.text
