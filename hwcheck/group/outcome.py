"""What a run over some hosts came to, as far as the search for a culprit goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

KINDS = ("hang", "wrong", "failed", "slow")
"""What a host or a link can be suspected of, worst first."""

SLOW_SHARE = 0.6
"""A run below this share of what other hosts reach is slow. Between healthy nodes of one kind the
spread is a few percent; a link that lost half of its lanes, or one of two rails, falls below it."""


@dataclass(frozen=True)
class Outcome:
    """``kind`` is ok, hang, wrong or failed; bandwidths are busbw of the largest size, 1e9 B/s.

    ``busbw_gbps`` is the median's, ``best_gbps`` that of the fastest iteration. Slow is no outcome
    of a run alone: it takes others to compare with.
    """

    kind: str
    busbw_gbps: float = 0.0
    best_gbps: float = 0.0

    def kind_against(self, reference_gbps: float) -> str:
        """Return the kind, or slow where the run is far below what is known to be possible.

        Even its fastest iteration must be: whatever else goes on may slow some, never all.
        """
        if self.kind == "ok" and self.best_gbps < SLOW_SHARE * reference_gbps:
            return "slow"
        return self.kind

    def text(self) -> str:
        """Say it in a word or a figure."""
        return f"{self.busbw_gbps:.3g} GB/s" if self.kind == "ok" else self.kind


@dataclass(frozen=True)
class Suspect:
    """One host, or two for the link between them; ``kind`` is one of KINDS, evidence in lines.

    ``direct``: one run proves it, without a second look.
    """

    hosts: tuple[str, ...]
    kind: str
    evidence: tuple[str, ...]
    direct: bool = False


def worst_kind(kinds: Iterable[str]) -> str:
    """Return the worst of some kinds; ok when there is none."""
    return min((kind for kind in kinds if kind != "ok"), key=KINDS.index, default="ok")
