"""What changed between two runs, host by host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hwcheck.contract.check import Check
from hwcheck.errors import UsageError
from hwcheck.history.asked import ALL, OF_NO_SIZE, AskedDifference, asked_differently, asked_in
from hwcheck.history.dataset import EXERCISE
from hwcheck.history.events import NAMED, renamed, stays
from hwcheck.history.views import History
from hwcheck.judge.units import COUNTER, UNITS
from hwcheck.text import binary_size, count, line, quantity

KINDS = ("option", "outcome", "name", "GPU", "version", "setting", "count", "figure")
"""What can have changed, in the order in which it is shown: first how the run was asked."""

LEAST_CHANGES = {unit.name: unit.least_change for unit in UNITS.values() if unit.least_change}
"""By unit: what has changed by less has not changed, however small its spread."""
RATIOS = tuple(unit.name for unit in UNITS.values() if unit.is_ratio)
COUNTS = tuple(unit.name for unit in UNITS.values() if unit.is_count)
COUNTED_AS_IT_HAPPENS = tuple(name for name, unit in UNITS.items() if unit.peers is COUNTER)
SPREADS = 3.0
"""What differs by more than so many spreads has changed: of a leg the inter-quartile range of its
iterations or what its passes lie apart, of what many hosts have the median absolute deviation of
their changes as a standard deviation (x 1.4826)."""
LEAST_FIGURES = 8
"""The changes of so many figures of one metric have a spread worth the name."""
OF_LARGEST_SIZE = "ends_with(a.metric, 'busbw_gbps') AND a.size_bytes IS NULL"
"""The figure of a leg without a size is that of its largest, without the spread that this has; and
another run's largest may be another size."""


@dataclass(frozen=True)
class Difference:
    """One thing that differs. ``before`` and ``after`` are words, ``share`` the change of a figure.

    ``subject`` is as in a sample; ``what`` is ``check.metric``, or the name of what differs.
    """

    host: str
    kind: str
    what: str
    subject: str
    before: str
    after: str
    share: float | None = None

    def text(self) -> str:
        """Say it in one line, without the host."""
        of = "" if self.subject in ("", "node") else f" of {line(self.subject, 60)}"
        by = "" if self.share is None else f" ({self.share:+.1%})"
        return f"{line(self.what, 80)}{of}: {self.before} -> {self.after}{by}"


@dataclass(frozen=True)
class Comparison:
    """A run against former ones: of each host that of ``before``.

    ``only_before`` and ``only_after`` are hosts without a run to compare with.
    """

    after: str
    before: dict[str, str]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    changes: tuple[Difference, ...]

    @property
    def same(self) -> tuple[str, ...]:
        """Hosts on which nothing changed; how the runs were asked is not on them."""
        changed = {change.host for change in self.changes if change.kind != "option"}
        return tuple(host for host in self.before if host not in changed)


@dataclass(frozen=True)
class _Former:
    """The run that a host is compared with, and what the host was called in it."""

    run: str
    called: str


def compare(history: History, before: str, after: str, checks: Mapping[str, Check]) -> Comparison:
    """Compare each host that is in both runs, by its GPUs where it was renamed.

    Raises UsageError where there is none.
    """
    parameters = renamed(stays(history))
    called = {
        run: dict(
            history.rows(
                f"WITH {NAMED} SELECT host, called FROM named WHERE run = $5 ORDER BY host",
                [*parameters, run],
            )
        )
        for run in (before, after)
    }
    both = {
        now: _Former(before, called[before][host])
        for host, now in called[after].items()
        if host in called[before]
    }
    if not both:
        raise UsageError(f"{line(before, 80)} and {line(after, 80)} have no host in common")
    only_before = [name for host, name in called[before].items() if host not in called[after]]
    only_after = [name for name in called[after].values() if name not in both]
    return _compared(history, after, both, only_before, only_after, checks)


def compare_last_green(history: History, after: str, checks: Mapping[str, Check]) -> Comparison:
    """Compare each host of a run with its own last green run before. Raises UsageError."""
    rows = history.rows(
        f"""
        WITH {NAMED}, this AS (SELECT host, called AS now, started, run FROM named WHERE run = $5)
        SELECT now, arg_max((h.run, h.called), (h.started, h.run)) FILTER (
          h.outcome IN ('pass', 'warn') AND (h.started, h.run) < (this.started, this.run))
        FROM named AS h JOIN this USING (host) GROUP BY now ORDER BY now
        """,
        [*renamed(stays(history)), after],
    )
    before = {host: _Former(*former) for host, former in rows if former}
    if not before:
        raise UsageError(f"no host of {line(after, 80)} has a green run before it")
    new = [host for host, former in rows if not former]
    return _compared(history, after, before, [], new, checks)


def _compared(
    history: History,
    after: str,
    before: Mapping[str, _Former],
    only_before: Sequence[str],
    only_after: Sequence[str],
    checks: Mapping[str, Check],
) -> Comparison:
    runs = {host: former.run for host, former in before.items()}
    of = [after, list(before), [former.called for former in before.values()], list(runs.values())]
    asked = _asked(history, after, runs)
    unlike = [
        (host, *depending)
        for host, differences in asked.items()
        for difference in differences
        for depending in difference.unlike(checks)
    ]
    changes = [
        *_of_hosts(history, of),
        *_of_gpus(history, of),
        *_of_samples(history, of, unlike, checks),
    ]
    changes += [
        Difference(host, "option", option.name, "node", option.before, option.after)
        for host, differences in asked.items()
        for option in differences
    ]
    changes += [
        Difference(host, "name", "name", "node", _word(former.called), _word(host))
        for host, former in before.items()
        if former.called != host
    ]
    changes.sort(key=lambda each: (KINDS.index(each.kind), each.what, each.subject, each.host))
    return Comparison(after, runs, tuple(only_before), tuple(only_after), tuple(changes))


def _asked(
    history: History, after: str, before: Mapping[str, str]
) -> dict[str, tuple[AskedDifference, ...]]:
    """Return for each host in which options its former run differs; ``before`` are these runs."""
    now = asked_in(history, after)
    by_run = {run: asked_differently(asked_in(history, run), now) for run in set(before.values())}
    return {host: by_run[run] for host, run in before.items()}


PAIRS = """
WITH pairs AS (SELECT unnest($2) AS host, unnest($3) AS called, unnest($4) AS former),
a AS (SELECT t.* FROM {table} AS t JOIN pairs USING (host) WHERE t.run = $1),
b AS MATERIALIZED (SELECT t.* REPLACE (pairs.host AS host)
      FROM {table} AS t JOIN pairs ON t.host = pairs.called AND t.run = former
      WHERE list_contains($4, t.run))
"""
"""Rows of the run and of those before it; $1 is the run, $2 the hosts, $3 what each was called in
the run $4 that it is held to."""


def _of_hosts(history: History, of: Sequence[Any]) -> list[Difference]:
    columns = {"outcome": "outcome", "kernel": "version", "driver": "version"}
    columns |= {"nccl": "version", "torch": "version"}
    both = ", ".join(f"b.{name}, a.{name}" for name in columns)
    changes = []
    for host, *values in history.rows(
        f"{PAIRS.format(table='hosts')} SELECT host, {both} FROM a JOIN b USING (host)", of
    ):
        for (name, kind), old, new in zip(columns.items(), values[::2], values[1::2], strict=True):
            if old != new:
                changes.append(Difference(host, kind, name, "node", _word(old), _word(new)))
    return changes


def _of_gpus(history: History, of: Sequence[Any]) -> list[Difference]:
    rows = history.rows(
        f"""{PAIRS.format(table="gpus")}
        SELECT coalesce(a.host, b.host), coalesce(a.slot, b.slot), b.gpu, a.gpu, b.vbios, a.vbios
        FROM a FULL JOIN b ON a.host = b.host AND a.slot = b.slot
        WHERE a.gpu IS DISTINCT FROM b.gpu OR a.vbios IS DISTINCT FROM b.vbios
        """,
        of,
    )
    changes = []
    for host, slot, gpu, new_gpu, vbios, new_vbios in rows:
        if gpu != new_gpu:
            changes.append(Difference(host, "GPU", "GPU", slot, _word(gpu), _word(new_gpu)))
        elif vbios != new_vbios:
            changes.append(
                Difference(host, "version", "VBIOS", slot, _word(vbios), _word(new_vbios))
            )
    return changes


def _not_compared(checks: Mapping[str, Check]) -> tuple[tuple[str, str], ...]:
    """Return the checks and metrics that differ between healthy nights, or are said elsewhere."""
    return tuple(
        (check.id, metric.name)
        for check in checks.values()
        for metric in check.metrics
        if metric.fact or (metric.varies and metric.varies.nights)
    )


UNLIKE = f"""EXISTS (
  SELECT 1 FROM unlike WHERE unlike.host = a.host AND unlike.check_id = a.check_id AND (
    (a.unit IN {(*LEAST_CHANGES, *COUNTED_AS_IT_HAPPENS)}
      AND (what <> '{OF_NO_SIZE}' OR a.size_bytes IS NULL))
    OR (a.unit = '' AND what = '{ALL}')))"""
"""What depends on an option that the runs differ in is no change of the node."""


def _of_samples(
    history: History,
    of: Sequence[Any],
    unlike: Sequence[tuple[str, str, str]],
    checks: Mapping[str, Check],
) -> list[Difference]:
    """Return what differs; of ``unlike`` hosts and checks not what depends on options."""
    least = ", ".join(f"'{unit}': {change}" for unit, change in LEAST_CHANGES.items())
    rows = history.rows(
        f"""{PAIRS.format(table="samples")},
        unlike AS (SELECT unnest($5) AS host, unnest($6) AS check_id, unnest($7) AS what),
        joined AS (
          SELECT a.host, a.check_id, a.metric, a.subject, a.size_bytes, a.unit,
            b.value AS old, a.value AS new, b.value_text AS old_text, a.value_text AS new_text,
            CASE WHEN a.unit IN {RATIOS} THEN a.value / nullif(b.value, 0) - 1
              WHEN a.unit IN {tuple(LEAST_CHANGES)} THEN a.value - b.value END AS change,
            greatest(coalesce(a.spread, 0), coalesce(b.spread, 0)) AS spread
          FROM a JOIN b ON a.host = b.host AND a.check_id = b.check_id AND a.metric = b.metric
            AND a.subject = b.subject AND a.size_bytes IS NOT DISTINCT FROM b.size_bytes
            AND a.unit = b.unit
          WHERE (a.check_id, a.metric) NOT IN {_not_compared(checks)} AND NOT ({OF_LARGEST_SIZE})
            AND NOT {EXERCISE.format(table="a")} AND NOT {EXERCISE.format(table="b")}
            AND NOT {UNLIKE}
        ), scatter AS (
          SELECT check_id, metric, size_bytes,
            CASE WHEN count(*) >= {LEAST_FIGURES} THEN 1.4826 * mad(change) ELSE 0 END AS common
          FROM joined WHERE unit IN {tuple(LEAST_CHANGES)} AND isfinite(change) GROUP BY ALL
        )
        SELECT host, joined.check_id, joined.metric, subject, joined.size_bytes, unit, old, new,
          old_text, new_text, change, count(joined.size_bytes) OVER of_leg AS sizes
        FROM joined LEFT JOIN scatter ON joined.check_id = scatter.check_id
          AND joined.metric = scatter.metric
          AND joined.size_bytes IS NOT DISTINCT FROM scatter.size_bytes
        WHERE (unit = '' AND (old IS DISTINCT FROM new OR old_text IS DISTINCT FROM new_text))
          OR (unit IN {COUNTS} AND old <> new) OR (unit IN {RATIOS} AND old = 0 AND new <> 0)
          OR abs(change) > greatest(MAP {{{least}}}[unit], {SPREADS} * spread, {SPREADS} * common)
        WINDOW of_leg AS (PARTITION BY host, joined.check_id, joined.metric, subject)
        QUALIFY row_number() OVER (of_leg ORDER BY joined.size_bytes DESC NULLS LAST) = 1
        """,
        [*of, *(list(column) for column in zip(*unlike, strict=True))]
        if unlike
        else [*of, [], [], []],
    )
    changes = []
    for (
        host,
        check,
        metric,
        subject,
        size,
        unit,
        old,
        new,
        old_text,
        new_text,
        change,
        sizes,
    ) in rows:
        at = "" if size is None else f" at {binary_size(size)}"
        if sizes > 1:  # the largest stands for a leg
            at += f" and {count(sizes - 1, 'smaller size')}"
        kind = "setting" if not unit else "count" if unit in COUNTS else "figure"
        changes.append(
            Difference(
                *(host, kind, f"{check}.{metric}{at}", subject),
                quantity(old if old_text is None else old_text, unit),
                quantity(new if new_text is None else new_text, unit),
                change if unit in RATIOS else None,
            )
        )
    return changes


def _word(value: str | None) -> str:
    return line(value, 80) if value else "none"
