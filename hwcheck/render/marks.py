"""What went wrong at work, by host and GPU, and whose work is worth a picture."""

from __future__ import annotations

from collections.abc import Mapping

from hwcheck.judge.records import Judgement, worst
from hwcheck.node import checks
from hwcheck.results.run_folder import Run

FEW_HOSTS = 2
"""In so small a run the work of every host is drawn; in a larger one what shows something."""
MOST_HOSTS = 20
SIGNS = {"warn": "!", "fail": "\u2715"}

Marks = Mapping[str, Mapping[str, str]]
"""The worst outcome of each check that loads the node by the subject that it is about."""


def drawn_hosts(run: Run, judgement: Judgement) -> tuple[str, ...]:
    """Return the hosts whose load is worth a picture; whether they had one is not known here.

    In a larger run those that failed or warned at work, failures first, 20 at most.
    """
    if len(run.records) <= FEW_HOSTS:
        return tuple(record.host for record in run.records)
    outcomes = {host: worst(of_gpus(own).values()) for host, own in marks_of(judgement).items()}
    bad = [record.host for record in run.records if outcomes.get(record.host) in SIGNS]
    return tuple(sorted(bad, key=lambda host: outcomes[host] != "fail")[:MOST_HOSTS])


def marks_of(judgement: Judgement) -> dict[str, dict[str, dict[str, str]]]:
    """Return the marks of each host that has any but passes."""
    registry = checks.load()
    of_load = {name for name, check in registry.items() if check.load}
    found: dict[str, dict[str, dict[str, str]]] = {}
    for each in judgement.findings:
        if each.outcome != "pass" and each.check in of_load:
            own = found.setdefault(each.host, {}).setdefault(each.subject, {})
            own[each.check] = worst((each.outcome, own.get(each.check, "pass")))
    return found


def of_gpus(marks: Marks) -> dict[str, str]:
    """Return the worst outcome of each GPU."""
    return {subject: worst(own.values()) for subject, own in marks.items()}
