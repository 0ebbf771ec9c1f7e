"""JUnit XML: a test suite for each host, a test case for each check; one of a bad fabric."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from xml.etree import ElementTree as ET

from hwcheck.advise.assessment import Assessment
from hwcheck.report import words
from hwcheck.report.view import WAIVED, CheckView, HostView, host_views, leg_figure
from hwcheck.results.multi_host import FABRIC
from hwcheck.results.run_folder import Run
from hwcheck.text import block, line

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

TAGS = {
    "fail": "failure",
    "inconclusive": "error",
    "not applicable": "skipped",
    "not judged": "skipped",
    "waived": "skipped",
}
"""What could not be measured is an ``error``, so that no CI system counts it as passed. What is
waived is ``skipped``, as pytest has what is expected to fail."""


def junit(assessment: Assessment) -> str:
    """Return the XML document; hosts are in inventory order."""
    judgement, nccl = assessment.judgement, assessment.advice.nccl
    root = ET.Element("testsuites", name="hwcheck", time=_seconds(assessment.run))
    root.append(_properties({"nccl": nccl.summary, "verdict": words.verdict(judgement)}))
    views = {view.name: view for view in host_views(assessment)}
    totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    suites = []
    of_hosts = (_suite(views.pop(host.host)) for host in judgement.hosts)
    of_fabric = [_of_fabric(judgement.fabric)] if judgement.fabric else []
    for suite in chain(of_hosts, of_fabric):
        for name in totals:
            totals[name] += int(suite.get(name, "0"))
        ET.indent(suite, level=1)
        # As text: the elements of a large run would take gigabytes.
        suites.append("  " + ET.tostring(suite, encoding="unicode") + "\n")
    for name, total in totals.items():
        root.set(name, str(total))
    ET.indent(root)
    begin, end, _ = ET.tostring(root, encoding="unicode").rpartition("</testsuites>")
    return "".join(['<?xml version="1.0" encoding="utf-8"?>\n', begin, *suites, end, "\n"])


def _of_fabric(fabric: Sequence[str]) -> ET.Element:
    """Return the suite of what connects the hosts: a case that failed for each line."""
    suite = ET.Element("testsuite", name=FABRIC)
    for text in fabric:
        case = ET.SubElement(suite, "testcase", classname=FABRIC, name=_text(line(text)))
        ET.SubElement(case, "failure", message=_text(line(text)), type="fail")
    amounts = {"tests": len(fabric), "failures": len(fabric), "errors": 0, "skipped": 0}
    for attribute, amount in amounts.items():
        suite.set(attribute, str(amount))
    return suite


def _suite(view: HostView) -> ET.Element:
    cases = [_case(view, check) for check in view.checks]
    tag = TAGS.get(view.verdict.outcome)
    if tag is not None and all(case.find(tag) is None for case in cases):
        # No check says it: the host as a whole could not be judged (nothing applies, cut short).
        reason = line(view.verdict.reason)
        whole = CheckView("host", view.verdict.outcome, reason, reason)
        cases.append(_case(view, whole))
    suite = ET.Element("testsuite", name=_text(view.name))
    suite.set("tests", str(len(cases)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("time", f"{view.record.duration_s:.3f}")
    if view.record.started:
        suite.set("timestamp", _text(view.record.started).rstrip("Z"))
    facts = {"state": view.verdict.state, "gpus": view.gpus, "busbw": view.busbw}
    waived = {"waived": str(view.verdict.waived)} if view.verdict.waived else {}
    suite.append(_properties({"outcome": view.verdict.outcome, **waived, **facts}))
    suite.extend(cases)
    return suite


def _case(view: HostView, check: CheckView) -> ET.Element:
    case = ET.Element("testcase", classname=_text(view.name), name=_text(check.check))
    case.set("time", f"{check.duration_s:.3f}")
    tag = TAGS.get(check.outcome)
    if tag is not None:
        outcome = ET.SubElement(case, tag, message=_text(_message(check)))
        if tag != "skipped":
            outcome.set("type", check.outcome)
            outcome.text = _text(_details(check))
    output = _output(check)
    if output:
        ET.SubElement(case, "system-out").text = _text(output)
    return case


def _message(check: CheckView) -> str:
    if check.why or not check.complaints:
        return check.why or words.OUTCOME_WORDS[check.outcome]
    row = check.complaints[0]
    return f"{row.metric} {row.value} of {row.subjects}; limit: {row.limit}"


def _details(check: CheckView) -> str:
    lines = [f"{row.outcome}: {row.text}" for row in check.complaints if row.outcome != WAIVED]
    lines += [
        f"leg {line(leg.leg)}: {leg_figure(leg)} {line(leg.reason.text)}\n{block(leg.log_tail)}"
        for leg in check.legs
        if leg.state != "done"
    ]
    return "\n".join([*lines, check.reason] if check.reason else lines)


def _output(check: CheckView) -> str:
    lines = [f"leg {line(leg.leg)}: {leg_figure(leg)}" for leg in check.legs]
    if check.exercise:
        lines.insert(0, words.EXERCISE)
    lines += [row.text for row in check.complaints if row.outcome == WAIVED]
    if check.outcome == "warn":
        lines.insert(0, f"warning: {_message(check)}")
    return "\n".join(lines)


def _properties(values: dict[str, str]) -> ET.Element:
    properties = ET.Element("properties")
    for name, value in values.items():
        ET.SubElement(properties, "property", name=name, value=_text(value))
    return properties


def _text(text: str) -> str:
    """Remove what XML 1.0 cannot hold, not even as a character reference."""
    return _ILLEGAL.sub("", text)


def _seconds(run: Run) -> str:
    return f"{max((record.duration_s for record in run.records), default=0.0):.3f}"
