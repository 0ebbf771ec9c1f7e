"""The words of a verdict and of its causes, the same in every output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwcheck.fold import fold
from hwcheck.judge.coverage import Gap, percent_of
from hwcheck.judge.legs import legs_of
from hwcheck.judge.records import OUTCOMES, HostVerdict, Judgement
from hwcheck.results.run_folder import HostRecord, Run
from hwcheck.text import count, line

if TYPE_CHECKING:
    from hwcheck.advise.records import Advice, Diagnosis

OUTCOME_WORDS = {
    "fail": "failed",
    "inconclusive": "inconclusive",
    "warn": "warning",
    "pass": "passed",
    "not applicable": "not applicable",
    "recorded": "recorded, no limit",
    "not judged": "not judged",
    "waived": "waived",
}
STYLES = {
    "fail": "bold red",
    "inconclusive": "bold magenta",
    "warn": "bold yellow",
    "pass": "green",
}
"""How Rich prints an outcome."""
EXERCISE = "exercise: gloo on the CPU; shows that the path works and says nothing about GPUs"

CONFIDENCE_WORDS = {
    "certain": "certain",
    "likely": "likely",
    "possible": "possible: rule it out first",
}
MOST_CHECKS = 6

NCCL_GROUPS = (
    "Hosts that are alike have settings of their own, in nccl/GROUP/ of the run folder: "
    "nccl.conf, nccl.env, slurm.sh, kubernetes.yaml and torchrun.sh."
)


def verdict(judgement: Judgement) -> str:
    """Say in one sentence what came out."""
    total = len(judgement.hosts)
    amounts = {name: sum(h.outcome == name for h in judgement.hosts) for name in OUTCOMES}
    of_hosts = f"of {count(total, 'host')}"
    unproven = _unproven(judgement)
    if judgement.outcome == "fail":
        failed = f"{amounts['fail'] or 'None'} {of_hosts} failed"
        if judgement.fabric:
            failed += f"{', and' if amounts['fail'] else '; but'} what connects groups of them did"
        return f"{'; '.join((failed, *unproven))}{_waived(judgement)}."
    if judgement.outcome == "inconclusive":
        what = (
            f"{of_hosts} {', '.join(unproven)}" if unproven else "less was measured than required"
        )
        return f"Neither passed nor failed: nothing failed, but {what}{_waived(judgement)}."
    if judgement.outcome == "warn":
        return f"No check failed; {amounts['warn']} {of_hosts} gave warnings{_waived(judgement)}."
    where = "on this host" if total == 1 else f"on all {total} hosts"
    if any(host.not_judged for host in judgement.hosts):
        text = f"Everything that is judged passed {where}; hwcheck_limits leaves something out"
    elif any(host.waived for host in judgement.hosts):
        text = f"Everything that is not waived passed {where}"
    else:
        text = f"Every check that applies passed {where}"
    return f"{text}{_waived(judgement)}."


def _unproven(judgement: Judgement) -> list[str]:
    """Say of how many hosts nothing, or not all, is known."""
    unproven = [host.state for host in judgement.hosts if host.outcome == "inconclusive"]
    away = unproven.count("unreachable")
    amounts = (
        (away, "could not be reached"),
        (len(unproven) - away, "could not be judged in full"),
    )
    return [f"{amount} {words}" for amount, words in amounts if amount]


def _waived(judgement: Judgement) -> str:
    """Say how much is waived, for the end of a sentence."""
    hosts = [host for host in judgement.hosts if host.waived]
    if not hosts:
        return ""
    return f"; {sum(host.waived for host in hosts)} waived on {count(len(hosts), 'host')}"


def with_waived(outcome: str, host: HostVerdict) -> str:
    """Return the word of a host's outcome with what is waived there: ``passed, 1 waived``."""
    return f"{outcome}, {host.waived} waived" if host.waived else outcome


def coverage(judgement: Judgement) -> str:
    """Say how much of what applies was measured."""
    text = f"measured {judgement.measured} of {count(judgement.asked, 'applicable check')}"
    share = percent_of(judgement.hosts)
    text += f" ({share:g} %)" if share is not None else ""
    absent = sum(host.not_applicable for host in judgement.hosts)
    text += f"; {absent} not applicable" if absent else ""
    left_out = sum(len(host.not_judged) for host in judgement.hosts)
    text += f"; {count(left_out, 'metric')} not judged" if left_out else ""
    return f"{text}; {judgement.shortfall}" if judgement.shortfall else text


def why_not(gap: Gap) -> str:
    """Say why something was not measured, or not judged."""
    if not gap.judged:
        return f"not judged: {gap.reason}"
    return gap.reason if gap.applies else f"not applicable: {gap.reason}"


def notes(run: Run) -> tuple[str, ...]:
    """Return what a reader must know before trusting the verdict."""
    texts = []
    whole = [record for record in run.records if record.state == "reported"]
    answers = (
        f"{len(whole)} of {count(len(run.records), 'host')} had given a whole answer"
        + (f", {amount} a part of one" if (amount := _in_part(run)) else "")
        + "; what follows is that, and of the others nothing is known"
    )
    if not run.meta.finished:
        texts.append(
            "The run has no end: it was killed, its machine went down, or it still goes on. "
            f"{answers[:1].upper()}{answers[1:]}."
        )
    elif run.meta.interrupted:
        texts.append(f"The run was stopped before its end: {answers}.")
    if whole and not any(gpu_names(record) for record in run.records):
        texts.append("No GPU was measured in this run.")
    exercised = [record.host for record in run.records if has_exercise(record)]
    if exercised:
        texts.append(f"Collectives on {fold(exercised)} are an {EXERCISE}.")
    return tuple(texts)


def _in_part(run: Run) -> int:
    return sum(record.state == "partial" and record.report is not None for record in run.records)


def has_exercise(record: HostRecord) -> bool:
    """Whether the host ran a collective on the CPU only."""
    return any(leg.exercise for leg in legs_of(record))


def gpu_names(record: HostRecord) -> list[str]:
    """Return the name of each GPU that NVML saw on a host."""
    gpus = record.report.gpus if record.report else ()
    return [gpu.name or "GPU without a name" for gpu in gpus]


def explains(diagnosis: Diagnosis) -> str:
    """Return the checks whose findings a cause explains; a host as a whole has no check."""
    names = [line(name, 60) or "the host as a whole" for name in diagnosis.explains]
    more = f" and {len(names) - MOST_CHECKS} more" if len(names) > MOST_CHECKS else ""
    return ", ".join(names[:MOST_CHECKS]) + more


def explained_actions(advice: Advice) -> str:
    """Return the titles of the actions that the causes account for; empty where none.

    Of several checks in one action the title names some: here their number is enough.
    """
    accounted_for = (action for action in advice.actions if action.explained_by)
    names = dict.fromkeys(
        action.title.partition(":")[0] if len(action.checks) > 1 else line(action.title, 60)
        for action in accounted_for
    )
    return ", ".join(names)
