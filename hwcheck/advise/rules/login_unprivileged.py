"""The login may not read what only root reads."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule

WORDS = ("needs root", "run as root")


@rule(
    title="The login has too few rights to measure everything",
    follows="nothing is wrong that is known: what only root may read was not measured, so "
    "access control on the bus or errors in the kernel log may go unseen",
    fix="set ansible_become for the node, or add the login to the group adm and run as "
    "root what names PCI configuration space",
    confirm="id; sudo -n true",
    source="proc(5) and dmesg(1), kernel.dmesg_restrict; pciutils, lspci(8): the "
    "configuration space beyond 64 bytes is for root",
)
def login_unprivileged(case: Case) -> Sign | None:
    """Look for it. The reasons say it themselves."""
    barred = tuple(
        finding
        for finding in case.findings
        if finding.outcome == "inconclusive" and any(words in finding.reason for words in WORDS)
    )
    return sign("certain", barred)
