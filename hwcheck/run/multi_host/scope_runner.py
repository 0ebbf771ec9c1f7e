"""Run the scopes over the hosts, find who is to blame, keep ``group.json``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hwcheck.contract.reasons import FABRIC_BETWEEN, NO_PART, Reason
from hwcheck.fold import fold
from hwcheck.node.tournament import rounds
from hwcheck.results.multi_host import (
    MNNVL_OFF,
    MultiHostOutcome,
    MultiHostRecord,
    MultiHostRun,
    Suspect,
    fabric_between,
)
from hwcheck.results.options import MultiHostOptions
from hwcheck.results.transport import socket_warnings
from hwcheck.run.multi_host.bisection import bisect
from hwcheck.run.multi_host.orders import GLOO, NCCL, Sizing, sizing_of
from hwcheck.run.multi_host.pair_matrix import standouts
from hwcheck.run.multi_host.participants import Participants, RunStoppedError
from hwcheck.run.multi_host.record_writer import RecordWriter
from hwcheck.run.multi_host.reference import Reference
from hwcheck.run.multi_host.settings import in_force, leg_of
from hwcheck.run.multi_host.trials import Hosts, Trials
from hwcheck.text import line

REASON_CHARACTERS = 300
WAY_CHARACTERS = 160
MNNVL = "NCCL_MNNVL_ENABLE"
MOST_HINTED = 4
"""Where a run points at more hosts, a search takes fewer runs than a look at each."""
NO_GPU = Reason(NO_PART, "it has no GPU, and others have")
LOOPBACK = Reason(
    NO_PART, "it would wait for the others at its loopback address; set hwcheck_interface"
)


class HostGoneError(Exception):
    """A host that a search needs is gone."""


class ScopeRunner:
    """``run`` it once. ``say`` is called with what goes on, in a line."""

    def __init__(
        self,
        participants: Participants,
        scopes: Sequence[str],
        folder: Path,
        say: Callable[[str], None],
        sizing: Sizing | None = None,
        options: MultiHostOptions | None = None,
    ) -> None:
        self._participants = participants
        self._say = say
        gpus = {name: ready.gpus for name, ready in participants.ready.items()}
        self._gpus = any(gpus.values())
        for name, ready in participants.ready.items():
            if self._gpus and not ready.gpus:
                participants.absent[name] = NO_GPU
            elif ready.address.startswith("127.") and len(participants.ready) > 1:
                participants.absent[name] = LOOPBACK
        options = options or MultiHostOptions()
        usual = sizing_of(options, sizing or (NCCL if self._gpus else GLOO))
        leg = leg_of(options, participants.ready)
        self._sizings = [replace(usual, collective=each, leg=leg) for each in options.collectives]
        self._sizing = self._sizings[0]
        self._begin()
        hosts = (
            *participants.ready,
            *(name for name in participants.absent if name not in participants.ready),
        )
        record = MultiHostRecord(
            tuple(scopes),
            hosts,
            "nccl" if self._gpus else "gloo",
            absent=dict(participants.absent),
            leg=leg,
            settings=in_force(leg, participants.ready),
            interface_gbps={
                name: ready.interface_gbps
                for name, ready in participants.ready.items()
                if ready.interface_gbps
            },
        )
        self._writer = RecordWriter(folder, record)

    def run(self) -> MultiHostRecord:
        """Run every scope and return the record, which is in the folder too."""
        self._writer.write()
        if len(self._participants.present) == 2:
            self._writer.note("two hosts: their bandwidth has nothing to be compared with")
        try:
            for sizing in self._sizings:
                self._sizing = sizing
                self._begin()
                for scope in self._writer.record.scopes:
                    if len(self._participants.present) > 1:
                        {"pairs": self._pairs, "all": self._all, "rails": self._rails}[scope]()
                if sizing is self._sizings[0]:
                    self._without_mnnvl()
        except RunStoppedError:
            self._writer.note("the run was stopped")
        return self._writer.finish(
            self._participants.absent, finished=not self._participants.stopped
        )

    def _without_mnnvl(self) -> None:
        """Repeat a run within one NVLink domain over the network alone, to hold the two together.

        That of all hosts, or else of a pair.
        """
        run = next((each for why in ("all", "pairs") for each in self._within_a_domain(why)), None)
        if run is None:
            return
        if any(f"{MNNVL}=" in text for text in self._writer.record.settings.values()):
            self._writer.note(f"{MNNVL} is set: nothing is held against a run without MNNVL")
            return
        usual = self._sizing
        sizes = usual.whole_sizes if run.why == "all" else usual.pair_sizes
        self._sizing = replace(usual, env={MNNVL: "0"})
        (off,) = self._runs(MNNVL_OFF, 0, [run.hosts], sizes[-1:])
        self._sizing = usual
        if off.outcome.kind != "ok":
            self._writer.note(f"without MNNVL: {off.outcome.kind}, so nothing is held against it")

    def _within_a_domain(self, why: str) -> Iterator[MultiHostRun]:
        """Yield the runs of this kind that went well, and whose hosts are in one NVLink domain."""
        present = set(self._participants.present)
        for run in self._writer.record.runs:
            if run.why != why or run.outcome.kind != "ok" or not present >= set(run.hosts):
                continue
            domains = {self._participants.ready[host].nvlink_domain for host in run.hosts}
            if len(domains) == 1 and "" not in domains:
                yield run

    def _begin(self) -> None:
        """Forget what the pairs of another collective reached."""
        self._reference = Reference({})
        self._good: tuple[str, ...] = ()
        self._groups: tuple[Hosts, ...] = ()
        self._logged: set[str] = set()

    def _pairs(self) -> None:
        """Let every pair meet; name the hosts and links that stand out, after a second look."""
        outcomes: dict[tuple[str, str], MultiHostOutcome] = {}
        for number, pairs in enumerate(rounds(self._participants.present)):
            present = set(self._participants.present)
            runs = self._runs("pairs", number, [pair for pair in pairs if present >= set(pair)])
            outcomes |= _pair_outcomes(runs)
        outliers = standouts(outcomes, self._kinds())
        self._learn(outliers.reference, outliers.good)
        trials = self._trials()
        if outliers.groups:
            self._look_between(outliers.groups, trials)
        for host in outliers.hosts:
            others = [name for name in outliers.hosts if name != host]
            self._second_look(host, lambda host=host, others=others: trials.confirm(host, others))  # type: ignore[misc]
        for pair in outliers.links:
            name = " with ".join(pair)
            self._second_look(name, lambda pair=pair: trials.confirm_link(*pair))  # type: ignore[misc]

    def _look_between(self, groups: tuple[Hosts, ...], trials: Trials) -> None:
        """Name the fabric between groups of hosts, after a second look at a pair of two of them."""
        pair = (groups[0][0], groups[1][0])
        try:
            kind = trials.kind(pair)
        except HostGoneError as gone:
            self._writer.not_pinned(f"{' with '.join(pair)}: stood out at first; {gone}")
            return
        if kind != "ok":
            self._groups = groups
            self._writer.unresolved(fabric_between(groups, kind))
        else:
            self._writer.not_pinned(
                f"{fold(groups[0])} with {fold(groups[1])}: stood out among the pairs, and "
                f"{' with '.join(pair)} is fine when it runs alone"
            )

    def _kinds(self) -> dict[str, str]:
        return {name: ready.kind for name, ready in self._participants.ready.items()}

    def _learn(self, reference: Reference, good: Iterable[str]) -> None:
        self._reference, self._good = reference, tuple(good)
        self._writer.not_compared(reference.not_compared())

    def _trials(self) -> Trials:
        reference = self._reference
        return Trials(self._repeat, reference.best_gbps, self._good, reference.share)

    def _second_look(self, name: str, look: Callable[[], list[Suspect]]) -> bool:
        """Accuse whom a second look finds; return whether that is somebody."""
        try:
            accused = look()
        except HostGoneError as gone:
            self._writer.not_pinned(f"{name}: stood out at first; {gone} before the second look")
            return True
        self._writer.accuse(accused)
        if not accused:
            self._writer.not_pinned(
                f"{name}: stood out among the pairs and is fine when it runs alone"
            )
        return bool(accused)

    def _all(self) -> None:
        """Run the whole set; where it is bad, split it until somebody is named."""
        if not self._reference.best_gbps:
            self._first_round()
        hosts = self._participants.present
        if len(hosts) < 2:
            return
        accused_before = self._writer.accused
        (run,) = self._runs("all", 0, [hosts], self._sizing.whole_sizes)
        if run.outcome.kind_against(self._reference.of(hosts)) == "ok" or _proven(run):
            return
        if self._confirmed(run, accused_before):
            return
        left = [name for name in self._participants.present if name not in accused_before]
        for group in self._groups or (left,):  # what is between groups is known by now
            self._split([name for name in group if name in left], run)

    def _confirmed(self, run: MultiHostRun, accused_before: set[str]) -> bool:
        """Pair whom the run points at with known-good hosts; return whether one was accused."""
        hinted = [one.hosts[0] for one in run.blamed if len(one.hosts) == 1]
        hinted = [name for name in hinted if name not in accused_before]
        if len(hinted) > MOST_HINTED:
            return False
        trials, accused = self._trials(), False
        for host in hinted:
            try:
                suspects = trials.confirm(host, hinted)
            except HostGoneError:  # which the run that lost it has accused
                return True
            self._writer.accuse(suspects)
            accused = accused or bool(suspects)
        return accused

    def _first_round(self) -> None:
        """Learn what two hosts reach. Of three, one pair at a time runs: all of them tell more."""
        present = self._participants.present
        if len(present) == 3:
            self._pairs()
            return
        opposite = _pair_outcomes(self._runs("pairs", 0, rounds(present)[0]))
        outcomes = {**opposite, **self._beside_each_other(opposite)}
        good = [name for pair, outcome in outcomes.items() if outcome.kind == "ok" for name in pair]
        self._learn(Reference(outcomes, self._kinds()), good)
        trials = self._trials()
        bad = [pair for pair, outcome in opposite.items() if outcome.kind != "ok"]
        if good and len(bad) == 1:  # several have no host in common, so the split has to tell
            (pair,) = bad
            self._second_look(" with ".join(pair), lambda: trials.confirm_link(*pair))

    def _beside_each_other(
        self, met: Mapping[tuple[str, str], MultiHostOutcome]
    ) -> dict[tuple[str, str], MultiHostOutcome]:
        """Return what neighbors reach: hosts that met others may all have met another rack."""
        present = self._participants.present
        pairs = zip(present[::2], present[1::2], strict=False)
        if len(present) < 4:
            return {}
        return _pair_outcomes(self._runs("pairs", 1, [pair for pair in pairs if pair not in met]))

    def _rails(self) -> None:
        """Run the same GPU of every host together, one index after another."""
        if not self._gpus:
            self._writer.note("rails: there are no GPUs")
            return
        ready = self._participants.ready
        count = min(ready[name].gpus for name in self._participants.present)
        runs: dict[int, MultiHostRun] = {}
        for device in range(count):
            hosts = self._participants.present
            if len(hosts) < 2:
                return
            sizes = self._sizing.pair_sizes
            (runs[device],) = self._runs(f"rail {device}", 0, [hosts], sizes, device)
        best_gbps = max(run.outcome.busbw_gbps for run in runs.values())
        for device, run in runs.items():
            if run.outcome.kind_against(best_gbps) != "ok" and not _proven(run):
                self._split(self._participants.present, run, device, best_gbps)

    def _split(
        self,
        hosts: Sequence[str],
        run: MultiHostRun,
        device: int | None = None,
        best_gbps: float = 0.0,
    ) -> None:
        """Search these hosts for what made a run bad, of one device of theirs or of all."""
        if len(hosts) < 2:
            return
        prefix = "" if device is None else f"rail {device}: "
        share = self._reference.share if device is None else lambda _: 1.0
        try:
            culprits = bisect(
                hosts,
                lambda some: self._measured("split", some, device),
                best_gbps or self._reference.best_gbps,
                share,
            )
        except HostGoneError as gone:
            self._writer.not_pinned(f"{prefix}{gone} while the hosts were split")
            return
        for one in culprits.suspects:
            evidence = tuple(prefix + text for text in one.evidence)
            self._writer.accuse([replace(one, evidence=evidence)])
        for reason in culprits.unresolved:
            way = _way_of(run) if reason.code == FABRIC_BETWEEN else ""
            self._writer.unresolved(Reason(reason.code, prefix + reason.text + way))
        if not culprits.suspects and not culprits.unresolved and set(hosts) == set(run.hosts):
            self._once(prefix, run)

    def _once(self, prefix: str, run: MultiHostRun) -> None:
        kind = "slow" if run.outcome.kind == "ok" else run.outcome.kind
        why = f" ({run.reason[:REASON_CHARACTERS]})" if run.reason else ""
        text = f"{prefix}{len(run.hosts)} hosts together: {kind} once{why}, and fine when run again"
        (self._writer.note if kind == "slow" else self._writer.not_pinned)(text)

    def _repeat(self, hosts: Hosts) -> MultiHostOutcome:
        return self._measured("again", hosts, None)

    def _measured(self, why: str, hosts: Hosts, device: int | None) -> MultiHostOutcome:
        gone = set(hosts) - set(self._participants.present)
        if gone:
            raise HostGoneError(f"{', '.join(sorted(gone))} went away")
        (run,) = self._runs(why, len(self._writer.record.runs), [hosts], device=device)
        return run.outcome

    def _runs(
        self,
        why: str,
        round_: int,
        host_sets: Sequence[Sequence[str]],
        sizes: Sequence[int] = (),
        device: int | None = None,
    ) -> list[MultiHostRun]:
        if not host_sets:
            return []
        sizes = sizes or self._sizing.pair_sizes
        scope = why.partition(" ")[0]
        sizing = replace(self._sizing, keep_log=scope not in self._logged)
        self._logged.add(scope)
        runs = self._participants.run(why, round_, host_sets, sizes, sizing, device)
        for run in runs:
            self._say(f"{why}: {', '.join(run.hosts[:4])}: {run.outcome.text()}")
        self._writer.add(runs, self._participants.absent)
        active = {name: ready.rdma_active for name, ready in self._participants.ready.items()}
        for run in runs:
            warnings, notes = socket_warnings(run, active)
            self._writer.warn(warnings)
            for text in notes:
                self._writer.note(text)
        return runs


def _way_of(run: MultiHostRun) -> str:
    """Return the ports that NCCL named as its network in a run; nothing where it named none."""
    named = (str(each.facts.get("network", "")) for each in run.transport)
    networks = dict.fromkeys(line(text, WAY_CHARACTERS) for text in named if text)
    return f"; NCCL went over {' and '.join(list(networks)[:2])}" if networks else ""


def _proven(run: MultiHostRun) -> bool:
    return any(one.direct for one in run.blamed)


def _pair_outcomes(runs: Sequence[MultiHostRun]) -> dict[tuple[str, str], MultiHostOutcome]:
    """Return what pairs came to, without those of which a run has proven who is to blame."""
    return {(run.hosts[0], run.hosts[1]): run.outcome for run in runs if not _proven(run)}
