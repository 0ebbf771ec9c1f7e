"""Run the scopes over the members of a group, find who is to blame, keep ``group.json``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from hwcheck.group.bisection import bisect
from hwcheck.group.members import GroupStoppedError, Members
from hwcheck.group.orders import GLOO, NCCL, Sizing
from hwcheck.group.outcome import Outcome, Suspect
from hwcheck.group.pair_matrix import reference_of, standouts
from hwcheck.group.records import GroupRecord, GroupRun, write_group
from hwcheck.group.trials import Hosts, Trials
from hwcheck.node.tournament import rounds

DIRECT = ("hang", "failed")
"""Kinds for which a run names its culprit itself: a silent host, a rank that died or stands still.
Wrong data between two hosts says only that it is one of them."""


WRITE_S = 2.0
LOOPBACK = "it would wait for the others at its loopback address; set hwcheck_interface"


class HostGoneError(Exception):
    """A host that a search needs is gone."""


class Session:
    """One group; ``run`` it once. ``say`` is told what goes on, in a line."""

    def __init__(
        self,
        members: Members,
        scopes: Sequence[str],
        folder: Path,
        say: Callable[[str], None],
        sizing: Sizing | None = None,
    ) -> None:
        self._members = members
        self._folder = folder
        self._say = say
        gpus = {name: ready.gpus for name, ready in members.ready.items()}
        self._gpus = any(gpus.values())
        for name, ready in members.ready.items():
            if self._gpus and not ready.gpus:
                members.absent[name] = "it has no GPU, and others have"
            elif ready.address.startswith("127.") and len(members.ready) > 1:
                members.absent[name] = LOOPBACK
        self._sizing = sizing or (NCCL if self._gpus else GLOO)
        self._reference_gbps = 0.0
        self._written = 0.0
        hosts = (*members.ready, *(name for name in members.absent if name not in members.ready))
        backend = "nccl" if self._gpus else "gloo"
        self._record = GroupRecord(tuple(scopes), hosts, backend, absent=dict(members.absent))

    def run(self) -> GroupRecord:
        """Run every scope and return the record, which is in the folder too."""
        self._write()
        if len(self._members.present) == 2:
            self._note("two hosts: their bandwidth has nothing to be compared with")
        try:
            for scope in self._record.scopes:
                if len(self._members.present) > 1:
                    {"pairs": self._pairs, "all": self._all, "rails": self._rails}[scope]()
        except GroupStoppedError:
            self._note("the run was stopped")
        absent = dict(self._members.absent)
        self._record = replace(self._record, absent=absent, finished=not self._members.stopped)
        self._write()
        return self._record

    def _pairs(self) -> None:
        """Let every pair meet; name the hosts and links that stand out, after a second look."""
        outcomes: dict[tuple[str, str], Outcome] = {}
        for number, pairs in enumerate(rounds(self._members.present)):
            present = set(self._members.present)
            for run in self._runs(
                "pairs", number, [pair for pair in pairs if present >= set(pair)]
            ):
                direct = [one for one in run.blamed if one.kind in DIRECT]
                self._accuse(direct)
                if not direct:
                    outcomes[run.hosts[0], run.hosts[1]] = run.outcome
        found = standouts(outcomes)
        self._reference_gbps = found.reference_gbps
        trials = Trials(self._again, found.reference_gbps, found.good)
        for host in found.hosts:
            others = [name for name in found.hosts if name != host]
            self._second_look(host, lambda host=host, others=others: trials.confirm(host, others))  # type: ignore[misc]
        for pair in found.links:
            name = " with ".join(pair)
            self._second_look(name, lambda pair=pair: trials.confirm_link(*pair))  # type: ignore[misc]

    def _second_look(self, name: str, look: Callable[[], list[Suspect]]) -> None:
        try:
            accused = look()
        except HostGoneError as gone:
            self._unresolved(f"{name}: stood out among the pairs; {gone} before the second look")
            return
        self._accuse(accused)
        if not accused:
            self._unresolved(f"{name}: stood out among the pairs and is fine when it runs alone")

    def _all(self) -> None:
        """Run the whole set; where it is bad, split it until somebody is named."""
        if not self._reference_gbps:
            self._first_round()
        hosts = self._members.present
        if len(hosts) < 2:
            return
        (run,) = self._runs("all", 0, [hosts], self._sizing.whole_sizes)
        if not self._bad(run):
            return
        known = {name for suspect in self._record.suspects for name in suspect.hosts}
        direct = [one for one in run.blamed if one.kind in DIRECT or len(one.hosts) == 1]
        self._accuse(direct)
        rest = [name for name in self._members.present if name not in known]
        if not direct and len(rest) > 1:
            self._split(rest, None, "")

    def _first_round(self) -> None:
        """Learn what two hosts reach. Of three, one pair at a time runs: all of them tell more."""
        present = self._members.present
        if len(present) == 3:
            self._pairs()
            return
        runs = self._runs("pairs", 0, rounds(present)[0])
        self._accuse([one for run in runs for one in run.blamed if one.kind in DIRECT])
        self._reference_gbps = reference_of({(r.hosts[0], r.hosts[1]): r.outcome for r in runs})

    def _rails(self) -> None:
        """Run the same GPU of every host together, one index after another."""
        if not self._gpus:
            self._note("rails: there are no GPUs")
            return
        ready = self._members.ready
        count = min(ready[name].gpus for name in self._members.present)
        runs: dict[int, GroupRun] = {}
        for device in range(count):
            hosts = self._members.present
            if len(hosts) < 2:
                return
            sizes = self._sizing.pair_sizes
            (runs[device],) = self._runs(f"rail {device}", 0, [hosts], sizes, device)
            self._accuse([one for one in runs[device].blamed if one.kind in DIRECT])
        self._reference_gbps = max(run.outcome.busbw_gbps for run in runs.values())
        for device, run in runs.items():
            if self._bad(run) and not any(one.kind in DIRECT for one in run.blamed):
                self._split(list(self._members.present), device, f"rail {device}: ")

    def _split(self, hosts: Sequence[str], device: int | None, prefix: str) -> None:
        try:
            found = bisect(
                hosts, lambda group: self._measured("split", group, device), self._reference_gbps
            )
        except HostGoneError as gone:
            self._unresolved(f"{prefix}{gone} while the group was split")
            return
        for one in found.suspects:
            evidence = tuple(prefix + text for text in one.evidence)
            self._accuse([replace(one, evidence=evidence)])
        for text in found.unresolved:
            self._unresolved(prefix + text)

    def _again(self, hosts: Hosts) -> Outcome:
        return self._measured("again", hosts, None)

    def _measured(self, why: str, hosts: Hosts, device: int | None) -> Outcome:
        gone = set(hosts) - set(self._members.present)
        if gone:
            raise HostGoneError(f"{', '.join(sorted(gone))} went away")
        (run,) = self._runs(why, len(self._record.runs), [hosts], device=device)
        self._accuse([one for one in run.blamed if one.kind in DIRECT])
        return run.outcome

    def _bad(self, run: GroupRun) -> bool:
        return run.outcome.kind_against(self._reference_gbps) != "ok"

    def _runs(
        self,
        why: str,
        round_: int,
        groups: Sequence[Sequence[str]],
        sizes: Sequence[int] = (),
        device: int | None = None,
    ) -> list[GroupRun]:
        if not groups:
            return []
        sizes = sizes or self._sizing.pair_sizes
        runs = self._members.run(why, round_, groups, sizes, self._sizing, device)
        for run in runs:
            self._say(f"{why}: {', '.join(run.hosts[:4])}: {run.outcome.text()}")
        self._record = replace(
            self._record,
            runs=(*self._record.runs, *runs),
            absent=dict(self._members.absent),
        )
        self._write(now=False)
        return runs

    def _accuse(self, suspects: Sequence[Suspect]) -> None:
        """Add suspects; what is found again about the same hosts is more evidence."""
        by_hosts = {frozenset(one.hosts): one for one in self._record.suspects}
        for one in suspects:
            before = by_hosts.get(frozenset(one.hosts))
            lines = (*(before.evidence if before else ()), *one.evidence)
            merged = replace(before or one, evidence=tuple(dict.fromkeys(lines)))
            by_hosts[frozenset(one.hosts)] = merged
        self._record = replace(self._record, suspects=tuple(by_hosts.values()))

    def _unresolved(self, text: str) -> None:
        self._record = replace(self._record, unresolved=(*self._record.unresolved, text))

    def _note(self, text: str) -> None:
        self._record = replace(self._record, notes=(*self._record.notes, text))

    def _write(self, *, now: bool = True) -> None:
        """Keep the record; what is written between two runs may be some seconds old."""
        if now or time.monotonic() - self._written > WRITE_S:
            write_group(self._folder, self._record)
            self._written = time.monotonic()
