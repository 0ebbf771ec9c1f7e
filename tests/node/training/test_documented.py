"""``docs/training.md`` names every strategy, and from which torch on it runs."""

from __future__ import annotations

import re
from pathlib import Path

from hwcheck.node.training import strategies
from hwcheck.results.training import TOLERANCES

PAGE = (Path(__file__).parents[3] / "docs" / "training.md").read_text("utf-8")
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \| ([\d.]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def version(pair: tuple[int, int]) -> str:
    return f"{pair[0]}.{pair[1]}"


def test_the_table_is_the_registry() -> None:
    rows = {name: (label, nccl, gloo, more) for name, label, nccl, gloo, more in ROW.findall(PAGE)}
    assert tuple(rows) == strategies.NAMES
    for name, (*told, more) in rows.items():
        strategy = strategies.load(name)
        since_gloo = max(strategy.since, strategy.since_gloo)
        gloo = "needs CUDA" if strategy.cuda_only else version(since_gloo)
        assert told == [strategy.label, version(strategy.since), gloo]
        gap = strategy.gap and f"not from {version(strategy.gap[0])} to {version(strategy.gap[1])}"
        assert ("not from" in more) == bool(gap)
        assert not gap or gap in more


def test_the_tolerances_are_those_in_use() -> None:
    for kind, tolerance in TOLERANCES.items():
        name = kind.upper() if kind == "tf32" else kind
        mantissa, exponent = f"{tolerance:.0e}".split("e-")
        assert f"| {name} | {mantissa}e-{int(exponent)} |" in PAGE
