"""Train on one set of hosts that are held together: one strategy after another, leg by leg."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from hwcheck.contract.reasons import Reason
from hwcheck.fold import fold
from hwcheck.node.training.strategies import CONTROLS, load
from hwcheck.results.options import TrainingOptions
from hwcheck.results.training import (
    TOLERANCES,
    TrainingRecord,
    TrainingRun,
    TrainingSet,
    write_training,
)
from hwcheck.run.multi_host.participants import Participants, RunStoppedError
from hwcheck.run.multi_host.scope_runner import LOOPBACK, NO_GPU
from hwcheck.run.training.orders import (
    CPU_RANKS,
    SINGLE,
    TrainingCase,
    compared,
    merged,
    orders,
    refused,
    single,
    spread,
    with_turn,
)

Say = Callable[[str], None]


class Recorder:
    """The record while it grows, in the run folder from the first; sets add to it at once."""

    def __init__(self, folder: Path, hosts: Sequence[str], options: TrainingOptions) -> None:
        kind = "tf32" if options.dtype == "fp32" and options.tf32 else options.dtype
        self._folder = folder
        self._lock = threading.Lock()
        self._runs: dict[tuple[tuple[str, ...], str, str, int, int, int], TrainingRun] = {}
        self.record = TrainingRecord(
            model=options.model,
            dtype=options.dtype,
            tf32=options.tf32,
            micro_batch=options.micro_batch,
            warmup=options.warmup,
            steps=options.steps,
            repeats=options.repeats,
            tolerance=TOLERANCES[kind],
            hosts=tuple(hosts),
            strategies=options.strategies,
        )
        write_training(folder, self.record)

    def begin(self, of: TrainingSet) -> None:
        """Add a set of hosts."""
        with self._lock:
            self.record = replace(self.record, sets=(*self.record.sets, of))

    def put(self, run: TrainingRun) -> None:
        """Add a run, or replace it by what it has come to."""
        with self._lock:
            sizes = (run.ranks, run.sequences, run.parity_sequences)
            key = (run.hosts, run.strategy, run.leg, *sizes)
            self._runs[key] = run
            self.record = replace(self.record, runs=tuple(self._runs.values()))
            write_training(self._folder, self.record)

    def finish(self, absent: dict[str, Reason], *, finished: bool) -> TrainingRecord:
        """Close the record."""
        with self._lock:
            self.record = replace(self.record, absent=absent, finished=finished)
            write_training(self._folder, self.record)
            return self.record


class Bench:
    """``run`` it once. ``hosts`` train together; ``say`` is called with what goes on, in a line."""

    def __init__(
        self,
        participants: Participants,
        hosts: Sequence[str],
        options: TrainingOptions,
        recorder: Recorder,
        say: Say,
    ) -> None:
        self._participants = participants
        self._ready = participants.ready
        self._hosts = tuple(hosts)
        self._options = options
        self._recorder = recorder
        self._say = say
        self._number = 0
        self._generation = 0
        self._gpus = sum(self._ready[host].gpus for host in hosts)
        self._version = _version(self._ready[hosts[0]].torch)

    def run(self) -> None:
        """Train on each number of ranks. Raises RunStoppedError."""
        models = sorted({self._ready[host].model for host in self._hosts})
        torches = sorted({self._ready[host].torch for host in self._hosts})
        self._recorder.begin(
            TrainingSet(self._hosts, ", ".join(models)[:300], self._gpus, ", ".join(torches)[:300])
        )
        usual = (self._gpus or max(CPU_RANKS, len(self._hosts)),)
        for ranks in self._options.ranks or usual:
            self._on(ranks)

    def _on(self, ranks: int) -> None:
        options, sequences = self._options, self._options.sequences(ranks)
        units = {
            name: [TrainingCase(name, leg, ranks, sequences, sequences) for leg in self._legs(name)]
            for name in self._names()
        }
        problem = options.batch_problem(ranks) or self._placing(ranks)
        if problem:
            self._refuse([unit for each in units.values() for unit in each], problem)
            return
        alone = single(sequences, ranks)
        expected = self._turns([alone], ())[0]
        for name, of_strategy in units.items():
            reason = self._refusal(name, ranks)
            if reason:
                self._refuse(of_strategy[:1], reason)
            elif not expected.losses:
                state = expected.state.replace("_", " ")
                words = f"one process has no loss to compare with: {state}: {expected.reason}"
                for unit in of_strategy:
                    self._recorder.put(refused(unit, self._hosts, "not_run", words))
            else:
                self._turns(of_strategy, expected.losses)
            if not set(self._hosts) <= set(self._participants.present):
                return

    def _names(self) -> Iterator[str]:
        yield from (name for name in self._options.strategies if name != SINGLE)
        yield from CONTROLS if self._options.prove else ()

    def _legs(self, name: str) -> tuple[str, ...]:
        """Return the legs that can differ: without NCCL, or beside it, there is one."""
        if not self._gpus or load(name).one_process or load(name).control:
            return self._options.legs[:1]
        return self._options.legs

    def _placing(self, ranks: int) -> str:
        try:
            spread(self._hosts, self._ready, ranks)
        except ValueError as error:
            return str(error)
        return ""

    def _refusal(self, name: str, ranks: int) -> str:
        strategy, cuda = load(name), bool(self._gpus)
        return strategy.refuses_torch(self._version, cuda=cuda) or strategy.refuses(
            self._options.model, ranks, len(self._hosts), cuda=cuda
        )

    def _refuse(self, units: Sequence[TrainingCase], reason: str) -> None:
        for unit in units:
            self._recorder.put(refused(unit, self._hosts, "not_applicable", reason))

    def _turns(self, units: Sequence[TrainingCase], expected: Sequence[float]) -> list[TrainingRun]:
        """Have the legs of a strategy take turns: each once, then each again, and so on.

        A leg by itself has its repetitions at once. Those that did not end well have no further.
        """
        repeats = self._options.repeats
        turns, each = (1, repeats) if len(units) == 1 else (repeats, 1)
        runs: dict[TrainingCase, TrainingRun] = {}
        for turn in range(turns):
            for unit in units:
                if turn and runs[unit].state != "done":
                    continue
                run = self._taken(unit, each, 0 if turn else self._options.parity_steps)
                if turn:
                    runs[unit] = with_turn(runs[unit], run)
                else:
                    tolerance = self._recorder.record.tolerance
                    runs[unit] = compared(run, expected or run.losses, tolerance)
                self._recorder.put(runs[unit])
                label, state = load(unit.strategy).label, runs[unit].state.replace("_", " ")
                self._say(f"{fold(self._hosts)}: {label} {unit.leg} on {unit.ranks}: {state}")
        return list(runs.values())

    def _taken(self, unit: TrainingCase, repeats: int, parity_steps: int) -> TrainingRun:
        self._number += 1
        launch = f"{self._hosts[0]}/{unit.ranks}/{unit.leg}/{self._generation}"
        hosts = self._hosts if unit.ranks > 1 else self._hosts[:1]
        order_by_host = orders(
            self._number, launch, unit, hosts, self._ready, self._options, repeats, parity_steps
        )
        answers, lost = self._participants.ask(order_by_host)
        run = merged(unit, order_by_host, answers, lost)
        if run.state not in ("done", "unproven"):
            self._generation += (
                1  # where others ended well, their ranks wait for those that are gone
            )
        return replace(run, hosts=self._hosts)


def bench(
    participants: Participants,
    folder: Path,
    options: TrainingOptions,
    say: Say | None = None,
    *,
    together: bool,
) -> TrainingRecord:
    """Train on the hosts ``together``, or on each by itself at the same time; keep the record.

    ``say`` is called with what goes on, in a line.
    """
    recorder = Recorder(folder, [*participants.ready, *participants.absent], options)
    sets = [fit_together(participants)] if together else [(host,) for host in participants.present]

    def to_its_end(hosts: tuple[str, ...]) -> bool:
        try:
            Bench(participants, hosts, options, recorder, say or (lambda _: None)).run()
        except RunStoppedError:
            return False
        return True

    with ThreadPoolExecutor(max(1, len(sets))) as pool:
        finished = all(list(pool.map(to_its_end, filter(None, sets))))
    return recorder.finish(dict(participants.absent), finished=finished)


def fit_together(participants: Participants) -> tuple[str, ...]:
    """Return the hosts that can train together; the others are absent, with the reason."""
    ready, present = participants.ready, participants.present
    gpus = any(ready[name].gpus for name in present)
    for name in present:
        if gpus and not ready[name].gpus:
            participants.absent[name] = NO_GPU
        elif ready[name].address.startswith("127.") and len(present) > 1:
            participants.absent[name] = LOOPBACK
    return participants.present


def _version(text: str) -> tuple[int, int]:
    numbers = [int(part) for part in text.split(".")[:2] if part.isdecimal()]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)
