"""``index.html`` over runs: the fleet as a heat map of hosts by nights. One page, no script.

The map is one PNG with a pixel for each host and night: a table of 365,000 cells would be no page
to open. Each row of the table shows its line of it, so that names, links and colors stay together.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from urllib.parse import quote

from markupsafe import Markup

from hwcheck.advise.catalogue import Catalogue
from hwcheck.advise.causes import Rules
from hwcheck.fold import fold
from hwcheck.history.fleet import CODES, FleetHost, FleetNights
from hwcheck.judge.records import OUTCOMES
from hwcheck.report.report import environment
from hwcheck.report.words import OUTCOME_WORDS
from hwcheck.text import count, line

MOST_ROWS = 4000
"""Hosts that passed have no row in a larger fleet."""
MOST_CHECKS = 4
PALETTES = {
    "light": ("#00000000", "#b9dfc7", "#e3a72f", "#8a6bd1", "#b3201a"),
    "dark": ("#00000000", "#1d5334", "#c9962f", "#9a84e6", "#ff766b"),
}
"""Nothing, then the outcomes by their code: told apart by lightness too."""
OPEN = ("fail", "inconclusive")
UNWELL = OUTCOMES[:-1]
CHART_HEIGHT = 100


@dataclass(frozen=True)
class RowView:
    """A host's line of the table; ``place`` is its line of the map."""

    place: int
    name: str
    outcome: str
    href: str
    since: str
    last: str
    why: str
    in_words: str


@dataclass(frozen=True)
class OpenView:
    """Hosts of which the same is open, folded; ``since`` is the first night of any."""

    outcome: str
    what: str
    hosts: str
    amount: int
    since: str
    nights: int


@dataclass(frozen=True)
class NightView:
    """A night of the chart: where its report is, and what came out in words."""

    place: int
    href: str
    in_words: str


def fleet_page(fleet: FleetNights, catalogue: Catalogue) -> str:
    """Return the page. Links lead to the reports in run folders beside it."""
    hosts = sorted(fleet.hosts, key=_gravity)
    rows = (
        hosts if len(hosts) <= MOST_ROWS else [h for h in hosts if h.outcome != "pass"][:MOST_ROWS]
    )
    amounts = {name: sum(host.outcome == name for host in fleet.hosts) for name in OUTCOMES}
    worst = next((name for name in OUTCOMES if amounts[name]), "inconclusive")
    counts = _counts(fleet)
    most = max((sum(each[name] for name in UNWELL) for each in counts), default=0)
    template = environment("html", catalogue.templates).get_template("fleet.html.j2")
    return template.render(
        worst=worst,
        verdict=_verdict(fleet, amounts),
        amounts=amounts,
        first=_day(fleet.nights[0]) if fleet.nights else "",
        last=_day(fleet.nights[-1]) if fleet.nights else "",
        width=len(fleet.nights),
        rows=list(_rows(fleet, rows, catalogue.rules)),
        left_out=len(hosts) - len(rows),
        open=list(_open(fleet, catalogue.rules)),
        maps={name: Markup(_map(fleet, rows, colors)) for name, colors in PALETTES.items()},  # noqa: S704 - base64
        palettes=PALETTES,
        areas=list(_areas(counts, most)),
        most=most,
        measured=_measured(counts, len(fleet.hosts)),
        total=len(fleet.hosts),
        chart_height=CHART_HEIGHT,
        nights=list(_nights(fleet, counts)),
        marks=list(_marks(fleet.nights, 12)),
        few_marks=list(_marks(fleet.nights, 5)),
        frequent=fleet.frequent,
    )


def _gravity(host: FleetHost) -> tuple[int, str, str]:
    return OUTCOMES.index(host.outcome), str(host.since or ""), host.name


def _verdict(fleet: FleetNights, amounts: dict[str, int]) -> str:
    if not fleet.hosts:
        return "No run is in the history."
    parts = [
        f"{amounts[name]} {words}"
        for name, words in (
            ("fail", "failed"),
            ("inconclusive", "could not be judged in full"),
            ("warn", "gave warnings"),
        )
        if amounts[name]
    ]
    if not parts:
        return f"{count(len(fleet.hosts), 'host')} passed, each at its last run."
    return f"Of {count(len(fleet.hosts), 'host')}, each at its last run: {', '.join(parts)}."


def _rows(fleet: FleetNights, hosts: Iterable[FleetHost], rules: Rules) -> Iterator[RowView]:
    for place, host in enumerate(hosts):
        cells = fleet.row(host)
        measured = [cell for cell in cells if cell]
        counts = [f"{OUTCOME_WORDS[name]} {measured.count(CODES[name])}" for name in OUTCOMES]
        shown = [text for text, name in zip(counts, OUTCOMES, strict=True) if CODES[name] in cells]
        yield RowView(
            place=place,
            name=line(host.name, 200),
            outcome=host.outcome,
            href=_report(host.run),
            since=_day(host.since) if host.since else "",
            last=_day(host.last),
            why=_what(host, rules) if host.outcome in OPEN else "",
            in_words=f"{', '.join(shown)} of {count(len(measured), 'night')}",
        )


def _what(host: FleetHost, rules: Rules) -> str:
    """Return what is open on a host: its causes, or its checks, or why there is no answer."""
    named = [rules[name].title if name in rules else line(name, 60) for name in host.causes]
    if named:
        return "; ".join(named)
    more = f" and {len(host.checks) - MOST_CHECKS} more" if len(host.checks) > MOST_CHECKS else ""
    checks = ", ".join(line(check, 60) for check in host.checks[:MOST_CHECKS]) + more
    return checks or line(host.reason, 160)


def _open(fleet: FleetNights, rules: Rules) -> Iterator[OpenView]:
    """Yield what is open: the gravest first, then what more hosts have."""
    groups: dict[tuple[str, str], list[FleetHost]] = {}
    for host in fleet.hosts:
        if host.outcome in OPEN:
            groups.setdefault((host.outcome, _what(host, rules)), []).append(host)
    order = sorted(groups, key=lambda key: (OUTCOMES.index(key[0]), -len(groups[key]), key[1]))
    for outcome, what in order:
        members = groups[outcome, what]
        since = min(host.since for host in members if host.since)
        yield OpenView(
            outcome=outcome,
            what=what,
            hosts=fold(host.name for host in members),
            amount=len(members),
            since=_day(since),
            nights=(fleet.nights[-1] - since).days + 1,
        )


def _counts(fleet: FleetNights) -> list[dict[str, int]]:
    """Return how many hosts came out how, night by night."""
    width = len(fleet.nights)
    by_night = []
    for night in range(width):
        column = fleet.grid[night::width]
        by_night.append({name: column.count(code) for name, code in CODES.items()})
    return by_night


def _areas(counts: Sequence[dict[str, int]], most: int) -> Iterator[tuple[str, str]]:
    """Yield outcome and path of the hosts that were not well, piled up, the worst at the bottom."""
    scale = CHART_HEIGHT / max(1, most)
    for at, outcome in enumerate(UNWELL):
        pieces = []
        for night, amounts in enumerate(counts):
            below = sum(amounts[name] for name in UNWELL[:at]) * scale
            height = amounts[outcome] * scale
            if height:
                pieces.append(f"M{night} {CHART_HEIGHT - below:.2f}h1v-{height:.2f}h-1z")
        if pieces:
            yield outcome, "".join(pieces)


def _measured(counts: Sequence[dict[str, int]], hosts: int) -> str:
    """Return the path of the hosts that were measured, as a share of all."""
    shares = [CHART_HEIGHT * sum(amounts.values()) / max(1, hosts) for amounts in counts]
    steps = "".join(f"V{CHART_HEIGHT - share:.1f}h1" for share in shares)
    return f"M0 {CHART_HEIGHT}{steps}V{CHART_HEIGHT}z"


def _nights(fleet: FleetNights, counts: Sequence[dict[str, int]]) -> Iterator[NightView]:
    for place, (amounts, run) in enumerate(zip(counts, fleet.runs, strict=True)):
        if run:
            words = ", ".join(
                f"{amounts[name]} {OUTCOME_WORDS[name]}" for name in OUTCOMES if amounts[name]
            )
            day = _day(fleet.nights[place])
            yield NightView(place, _report(run), f"{day}: {words}")


def _marks(nights: Sequence[date], most: int) -> Iterator[tuple[str, str]]:
    """Yield the marks of a time axis: where, in percent of its width, and the month or day.

    So many at ``most`` have room beside each other, and so has the last beside the end.
    """
    marks = [n for n, night in enumerate(nights) if night.day == 1] if len(nights) > 45 else []
    step = max(1, len(nights) // 5)
    marks = marks or list(range(0, len(nights), step))
    every = max(1, -(-len(marks) // most))
    for at in marks[::every]:
        if at and (len(nights) - at) * most < len(nights):
            continue
        night = nights[at]
        text = f"{night:%Y-%m}" if len(nights) > 45 else f"{night:%m-%d}"
        yield f"{100 * at / len(nights):.2f}", text


def _report(run: str) -> str:
    return f"{quote(run, safe='', errors='replace')}/report.html"


def _day(day: date) -> str:
    return day.isoformat()


def _map(fleet: FleetNights, hosts: Sequence[FleetHost], colors: Sequence[str]) -> str:
    """Return the map as an address of a PNG: a line for each host, in the order of the table."""
    lines = [fleet.row(host) for host in hosts] or [b"\x00"]
    png = _png(lines, colors)
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _png(lines: Sequence[bytes], colors: Sequence[str]) -> bytes:
    """Return a PNG with a palette, a byte for each pixel (W3C PNG, third edition, section 11)."""
    rgb = b"".join(bytes.fromhex(color[1:7]) for color in colors)
    alpha = bytes(int(color[7:] or "ff", 16) for color in colors)
    header = struct.pack(">IIBBBBB", len(lines[0]), len(lines), 8, 3, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\x00" + row for row in lines), 9)
    chunks = (
        (b"IHDR", header),
        (b"PLTE", rgb),
        (b"tRNS", alpha),
        (b"IDAT", pixels),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
