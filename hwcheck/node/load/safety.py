"""When a load must end at once: heat, memory errors, GPUs that are gone or say nothing."""

from __future__ import annotations

from typing import Dict, Mapping, Protocol, Sequence

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.reasons import NO_ANSWER, NONE, NOT_MEASURED, Reason
from hwcheck.node.load.sampler import Latest
from hwcheck.node.threads import side_by_side

MARGIN_C = 2.0
SLOWDOWN_C = 88.0
"""For a board that gives no threshold: NVIDIA's boards slow down from 87-92 C on."""
SILENCE_LIMIT_S = 5.0
START_SILENCE_LIMIT_S = 30.0
"""While CUDA starts on all GPUs: the driver may keep those who ask NVML waiting."""


class Limited(Protocol):
    """What is needed of a GPU: ``node.Gpu`` has it."""

    @property
    def subject(self) -> str:
        """``gpu3``."""

    def temperature_slowdown_c(self) -> int:
        """Return the temperature in C from which it slows itself down."""


class Guard:
    """Knows each GPU's threshold, and the error counts from before the load."""

    def __init__(self, gpus: Sequence[Limited]) -> None:
        self._slowdown_c: Dict[str, float] = dict(side_by_side(_threshold, gpus))
        self._errors: Dict[str, float] = {}

    def danger(
        self, latest: Mapping[str, Latest], now_s: float, silence_limit_s: float = SILENCE_LIMIT_S
    ) -> Reason:
        """Return why the load must end, naming GPU and figure; none while it may go on.

        A GPU that tells no temperature is watched by nobody else: silence is a danger too. The
        distance to its threshold that a GPU tells itself comes before the threshold.
        """
        for subject, sample in latest.items():
            why = self._of_one(subject, sample, now_s, silence_limit_s)
            if why:
                return why
        return NONE

    def _of_one(self, subject: str, latest: Latest, now_s: float, silence_limit_s: float) -> Reason:
        if latest.lost:
            return latest.problem
        silent_s = now_s - latest.at_s
        if silent_s > silence_limit_s:
            why = " (%s)" % latest.problem if latest.problem else ""
            words = "%s told NVML nothing for %.0f s%s" % (subject, silent_s, why)
            return Reason(latest.problem.code or NO_ANSWER, words)
        errors = latest.values.get("ecc_uncorrected")
        if errors is not None and errors > self._errors.setdefault(subject, errors):
            words = "%s has uncorrectable memory errors (%d more than before the load)"
            more = errors - self._errors[subject]
            return Reason(NOT_MEASURED, words % (subject, more))
        heat, margin_c = latest.values.get("temperature_c"), latest.values.get("thermal_margin_c")
        if heat is None:
            return NONE
        slowdown_c = self._slowdown_c[subject] if margin_c is None else heat + margin_c
        if heat >= slowdown_c - MARGIN_C:
            words = "%s reached %.0f C, and slows down at %.0f C" % (subject, heat, slowdown_c)
            return Reason(NOT_MEASURED, words)
        return NONE


def _threshold(gpu: Limited) -> "tuple[str, float]":
    try:
        return gpu.subject, float(gpu.temperature_slowdown_c())
    except CouldNotMeasure:
        return gpu.subject, SLOWDOWN_C
