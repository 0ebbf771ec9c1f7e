"""NCCL's own diagnostics: what it reports when a communicator is made, from 2.31 on.

NCCL User Guide, Troubleshooting, Diagnostics: ``NCCL_RUN_DIAGNOSTICS=1`` has every pair of GPUs
that NCCL expects to reach each other exchange data, and several hosts measure their network cards;
``NCCL_RUN_RAS_DIAGNOSTICS=1`` compares what the ranks say of themselves. Rank 0 prints lines that
begin with ``NCCL DIAG``. ``[OK]`` is a check without a complaint. ``[INFO]`` is a complaint, or a
check that could not be done: the words tell which.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MOST = 200
CUT = 300

_RESULT = re.compile(r"\bNCCL DIAG \[(OK|INFO)\] +([A-Za-z][\w .-]{0,40}?): ([^\n]{1,2000})")
_VERIFIED = re.compile(r"\(?(\d{1,9}) (?:peer accesses|directed GPU P2P edges)")
_PART = re.compile(r"only (\d{1,9})/(\d{1,9}) GPU-to-GPU peer accesses")
_OUTLIER = re.compile(r"rank (\d{1,7}) \(([\w.-]{1,80})\): ([\d.]{1,12}) Gbit/s, >30% off")
_NOT_DONE = re.compile(
    r"unavailable|incomplete|unable to complete|timed out|could not|setup failed|skip",
    re.IGNORECASE,
)
_ENDED = re.compile(r"\bNCCL DIAG (?:RAS|NCCL) diagnostics completed in [\d.]{1,12} ms")
P2P, NETWORK = "p2p", "net bw"


class DiagResult(NamedTuple):
    """One line: whether it is ``[OK]``, the check, and what it says."""

    ok: bool
    check: str
    text: str

    @property
    def complains(self) -> bool:
        """Whether it is a complaint, and not only a check that could not be done."""
        return not self.ok and not _NOT_DONE.search(self.text)


class Diagnostics(NamedTuple):
    """What NCCL reported, and whether a report came to its end. No results: it was not asked."""

    results: tuple[DiagResult, ...] = ()
    ended: bool = False

    @property
    def peer_accesses(self) -> tuple[int, int] | None:
        """GPU-to-GPU accesses that passed, and those that were tested; None where none were."""
        for result in self.results:
            part, whole = _PART.search(result.text), _VERIFIED.search(result.text)
            if result.check == P2P and part:
                return int(part.group(1)), int(part.group(2))
            if result.check == P2P and result.ok and whole:
                return int(whole.group(1)), int(whole.group(1))
        return None

    @property
    def p2p_failed(self) -> bool:
        """Whether data between GPUs did not arrive as NCCL sent it."""
        return any(result.check == P2P and result.complains for result in self.results)

    @property
    def slow_ranks(self) -> tuple[str, ...]:
        """Ranks whose network card lies more than 30 % off the median, with host and rate."""
        return tuple(
            "rank {} on {} ({} Gbit/s)".format(*match.groups())
            for result in self.results
            if result.check == NETWORK
            for match in [_OUTLIER.search(result.text)]
            if match
        )


def read(text: str) -> Diagnostics:
    """Return what a log has of them. Any text is accepted."""
    found = dict.fromkeys(
        DiagResult(tag == "OK", check, words.strip()[:CUT])
        for tag, check, words in _RESULT.findall(text)
    )
    return Diagnostics(tuple(found)[:MOST], bool(_ENDED.search(text)))
