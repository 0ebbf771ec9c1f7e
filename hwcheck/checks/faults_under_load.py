"""The driver reported no fault while this visit loaded the GPUs."""

from __future__ import annotations

from typing import Dict, Iterator, List, Tuple

from hwcheck.checks.shared import xids
from hwcheck.contract.check import CouldNotMeasure, Metric, NotApplicable, Remedy, check, in_words
from hwcheck.contract.limits import AtMost, Equal
from hwcheck.contract.quantities import GpuEvent, Reported
from hwcheck.contract.reasons import together
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import per_gpu
from hwcheck.node.node import Gpu, Node

FAULT, WATCH, APPLICATION, OTHER = (
    *("fault_events", "watch_events"),
    *("application_events", "other_events"),
)
JUDGED = (FAULT, WATCH, APPLICATION)

OF_ACTION = {
    xids.RESTART: FAULT,
    xids.RESET: FAULT,
    xids.FABRIC: FAULT,
    xids.REPAIR: FAULT,
    xids.WATCH: WATCH,
    xids.APPLICATION: APPLICATION,
    xids.NOTHING: OTHER,
}
OF_KIND = {
    "double_bit_ecc": (FAULT, "a memory error that could not be corrected"),
    "dram_retirement_failure": (FAULT, "bad memory that could not be set aside"),
    "fatal_poison": (FAULT, "damaged data that the GPU does not survive"),
    "gpu_unavailable": (FAULT, "the GPU is out of reach"),
    "gpu_recovery_action": (WATCH, "what the GPU wants done has changed; see nvidia-smi -q"),
    "single_bit_ecc_storm": (WATCH, "many corrected memory errors within a short time"),
    "dram_retirement": (WATCH, "bad memory was set aside"),
    "non_fatal_poison": (WATCH, "damaged data that cost the application only"),
    "single_bit_ecc": (OTHER, "a memory error, corrected"),
}
UNKNOWN = (WATCH, "an event that this version does not know")

CATALOG = "NVIDIA, Xid Errors, Xid catalog: resolution bucket "
EVENTS = "NVML API Reference Guide, nvmlEventType: "
LOST = "NVML API Reference Guide, nvmlReturn_t: NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED"


@check(
    metrics=[
        Metric(
            FAULT,
            "events",
            "events that a reset, a restart or hands must repair",
            (
                AtMost(
                    CATALOG
                    + "RESTART_BM, RESTART_VM, RESET_GPU, CHECK_MECHANICALS; fatal SXids; "
                    + EVENTS
                    + "DoubleBitEccError, DramRetirementFailure, FatalPoisonError, "
                    "GpuUnavailableError",
                    fail=0,
                ),
            ),
        ),
        Metric(
            WATCH,
            "events",
            "events to watch, and what this version does not know",
            (
                AtMost(
                    CATALOG
                    + "CONTACT_SUPPORT, UPDATE_SWFW; "
                    + EVENTS
                    + "SingleBitEccErrorStorm, DramRetirementEvent, NonFatalPoisonError, "
                    "GpuRecoveryAction",
                    warn=0,
                    confidence="derived",
                ),
            ),
        ),
        Metric(
            APPLICATION,
            "events",
            "events that an application causes, and the application was the load of this visit",
            (
                AtMost(
                    CATALOG + "RESTART_APP: the application is to be examined first; derived: the "
                    "load is the same on every node, so what it meets on one is of that node",
                    warn=0,
                    confidence="derived",
                ),
            ),
        ),
        Metric(OTHER, "events", "events that ask for nothing, or follow another"),
        in_words("what the event means and asks for"),
        Metric("heard_from", "", "who could be listened to: the kernel log, NVML's events"),
        Metric(
            "gpu_answer_after_load",
            "",
            "ok, or NVML's words for a GPU that nothing can be asked of since",
            (Equal("ok", source=LOST),),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="a fault that only heat, power and traffic bring out: memory, power supply, cooling, "
        "a link or a seat; with --force also what other jobs on the node did",
        fix="drain the node and do what the meaning says; load it again, and when the same comes "
        "back have the board examined",
        command="sudo dmesg --ctime | grep -E 'NVRM: Xid|SXid'; nvidia-smi -q -d ECC,ROW_REMAPPER",
    ),
    after_load=True,
    per_gpu=True,
    optional="a load of the GPUs in this visit",
    group="GPUs",
)
def faults_under_load(node: Node) -> Iterator[Sample]:
    """Read what the driver reported since this visit began to load the GPUs.

    A marginal GPU, power supply or link passes everything at idle and fails at work, and the
    collective that met it may still end with the right sum. The kernel log is compared with what
    it held before the load, and NVML is asked for the events it kept meanwhile: one of the two is
    enough, so a user who may not read the log hears of Xids too. Then each GPU must still answer.
    Where nothing loaded the GPUs there is nothing to look back on.
    """
    reported = node.reported_under_load()
    if reported is None:
        raise NotApplicable("nothing loaded the GPUs in this visit")
    listened_to = []
    if not reported.log_problem:
        listened_to.append("kernel log")
    if not reported.events_problem:
        listened_to.append("NVML events")
    counts, meanings = _faults(reported)
    for (metric, subject), count in counts.items():
        yield Sample(metric, count, "events", subject)
        if subject in meanings:
            yield Sample("meaning", "; ".join(meanings.pop(subject)), "", subject)
    if listened_to:
        counted = {metric for metric, _ in counts}
        for metric in JUDGED:
            if metric not in counted:
                yield Sample(metric, 0, "events")
        yield Sample("heard_from", ", ".join(listened_to))
    yield from per_gpu(node, _answer)
    if not listened_to:
        raise CouldNotMeasure.of(together((reported.log_problem, reported.events_problem)))


def _answer(gpu: Gpu) -> Iterator[Sample]:
    yield Sample("gpu_answer_after_load", gpu.loss() or "ok", "", gpu.subject)


def _faults(reported: Reported) -> Tuple[Dict[Tuple[str, str], int], Dict[str, List[str]]]:
    """Return how often each metric counts for each subject, and what each subject means.

    NVML and the kernel log tell of the same Xids: those of the log count, and of NVML's those
    that are more.
    """
    counts: Dict[Tuple[str, str], int] = {}
    meanings: Dict[str, List[str]] = {}

    def count(metric: str, subject: str, meaning: str) -> None:
        counts[metric, subject] = counts.get((metric, subject), 0) + 1
        if meaning not in meanings.setdefault(subject, []):
            meanings[subject].append(meaning)

    logged: Dict[str, int] = {}
    for event in filter(None, (xids.parse(message.text) for message in reported.messages)):
        logged[event.subject] = logged.get(event.subject, 0) + 1
        count(OF_ACTION[event.action], event.subject, "%s: %s" % (event.meaning, event.action))
    for by_nvml in reported.events:
        if by_nvml.kind == "xid":
            xid = xids.by_code(by_nvml.code, by_nvml.pci_address)
            if logged.get(xid.subject, 0):
                logged[xid.subject] -= 1
            else:
                count(OF_ACTION[xid.action], xid.subject, "%s: %s" % (xid.meaning, xid.action))
        else:
            metric, meaning = OF_KIND.get(by_nvml.kind, UNKNOWN)
            count(metric, _subject(by_nvml), meaning)
    return counts, meanings


def _subject(event: GpuEvent) -> str:
    return "pci %s %s" % (event.pci_address, event.kind)
