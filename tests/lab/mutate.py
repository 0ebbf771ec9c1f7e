"""Acceptance by mutation: ``python -m tests.lab.mutate [SCENARIO ...]``.

Every quantity of every healthy node is moved to a value that a person would call broken, one at a
time: what NVML, the host's files and the kernel's log say (``mutations``, ``log_mutations``), the
records of nodes at work (``work_mutations``), and runs over several hosts
(``multi_host_mutations``). The checks that read it are asked again, and the
answer is judged among four healthy hosts. A change that brings no finding worse than pass has
survived, and needs a reason in ``survivors.yml``. Ends with 1 where one has none, and where, over
all scenarios, a reason fits nothing. ``--docs`` writes docs/mutations.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.lab import multi_host_mutations, mutations_page, work_mutations
from tests.lab.bench import CHANGED, Bench, Seen, said
from tests.lab.mutation import Mutation
from tests.lab.mutations import of_node
from tests.lab.scenario import libraries, load, names
from tests.lab.survivors import reason_of, reasons, unused

PARTS = 2
"""A scenario is cut into so many, each with a node of its own."""


@dataclass(frozen=True)
class Row:
    """What came of one change.

    ``fate``: no check reads it (unread), reads it and answers the same (same), answers otherwise
    and passes (passes), or noticed. ``by`` is check and outcome, ``cause`` the first that is named,
    ``elsewhere`` whether only another host than the changed one has a finding.
    """

    scenario: str
    quantity: str
    change: str
    place: str
    fate: str
    by: tuple[tuple[str, str], ...] = ()
    cause: str = ""
    elsewhere: bool = False

    @property
    def name(self) -> str:
        return f"{self.quantity} = {self.change}"

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Row:
        """Rebuild a row that was saved."""
        return cls(**{**data, "by": tuple((check, outcome) for check, outcome in data["by"])})


def row_of(scenario: str, mutation: Mutation, seen: Seen) -> Row:
    """Return the row of a change from what was seen of it."""
    fate = "noticed" if seen.findings else "passes"
    if not seen.answered:
        fate = "same" if seen.asked else "unread"
    by = tuple(dict.fromkeys((each.check, each.outcome) for each in seen.findings))
    elsewhere = bool(by) and all(each.host != CHANGED for each in seen.findings)
    cause = seen.cause if by else ""
    of = (scenario, mutation.quantity, mutation.change, mutation.place)
    return Row(*of, fate, by, cause, elsewhere)


@contextmanager
def bench_of(name: str) -> Iterator[Bench]:
    """Hand out a scenario's bench, in a folder that goes with it."""
    of = load(name)
    with TemporaryDirectory(prefix="hwlab-") as folder, Bench(of, Path(folder, "n")) as bench:
        yield bench


def idle_rows(name: str, part: int, parts: int) -> list[Row]:
    """Return what comes of every ``parts``-th change of an idle node."""
    with bench_of(name) as bench:
        return rows_on(bench, list(of_node(bench.scenario))[part::parts])


def rows_on(bench: Bench, mutations: Iterable[Mutation]) -> list[Row]:
    """Return what comes of these changes of a bench's node."""
    return [row_of(bench.scenario.name, each, _see(bench, each)) for each in mutations]


def _see(bench: Bench, mutation: Mutation) -> Seen:
    try:
        return bench.see(mutation.of(bench.scenario))
    except Exception as error:
        raise RuntimeError(f"{bench.scenario.name}: {mutation.name}: {error!r}") from error


def work_rows(name: str, every: int = 1) -> list[Row]:
    """Return what comes of the changes of what a node did at work, of every so many."""
    with bench_of(name) as bench:
        did = work_mutations.healthy(name, bench.healthy)
        wanted = list(work_mutations.of_work(did))[::every]
        bench.add(lambda one, number: work_mutations.healthy(name, one, number).results(one))
        return [_work_row(name, bench, did, each) for each in wanted]


def _work_row(
    name: str, bench: Bench, did: work_mutations.Work, change: work_mutations.WorkChange
) -> Row:
    now = {result.check: result for result in change.of(did).results(bench.healthy)}
    before = {result.check: result for result in bench.healthy.results}
    changed = tuple(check for check in now if said(now[check]) != said(before[check]))
    seen = Seen(tuple(now), ())
    if changed:
        report = replace(bench.healthy, results=tuple({**before, **now}.values()))
        seen = bench.see_report(report, tuple(now), changed)
    return row_of(name, change.mutation, seen)


def fleet_rows(every: int = 1) -> list[Row]:
    """Return what comes of the changes of runs over several hosts, of every so many."""
    rows = []
    with TemporaryDirectory(prefix="hwlab-") as folder:
        for number, change in enumerate([*multi_host_mutations.of_fleet()][::every]):
            run = Path(folder, str(number))
            run.mkdir()
            rows.append(_fleet_row(change.mutation, multi_host_mutations.see(change, run)))
    return rows


def _fleet_row(mutation: Mutation, came: multi_host_mutations.SeenFleet) -> Row:
    by = tuple(dict.fromkeys((each.check, each.outcome) for each in came.findings))
    name = (multi_host_mutations.FLEET, mutation.quantity, mutation.change, mutation.place)
    elsewhere = bool(by) and all(
        each.host != multi_host_mutations.CHANGED for each in came.findings
    )
    return Row(*name, "noticed" if by else "passes", by, came.action if by else "", elsewhere)


def all_rows(scenarios: Sequence[str]) -> Iterator[Row]:
    """Yield what comes of every change of these scenarios."""
    libraries()  # built once, for all processes
    nodes = [name for name in scenarios if name != multi_host_mutations.FLEET]
    parts = [(name, part, PARTS) for name in nodes for part in range(PARTS)]
    at_work = [name for name in scenarios if name in work_mutations.names()]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for rows in pool.map(idle_rows, *zip(*parts, strict=True)):
            yield from rows
        for rows in pool.map(work_rows, at_work):
            yield from rows
    if multi_host_mutations.FLEET in scenarios:
        yield from fleet_rows()


def complaints(rows: Iterable[Row], whole: bool) -> list[str]:
    """Return the survivors without a reason and, of a whole run, the reasons that fit nothing."""
    known = reasons()
    survivors = [(row.scenario, row.name) for row in rows if row.fate != "noticed"]
    found = [f"no reason for {scenario}: {name}" for scenario, name in dict.fromkeys(survivors)
             if reason_of(scenario, name, known) is None]  # fmt: skip
    return found + ([f"fits nothing: {each}" for each in unused(survivors, known)] if whole else [])


def saved(file: Path) -> list[Row]:
    """Read what ``--save`` wrote."""
    return [Row.from_dict(json.loads(line)) for line in file.read_text("utf-8").splitlines()]


def main() -> int:
    """Run the changes and print what came of them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.lab.mutate")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO")
    parser.add_argument("--docs", action="store_true", help="write docs/mutations.md")
    parser.add_argument("--save", type=Path, help="append what came of each change to this file")
    parser.add_argument("--saved", type=Path, help="take what came of them from this file")
    options = parser.parse_args()
    if options.saved:
        rows = saved(options.saved)
    else:
        rows = []
        for row in all_rows(options.scenarios or [*names(), multi_host_mutations.FLEET]):
            rows.append(row)
            if options.save:
                with options.save.open("a", encoding="utf-8") as stream:
                    print(json.dumps(asdict(row)), file=stream)
    wrong = complaints(rows, whole=not options.scenarios)
    print(mutations_page.table(rows))
    for each in wrong:
        print(each)
    if options.docs:
        mutations_page.FILE.write_text(mutations_page.page(rows), "utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
