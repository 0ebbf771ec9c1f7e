"""The record of the runs over several hosts while it grows, in the run folder from the first."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hwcheck.contract.reasons import NOT_PINNED, Reason
from hwcheck.results.multi_host import MultiHostRecord, MultiHostRun, Suspect, write_multi_host

WRITE_S = 2.0
MOST_HINTS = 5


class RecordWriter:
    """Adds to ``record`` and writes it."""

    def __init__(self, folder: Path, record: MultiHostRecord) -> None:
        self.record = record
        self._folder = folder
        self._written = 0.0
        self._hints: dict[str, set[str]] = {}

    def add(self, runs: Sequence[MultiHostRun], absent: Mapping[str, Reason]) -> None:
        """Add runs, and what each shows by itself: proof accuses, the rest is kept for later."""
        for run in runs:
            for one in run.blamed:
                for text in () if one.direct else one.evidence:
                    self._hints.setdefault(text, set()).update(one.hosts)
        self.record = replace(self.record, runs=(*self.record.runs, *runs), absent=dict(absent))
        self.accuse(one for run in runs for one in run.blamed if one.direct)
        self.write(now=False)

    def accuse(self, suspects: Iterable[Suspect]) -> None:
        """Add suspects; what is found again about the same hosts is more evidence.

        What runs have shown of a host stands before the figures.
        """
        by_hosts = {frozenset(one.hosts): one for one in self.record.suspects}
        for one in suspects:
            before = by_hosts.get(frozenset(one.hosts))
            hints = [text for text, hosts in self._hints.items() if hosts >= set(one.hosts)]
            lines = (*(before.evidence if before else ()), *hints[:MOST_HINTS], *one.evidence)
            merged = replace(before or one, evidence=tuple(dict.fromkeys(lines)))
            by_hosts[frozenset(one.hosts)] = merged
        self.record = replace(self.record, suspects=tuple(by_hosts.values()))

    @property
    def accused(self) -> set[str]:
        """The hosts that are suspected, or whose link is."""
        return {name for suspect in self.record.suspects for name in suspect.hosts}

    def unresolved(self, reason: Reason) -> None:
        """Say what could be pinned on no host."""
        several = dict.fromkeys((*self.record.unresolved, reason))
        self.record = replace(self.record, unresolved=tuple(several))

    def not_pinned(self, text: str) -> None:
        """Say what could be pinned on nobody."""
        self.unresolved(Reason(NOT_PINNED, text))

    def not_compared(self, reasons: Mapping[str, str]) -> None:
        """Say which hosts have nothing to be held against, and why."""
        self.record = replace(self.record, not_compared={**self.record.not_compared, **reasons})

    def note(self, text: str) -> None:
        """Say what else a reader must know."""
        self.record = replace(self.record, notes=tuple(dict.fromkeys((*self.record.notes, text))))

    def warn(self, warnings: Mapping[str, str]) -> None:
        """Say what is amiss with hosts."""
        self.record = replace(self.record, warnings={**warnings, **self.record.warnings})

    def finish(self, absent: Mapping[str, Reason], *, finished: bool) -> MultiHostRecord:
        """Close the record and return it."""
        self.record = replace(self.record, absent=dict(absent), finished=finished)
        self.write()
        return self.record

    def write(self, *, now: bool = True) -> None:
        """Keep the record; what is written between two runs may be some seconds old."""
        if now or time.monotonic() - self._written > WRITE_S:
            write_multi_host(self._folder, self.record)
            self._written = time.monotonic()
