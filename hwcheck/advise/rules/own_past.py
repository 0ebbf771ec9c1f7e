"""What a node's former runs say of it where nothing else does: steps, drifts, flapping."""

from __future__ import annotations

from hwcheck.advise.rule import HostFindings, Sign, rule, sign
from hwcheck.contract.reasons import CHANGED, COMES_AND_GOES, DRIFTS, GREW
from hwcheck.judge.records import OWN_PAST, Finding

SOURCE = (
    "Xiong et al., SuperBench, USENIX ATC 2024: what fails in part, behind spare links and spare "
    "memory, loses performance before it loses a job"
)


def _changed(host: HostFindings) -> tuple[Finding, ...]:
    """Return what is not as in the subject's own past, but for counters: they say what they are."""
    return tuple(
        finding
        for finding in host.findings
        if finding.basis == OWN_PAST
        and finding.outcome in ("warn", "fail")
        and finding.reason.code != GREW
    )


@rule(
    title="A figure that comes and goes: good on some nights and bad on others",
    effect="jobs are slow on some days and nobody finds it when they look",
    fix="look at what differs between its good and its bad runs: neighbors at work, heat, a link "
    "that retrains; reseat or swap the part that the figure is of, and let it run for two weeks "
    "before it is trusted again",
    confirm="sudo dmesg -T | grep -iE 'xid|aer|link'; nvidia-smi -q -d PERFORMANCE",
    source=SOURCE,
)
def comes_and_goes(host: HostFindings) -> Sign | None:
    """Four spells in four weeks are seen, but not why."""
    return sign("likely", (f for f in _changed(host) if f.reason.code == COMES_AND_GOES))


@rule(
    title="A figure gets worse night by night",
    effect="the slowest GPU sets the pace of every job that spans it, a little more each night",
    fix="look for what wears: dust and fans where it is hotter as well, thermal paste, a link with "
    "growing error counts, memory with growing corrections; have it mended before a limit is "
    "reached",
    confirm="nvidia-smi -q -d TEMPERATURE,PERFORMANCE,ECC; nvidia-smi nvlink -e",
    source=SOURCE,
)
def gets_worse(host: HostFindings) -> Sign | None:
    """The slope is measured; what wears is not."""
    return sign("likely", (f for f in _changed(host) if f.reason.code == DRIFTS))


@rule(
    title="A figure became worse from one run to the next and stayed so",
    effect="the slowest GPU sets the pace of every job that spans it",
    fix="compare the run before with the first bad one: settings, firmware and parts that changed "
    "in between; with none, swap board or cable with that of a good node to see what it follows",
    confirm="last -x reboot | head; sudo dmesg -T | grep -iE 'xid|aer|link'; nvidia-smi -q -d "
    "PERFORMANCE,CLOCK,POWER",
    source=SOURCE,
)
def became_worse(host: HostFindings) -> Sign | None:
    """The step is measured; what was done that night is not known here."""
    return sign("possible", (f for f in _changed(host) if f.reason.code == CHANGED))
