"""NCCL's own diagnostics: what it reports when a communicator is made, from 2.31 on.

NCCL User Guide, Troubleshooting, Diagnostics: ``NCCL_RUN_DIAGNOSTICS=1`` has every pair of GPUs
that NCCL expects to reach each other exchange data, and several hosts measure their network cards
(on one host that part is skipped). ``NCCL_RUN_RAS_DIAGNOSTICS=1`` compares what the ranks say of
themselves, and needs no client: rank 0 prints lines that begin with ``NCCL DIAG`` to its stdout
(NVIDIA/nccl, src/diagnostics.cc, src/diagnostics/p2p.cc, src/ras/diagnostics_checks.cc), those of
RAS from a thread of its own, some ms after the communicator is there.
``[OK]`` is a check without a complaint. ``[INFO]`` is a complaint, or a check that could not be
done: the words tell which.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from hwcheck.contract.reasons import NONE, Reason

SINCE = (2, 31)
"""The NCCL that has them first."""
RUN = {"NCCL_RUN_DIAGNOSTICS": "1", "NCCL_RUN_RAS_DIAGNOSTICS": "1"}
MOST = 400  # GPU-to-GPU accesses of 16 GPUs are 240
CUT = 300
LINE_CHARACTERS = 500

_LINE = re.compile(r"[^\n]{0,100}\bNCCL DIAG [^\n]{0,%d}" % LINE_CHARACTERS)
_RESULT = re.compile(r"\bNCCL DIAG \[(OK|INFO)\] +([A-Za-z][\w .-]{0,40}?): ([^\n]{1,2000})")
_VERIFIED = re.compile(r"\(?(\d{1,9}) (?:peer accesses|directed GPU P2P edges)")
_PART = re.compile(r"only (\d{1,9})/(\d{1,9}) GPU-to-GPU peer accesses")
_PAIR = re.compile(
    r"([A-Za-z][\w /-]{0,60}?) srcRank=\d{1,7} srcCudaDev=\d{1,4} srcNvmlDev=(\d{1,3}) "
    r"dstRank=\d{1,7} dstCudaDev=\d{1,4} dstNvmlDev=(\d{1,3})\b"
)
_OUTLIER = re.compile(r"rank (\d{1,7}) \(([\w.-]{1,80})\): ([\d.]{1,12}) Gbit/s, >30% off")
_NOT_DONE = re.compile(
    r"unavailable|incomplete|unable to complete|timed out|could not|setup failed|skip",
    re.IGNORECASE,
)
_BEGUN = re.compile(r"\bNCCL DIAG === (RAS|NCCL) Diagnostics ===")
_ENDED = re.compile(r"\bNCCL DIAG (RAS|NCCL) diagnostics completed in [\d.]{1,12} ms")
_COMM = re.compile(r" in comm 0x[0-9a-f]{1,16}")
P2P, NETWORK = "p2p", "net bw"
INVENTORY, DRIVER, ECC, NVLINK = "GPU inventory", "CUDA driver version", "ECC", "NVLink"
RAS = (INVENTORY, DRIVER, ECC, NVLINK)
"""What RAS compares of a host. What it says of the environment is of ours."""
ENVIRONMENT = "NCCL environment"
FINE = "ok"


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
    """What NCCL reported, and whether each report that it began came to its end.

    ``active`` says it of the one that exchanges data. No results: it was not asked.
    """

    results: Tuple[DiagResult, ...] = ()
    ended: bool = False
    active: bool = False

    @property
    def peer_accesses(self) -> Optional[Tuple[int, int]]:
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
    def failed_pairs(self) -> Dict[str, str]:
        """What failed, by pair (``gpu0-gpu1``, NVML's indexes): ``write mismatch`` and the like."""
        return {pair: words for pair, words, complains in self._pairs() if complains}

    @property
    def untested_pairs(self) -> Dict[str, str]:
        """What kept NCCL from testing, by pair: ``local CUDA setup failed`` and the like."""
        return {pair: words for pair, words, complains in self._pairs() if not complains}

    @property
    def untested(self) -> Tuple[str, ...]:
        """What NCCL could not look at, in its own words; a check that it left out is not here."""
        others = (
            "%s: %s" % (result.check, result.text)
            for result in self.results
            if result.check not in (*RAS, ENVIRONMENT)
            and not (result.ok or _PAIR.search(result.text) or _PART.search(result.text))
        )
        return (*map(": ".join, self.untested_pairs.items()), *others)

    @property
    def ras(self) -> Dict[str, str]:
        """What RAS says of a host by its check: ``FINE``, or what it complains of.

        Nothing of a check that it could not do.
        """
        complaints: Dict[str, List[str]] = {}
        for result in self.results:
            if result.check in RAS and (result.ok or result.complains):
                words = [] if result.ok else [_COMM.sub("", result.text)]
                complaints.setdefault(result.check, []).extend(words)
        return {check: "; ".join(words) or FINE for check, words in complaints.items()}

    def _pairs(self) -> Tuple[Tuple[str, str, bool], ...]:
        return tuple(
            ("gpu%s-gpu%s" % (match.group(2), match.group(3)), match.group(1), result.complains)
            for result in self.results
            if result.check == P2P
            for match in [_PAIR.search(result.text)]
            if match
        )

    @property
    def slow_ranks(self) -> Tuple[str, ...]:
        """Ranks whose network card lies more than 30 % off the median, with host and rate."""
        return tuple(
            "rank {} on {} ({} Gbit/s)".format(*match.groups())
            for result in self.results
            if result.check == NETWORK
            for match in [_OUTLIER.search(result.text)]
            if match
        )


@dataclass(frozen=True)
class DiagnosticsRun:
    """NCCL's diagnostics of one node: the version it has, its report, and why there is none.

    ``report`` has NCCL's lines as they are, empty where the version has no diagnostics.
    """

    nccl: str = ""
    report: str = ""
    reason: Reason = NONE

    @property
    def absent(self) -> bool:
        """Whether this NCCL is older than its diagnostics."""
        return bool(self.nccl) and not is_there(tuple(map(int, self.nccl.split("."))))

    def to_dict(self) -> Dict[str, Any]:
        """Return plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DiagnosticsRun:
        """Rebuild from ``to_dict``."""
        return cls(**dict(data, reason=Reason.from_json(data.get("reason", ""))))


def is_there(version: Tuple[int, ...]) -> bool:
    """Whether a version of NCCL has diagnostics."""
    return version[:2] >= SINCE


def lines_of(log: str) -> str:
    """Return NCCL's lines of a report in a log that has others too."""
    lines = list(dict.fromkeys(match.group().strip() for match in _LINE.finditer(log)))
    return "\n".join(lines if len(lines) <= MOST else [*lines[: MOST - 1], lines[-1]])


def read(text: str) -> Diagnostics:
    """Return what a log has of them. Any text is accepted."""
    results = dict.fromkeys(
        DiagResult(tag == "OK", check, words.strip()[:CUT])
        for tag, check, words in _RESULT.findall(text)
    )
    ended = set(_ENDED.findall(text))
    whole = bool(ended) and ended >= set(_BEGUN.findall(text))
    return Diagnostics(tuple(results)[:MOST], whole, "NCCL" in ended)
