"""The order of a rollout, and where it stops."""

from __future__ import annotations

import pytest

from hwcheck.errors import UsageError
from hwcheck.exit_codes import combine
from hwcheck.provision.rollout import Batch, Stage, batches, roll_out

HOSTS = ["n1", "n2", "n3", "n4"]


@pytest.mark.parametrize(
    ("size", "canary", "wanted"),
    [
        (2, None, [("n1",), ("n2", "n3"), ("n4",)]),
        (8, "n3", [("n3",), ("n1", "n2", "n4")]),
        (1, None, [("n1",), ("n2",), ("n3",), ("n4",)]),
    ],
)
def test_one_host_goes_first(size: int, canary: str | None, wanted: list[tuple[str, ...]]) -> None:
    plan = batches(HOSTS, size, canary)
    assert [batch.hosts for batch in plan] == wanted
    assert [batch.name for batch in plan][:2] == ["canary", "batch1"]


def test_a_canary_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="--canary n9: no such host"):
        batches(HOSTS, 2, "n9")


@pytest.mark.parametrize(
    ("stage", "host", "code", "touched"),
    [
        ("provision", "n1", 1, ["n1"]),
        ("validate", "n1", 1, ["n1"]),
        ("validate", "n1", 3, ["n1"]),
        ("state", "n2", 3, ["n1", "n2", "n3"]),
        ("state", "nobody", 0, HOSTS),
    ],
)
def test_what_fails_stops_it_before_the_next_host_is_touched(
    stage: str, host: str, code: int, touched: list[str]
) -> None:
    seen: dict[str, list[str]] = {"provision": [], "state": [], "validate": []}

    def of(name: str) -> Stage:
        def run(batch: Batch) -> int:
            seen[name] += batch.hosts
            return code if name == stage and host in batch.hosts else 0

        return run

    steps = list(roll_out(batches(HOSTS, 2), {name: of(name) for name in seen}))
    outcomes = steps[-1]
    assert seen["provision"] == touched
    under_way = [each for step in steps for each in step if each.outcome == "under way"]
    begun = [each for each in under_way if not each.stages]
    assert [name for batch in begun for name in batch.hosts] == touched
    assert combine(code for each in outcomes for code in each.stages.values()) == code
    left = [name for each in outcomes if each.outcome == "untouched" for name in each.hosts]
    assert left == [name for name in HOSTS if name not in touched]
    if code:
        (stopped,) = [each for each in outcomes if each.outcome == "stopped"]
        assert list(stopped.stages.items())[-1] == (stage, code)
