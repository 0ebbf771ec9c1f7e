"""The kernel log holds less than a day, and not the boot."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule

WORDS = "has lost what came before"


@rule(
    title="The kernel log has lost its beginning, and with it what the driver reported",
    follows="a fault of a GPU that was logged earlier goes unseen; what floods a log is often a "
    "fault itself, such as a device that reports an error each second",
    fix="find what writes most and stop it; keep the journal on disk (Storage=persistent) and let "
    "the login read it: root, or a member of the group adm",
    confirm="sudo dmesg | cut -d] -f2 | cut -c1-30 | sort | uniq -c | sort -rn | head",
    source="journald.conf(5), Storage=; proc(5) and dmesg(1)",
)
def kernel_log_lost(case: Case) -> Sign | None:
    """Look for it. The reason says it itself."""
    lost = (f for f in case.findings if f.outcome == "inconclusive" and WORDS in f.reason)
    return sign("certain", tuple(lost))
