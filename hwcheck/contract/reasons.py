"""Why something was not measured, or what a finding means: a code that decides, and free words.

Standard library only, Python 3.8: this module travels in the payload. Rules, remedies and folding
ask the code; the text is for people, and no decision hangs on its words.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Any, Iterable, Tuple

# Of a check that could not measure.
NO_PERMISSION = "no_permission"
AT_WORK = "at_work"
NOT_IDLE = "not_idle"
NO_TORCH = "no_torch"
LOG_LOST = "log_lost"
MIG = "mig"
OUT_OF_BUDGET = "out_of_budget"
COUNT_IN_DOUBT = "count_in_doubt"
NO_IDENTIFIER = "no_identifier"
SAME_IDENTIFIER = "same_identifier"
CRASHED = "crashed"
NOT_MEASURED = "not_measured"
DRIVER_BROKEN = "driver_broken"
GPU_LOST = "gpu_lost"
NO_ANSWER = "no_answer"

# Of an answer that the controller does not have or does not take.
UNKNOWN_METRIC = "unknown_metric"
UNKNOWN_CHECK = "unknown_check"
NOTHING_APPLIES = "nothing_applies"
NOT_REACHED = "not_reached"
NOT_ANSWERED = "not_answered"
IMPLAUSIBLE = "implausible"
NO_REFERENCE = "no_reference"
ON_A_BORDER = "on_a_border"
SAME_MACHINE = "same_machine"

# Of a visit.
UNDER_WAY = "under_way"
CUT_OFF = "cut_off"
INTERRUPTED = "interrupted"
GIVEN_UP = "given_up"
OUT_OF_TIME = "out_of_time"
VISIT_ENDED = "visit_ended"

# Of a check that does not apply.
NOT_APPLICABLE = "not_applicable"
IDLE_CARDS = "idle_cards"

# Of a leg.
OTHER_WAY = "other_way"
UNPROVEN = "unproven"
GPU_EXCLUSIVE = "gpu_exclusive"
NOT_OFFERED = "not_offered"

# Of runs over several hosts and of training.
NO_PART = "no_part"
SILENT = "silent"
STUCK = "stuck"
FABRIC_BETWEEN = "fabric_between"
NOT_PINNED = "not_pinned"
RUNS_CUT_SHORT = "runs_cut_short"
TOO_FEW_HOSTS = "too_few_hosts"
SUSPECT = "suspect"
WRONG_LOSS = "wrong_loss"
HANG = "hang"
RANK_FAILED = "rank_failed"
OUT_OF_MEMORY = "out_of_memory"

# Of a figure that is not what it was.
GREW = "grew"
COMES_AND_GOES = "comes_and_goes"
DRIFTS = "drifts"
CHANGED = "changed"

CODES: Tuple[str, ...] = (
    NO_PERMISSION,
    LOG_LOST,
    AT_WORK,
    NOT_IDLE,
    NO_TORCH,
    MIG,
    OUT_OF_BUDGET,
    CRASHED,
    UNKNOWN_METRIC,
    UNKNOWN_CHECK,
    NOTHING_APPLIES,
    NOT_REACHED,
    NOT_ANSWERED,
    UNDER_WAY,
    CUT_OFF,
    INTERRUPTED,
    GIVEN_UP,
    OUT_OF_TIME,
    NO_PART,
    SILENT,
    STUCK,
    FABRIC_BETWEEN,
    NOT_PINNED,
    RUNS_CUT_SHORT,
    TOO_FEW_HOSTS,
    OUT_OF_MEMORY,
    WRONG_LOSS,
    RANK_FAILED,
    SUSPECT,
    ON_A_BORDER,
    IMPLAUSIBLE,
    NO_REFERENCE,
    SAME_MACHINE,
    VISIT_ENDED,
    NOT_MEASURED,
    NOT_APPLICABLE,
    IDLE_CARDS,
    OTHER_WAY,
    UNPROVEN,
    NOT_OFFERED,
    GPU_EXCLUSIVE,
    GREW,
    COMES_AND_GOES,
    DRIFTS,
    CHANGED,
    HANG,
    COUNT_IN_DOUBT,
    SAME_IDENTIFIER,
    NO_IDENTIFIER,
    DRIVER_BROKEN,
    GPU_LOST,
    NO_ANSWER,
)
"""Every code. Of several reasons the first here stands for all (``together``): what a lost GPU or a
driver that hangs does not account for comes before what it does. ``advise.remedies`` says what each
means and what to do."""

_PLACES = {code: place for place, code in enumerate(CODES)}

# What a GPU or a driver that does not answer has no part in, whatever else it keeps back.
OF_THE_LOGIN = (NO_PERMISSION, LOG_LOST)


@dataclass(frozen=True)
class Reason:
    """Why: ``code`` is one of ``CODES``, or empty of words on which nothing hangs; free ``text``.

    As a text it is its text; without either it is false.
    """

    code: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.text or self.code)

    def __str__(self) -> str:
        return self.text

    def about(self, subject: object) -> Reason:
        """Return it as said of something: ``gpu3: GPU is lost``."""
        return Reason(self.code, "%s: %s" % (subject, self.text))

    def cut(self, characters: int) -> Reason:
        """Return it with no more than so many characters."""
        return self if len(self.text) <= characters else Reason(self.code, self.text[:characters])

    @classmethod
    def from_json(cls, data: Any) -> Reason:
        """Rebuild from JSON; a text is of a run of former versions. Raises TypeError otherwise."""
        if isinstance(data, str):
            return of_former_run(data) if data else NONE
        return cls(data["code"], data["text"])


NONE = Reason()
"""No reason: one object, for a large run has a million findings without any."""


def remark(text: str) -> Reason:
    """Return words beside a figure, on which nothing hangs."""
    return Reason("", text) if text else NONE


def together(several: Iterable[Reason], separator: str = "; ") -> Reason:
    """Return several reasons as one: each text once, and the code that comes first in ``CODES``."""
    distinct = tuple(dict.fromkeys(several))
    codes = {reason.code for reason in distinct if reason.code}
    code = min(codes, key=lambda name: _PLACES.get(name, len(_PLACES)), default="")
    return Reason(code, separator.join(dict.fromkeys(reason.text for reason in distinct)))


def of_errno(number: Any) -> str:
    """Return the code of what the system refused with this error number."""
    return NO_PERMISSION if number in (errno.EACCES, errno.EPERM) else NOT_MEASURED


FORMER_WORDS: Tuple[Tuple[str, str], ...] = (
    ("the fabric between", FABRIC_BETWEEN),
    ("does not die", STUCK),
    ("no sign of life", SILENT),
    ("given up, for the scheduler wants the node", GIVEN_UP),
    ("given up, for the time of the sweep is over", OUT_OF_TIME),
    ("under way when the run itself ended", CUT_OFF),
    ("the visit is under way", UNDER_WAY),
    ("while mig is on", MIG),
    ("mig is on: an instance", MIG),
    ("needs root", NO_PERMISSION),
    ("run as root", NO_PERMISSION),
    ("by root only", NO_PERMISSION),
    ("insufficient permissions", NO_PERMISSION),
    ("permission denied", NO_PERMISSION),
    ("operation not permitted", NO_PERMISSION),
    ("has lost what came before", LOG_LOST),
    ("killed after", HANG),
    ("the check crashed", CRASHED),
    ("nvml did not answer within", NO_ANSWER),
    ("gpu is lost", GPU_LOST),
    ("requires restart", GPU_LOST),
    ("reset required", GPU_LOST),
    ("not loaded", DRIVER_BROKEN),
    ("lib rm version mismatch", DRIVER_BROKEN),
    ("nvml/rm version mismatch", DRIVER_BROKEN),
    ("driver/library version mismatch", DRIVER_BROKEN),
    ("library not found", DRIVER_BROKEN),
    ("is not idle", NOT_IDLE),
    ("in use by", AT_WORK),
    ("% in use", AT_WORK),
    ("job is running", AT_WORK),
    ("another hwcheck is loading", AT_WORK),
    ("torch", NO_TORCH),
    ("time budget", OUT_OF_BUDGET),
    ("but the bus has", IDLE_CARDS),
)
"""Words of the reasons that former versions wrote, and their codes; the first that is in a reason
counts. No other place looks at the words of a reason."""


def of_former_run(text: str) -> Reason:
    """Return a reason of a run of former versions, which had words alone."""
    plain = text.lower().replace("_", " ")
    whole = {"interrupted": INTERRUPTED, "timeout": NO_ANSWER}.get(plain)
    parts = (code for words, code in FORMER_WORDS if words in plain)
    return Reason(whole or next(parts, NOT_MEASURED), text)
