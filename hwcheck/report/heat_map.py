"""The hosts by groups of checks, rack by rack: where in the room something is wrong, and what.

A host of which every group is well has no row of its own: its rack counts it. So the map of a
thousand hosts is as long as the list of those that are not well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hwcheck.contract.check import GROUPS, Check
from hwcheck.fold import fold
from hwcheck.judge.records import MULTI_HOST, OUTCOMES, TRAINING, worst
from hwcheck.report.view import HostView
from hwcheck.text import line

NO_CHECKS = {TRAINING: "collectives", MULTI_HOST: "network"}
"""The columns of findings about the runs over several hosts and the training benchmark."""

MOST_ROWS = 200
MOST_CHECKS = 6


@dataclass(frozen=True)
class Cell:
    """What came of a group of checks: the worst outcome, how many have it, and which, in words."""

    outcome: str
    amount: int
    names: str = ""


@dataclass(frozen=True)
class MapRow:
    """One host that is not well, with a cell for each column."""

    host: HostView
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Rack:
    """The hosts of one rack; ``name`` is empty where the inventory names none.

    ``cells`` count its hosts with the worst outcome of each column; ``well`` are those without a
    row, folded.
    """

    name: str
    hosts: int
    cells: tuple[Cell, ...]
    well: str
    well_amount: int
    rows: tuple[MapRow, ...]


@dataclass(frozen=True)
class HeatMap:
    """Columns and racks; ``left_out`` are hosts that are not well and have no row, folded."""

    columns: tuple[str, ...]
    racks: tuple[Rack, ...]
    left_out: str


def heat_map(
    hosts: Sequence[HostView],
    racks: Mapping[str, str],
    order: Sequence[str],
    checks: Mapping[str, Check],
) -> HeatMap:
    """Return the map; ``racks`` by host, ``order`` is that of the inventory."""
    place = {name: at for at, name in enumerate(order)}
    by_rack: dict[str, list[HostView]] = defaultdict(list)
    for host in sorted(hosts, key=lambda host: place[host.name]):
        by_rack[racks.get(host.name, "")].append(host)
    group_of = _group_of(checks)
    asked = {group_of[check] for host in hosts for check in host.check_names}
    columns = [group for group in GROUPS if group in asked]
    unwell = [host.name for host in hosts if host.verdict.outcome != "pass"]
    shown = set(unwell[:MOST_ROWS])  # the gravest come first
    return HeatMap(
        tuple(columns),
        tuple(
            _rack(name, by_rack[name], columns, group_of, shown)
            for name in sorted(by_rack, key=_by_number)
        ),
        fold(unwell[MOST_ROWS:]),
    )


def _group_of(checks: Mapping[str, Check]) -> Mapping[str, str]:
    """Return the column of each check; of one that this version does not have it is the last."""
    groups = {check.id: check.group for check in checks.values()}
    return defaultdict(lambda: GROUPS[-1], groups | NO_CHECKS)


def _rack(
    name: str,
    hosts: Sequence[HostView],
    columns: Sequence[str],
    group_of: Mapping[str, str],
    shown: set[str],
) -> Rack:
    unwell = [host for host in hosts if host.verdict.outcome != "pass"]
    rows = [MapRow(host, _cells(host, columns, group_of)) for host in unwell]
    well = [host.name for host in hosts if host.verdict.outcome == "pass"]
    return Rack(
        name=line(name, 60),
        hosts=len(hosts),
        cells=tuple(_sum(row.cells[at] for row in rows) for at in range(len(columns))),
        well=fold(well),
        well_amount=len(well),
        rows=tuple(row for row in rows if row.host.name in shown),
    )


def _cells(host: HostView, columns: Iterable[str], group_of: Mapping[str, str]) -> tuple[Cell, ...]:
    if host.record.report is None:
        return tuple(Cell("inconclusive", 1, "nothing was measured") for _ in columns)
    bad: dict[str, dict[str, str]] = defaultdict(dict)
    for finding in host.findings:
        if finding.outcome != "pass" and not finding.waived:
            of_group = bad[group_of[finding.check]]
            of_group[finding.check] = worst((finding.outcome, of_group.get(finding.check, "pass")))
    return tuple(_cell(bad[column]) for column in columns)


def _cell(bad: Mapping[str, str]) -> Cell:
    outcome = worst(bad.values())
    names = [line(check, 60) for check, of_check in bad.items() if of_check == outcome]
    more = f" and {len(names) - MOST_CHECKS} more" if len(names) > MOST_CHECKS else ""
    return Cell(outcome, len(names), ", ".join(names[:MOST_CHECKS]) + more)


def _sum(cells: Iterable[Cell]) -> Cell:
    amounts = Counter(cell.outcome for cell in cells)
    outcome = next((name for name in OUTCOMES[:-1] if amounts[name]), "pass")
    return Cell(outcome, amounts[outcome] if outcome != "pass" else 0)


def _by_number(name: str) -> tuple[bool, list[tuple[int, str]]]:
    """Order names as people do: A2 before A10; hosts without a rack come last."""
    parts = "".join(c if c.isdigit() else f" {c} " for c in name).split()
    return name == "", [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
