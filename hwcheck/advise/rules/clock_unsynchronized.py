"""The clock is not held to a time server."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="The clock runs free",
    follows="logs of nodes cannot be put in order, and certificates, tokens and Kerberos "
    "fail once it is minutes off",
    fix="run chrony or systemd-timesyncd with servers that the node reaches; put rtcsync "
    "into chrony.conf",
    confirm="timedatectl; chronyc tracking",
    source="adjtimex(2), STA_UNSYNC; chrony.conf(5), rtcsync",
)
def clock_unsynchronized(case: Case) -> Sign | None:
    """Look for it. The reading says it itself."""
    return sign("certain", case.bad("time_sync", "clock_synchronized"))
