"""NVIDIA's DCGM says of each GPU what hwcheck says: a second opinion."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, Tuple

from hwcheck.contract.check import CouldNotMeasure, Grounds, Metric, Remedy, check, in_words
from hwcheck.contract.limits import AtMost
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

SOURCE = (
    "NVIDIA DCGM User Guide, DCGM Diagnostics, Automating Responses to DCGM Diagnostic Failures: "
    "by the severity of its errors a GPU is isolated, reset or triaged"
)
SETTINGS = (
    "the same; severity 5 (DCGM_ERROR_CONFIG) is a setting of the node, 1 (DCGM_ERROR_MONITOR) "
    "leaves a GPU that can work"
)
MILD = (1, 5)
ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
"""Of DCGM 4, and of DCGM 3."""
MOST_TESTS = 10_000
TEXT = 160


@check(
    metrics=[
        Metric(
            "failed_tests",
            "tests",
            "tests of DCGM that a GPU, or the node, failed",
            (AtMost(SOURCE, fail=0),),
            required=True,
            proof=Grounds(
                "a test of NVIDIA's diagnostic (dcgmi diag) fails",
                "NVIDIA DCGM, Diagnostic Errors: severities isolate, triage and reset; NVIDIA RMA "
                "Process; NVIDIA GPU Debug Guidelines",
            ),
        ),
        Metric(
            "warned_tests",
            "tests",
            "tests that failed by a setting, or that leave a GPU to be watched",
            (AtMost(SETTINGS, warn=0),),
        ),
        Metric("passed_tests", "tests", "tests that were passed", required=True),
        Metric("skipped_tests", "tests", "tests that DCGM has no figures for on this board"),
        in_words("what DCGM says of what it did not pass"),
        Metric("dcgm_version", "", "the version that says so"),
    ],
    remedy=Remedy(
        cause="what the test names; where hwcheck passed the same GPU the two contradict each "
        "other, and a limit of DCGM for another board, or one that was changed on this host in "
        "error_thresholds.yaml (DCGM Reference, Error Threshold File), is as likely as a fault "
        "that only it looks for",
        fix="read the warning of the test, and hold a limit that it names against the file as DCGM "
        "installs it; repeat that test alone, and when it fails again return "
        "the board with its output",
        command="dcgmi diag -r 4 -j; dcgmi diag -r memtest -i 0; journalctl -u nvidia-dcgm",
    ),
    load=True,
    per_gpu=True,
    optional="DCGM",
    group="GPUs",
    stage="dcgm",
)
def dcgm_diag(node: Node) -> Iterator[Sample]:
    """Run ``dcgmi diag -r 4`` where DCGM is installed, and read what it says of each GPU.

    It takes an hour or two, so it is run only where it is asked for: with ``--only dcgm_diag``,
    and by ``hwcheck accept`` on hosts that passed the load of hwcheck. A GPU that it has no
    figures for, and so skips every test of, was not measured.
    """
    opinion = _read(node.dcgm_diag())
    gpus = {gpu.subject for gpu in node.gpus()}
    without = []
    for subject in sorted(gpus | set(opinion.passed) | set(opinion.failed) | set(opinion.warned)):
        passed, failed = opinion.passed.get(subject, 0), opinion.failed.get(subject, [])
        warned, skipped = opinion.warned.get(subject, []), opinion.skipped.get(subject, 0)
        if not passed and not failed and not warned:
            without.append(subject)
            continue
        yield Sample("failed_tests", len(failed), "tests", subject)
        yield Sample("passed_tests", passed, "tests", subject)
        if warned:
            yield Sample("warned_tests", len(warned), "tests", subject)
        if skipped:
            yield Sample("skipped_tests", skipped, "tests", subject)
        if failed or warned:
            yield Sample("meaning", "; ".join([*failed, *warned])[:1000], "", subject)
    if opinion.version:
        yield Sample("dcgm_version", opinion.version)
    if without:
        raise CouldNotMeasure("DCGM ran no test on %s" % ", ".join(without))


class _Opinion:
    """DCGM's opinion, by subject; ``version`` is empty where it does not tell."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.passed: Dict[str, int] = {}
        self.skipped: Dict[str, int] = {}
        self.failed: Dict[str, List[str]] = {}
        self.warned: Dict[str, List[str]] = {}

    def take(self, test: str, status: str, subject: str, warnings: Any) -> None:
        if status == "pass":
            self.passed[subject] = self.passed.get(subject, 0) + 1
        elif status in ("skip", "not run"):
            self.skipped[subject] = self.skipped.get(subject, 0) + 1
        elif status in ("fail", "warn"):
            words, severities = _warnings(warnings)
            text = "%s: %s" % (test, words or status)
            mild = status == "warn" or (severities and set(severities) <= set(MILD))
            (self.warned if mild else self.failed).setdefault(subject, []).append(text)
        else:
            raise CouldNotMeasure("%s has a status that DCGM does not have: %s" % (test, status))


def _read(text: str) -> _Opinion:
    """Read the JSON of DCGM 3 or 4. Raises CouldNotMeasure."""
    start, end = text.find("{"), text.rfind("}")
    try:
        document = json.loads(text[start : end + 1])
        root = next(document[name] for name in ROOTS if name in document)
    except (ValueError, StopIteration, TypeError, RecursionError):
        last = text.strip().rpartition("\n")[2][:TEXT] or "nothing"
        raise CouldNotMeasure("dcgmi diag wrote no result: %s" % last) from None
    try:
        if root.get("runtime_error"):
            raise CouldNotMeasure("dcgmi diag: %s" % str(root["runtime_error"])[:TEXT])
        metadata = document.get("metadata") or root
        opinion = _Opinion(str(metadata.get("version", ""))[:40])
        tests = [test for each in root["test_categories"] for test in each["tests"]]
        for test in tests[:MOST_TESTS]:
            for result in test["results"]:
                status = str(result["status"]).lower()
                for subject in _subjects(result):
                    opinion.take(str(test["name"])[:60], status, subject, result.get("warnings"))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        words = "%s: %s" % (type(error).__name__, error)
        raise CouldNotMeasure("dcgmi diag wrote what hwcheck does not read: %s" % words) from None
    return opinion


def _subjects(result: Dict[str, Any]) -> List[str]:
    """Return whom a result is about: GPUs by their index, or the node (an empty text)."""
    if "entity_group" in result:
        is_gpu = result["entity_group"] == "GPU"
        return ["gpu%d" % int(result["entity_id"]) if is_gpu else ""]
    ids = str(result.get("gpu_ids", result.get("gpu_id", ""))).replace(" ", "")
    return ["gpu%d" % int(each) for each in ids.split(",")[:64]] if ids else [""]


def _warnings(listed: Any) -> Tuple[str, List[int]]:
    """Return what DCGM warns of, with the severities it gives; DCGM 3 may write plain text."""
    if isinstance(listed, str):
        return listed[:TEXT], []
    words, severities = [], []
    for each in list(listed or ())[:8]:
        words.append(str(each.get("warning", "") if isinstance(each, dict) else each)[:TEXT])
        if isinstance(each, dict) and isinstance(each.get("error_severity"), int):
            severities.append(each["error_severity"])
    return ", ".join(words), severities if len(severities) == len(words) else []
