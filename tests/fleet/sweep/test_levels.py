"""What an inventory may say of the levels of its sweeps, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hwcheck.errors import UsageError
from hwcheck.fleet.sweep.levels import LEVELS, chosen_levels, read_levels
from hwcheck.inventory.inventory import Cluster, Host, read
from hwcheck.scheduler.records import Amount
from hwcheck.times import length_s, length_text


def cluster(*declared: Any) -> Cluster:
    hosts = [
        Host(f"n{n}", f"10.0.0.{n}", variables={"hwcheck_sweep": each} if each else {})
        for n, each in enumerate(declared)
    ]
    return Cluster(tuple(hosts), "cluster.yml")


def test_without_a_word_the_levels_are_ours() -> None:
    assert read_levels(cluster(None, None)) == LEVELS
    assert [level.name for level in chosen_levels(LEVELS, "")] == ["monthly", "weekly", "nightly"]
    assert [level.name for level in chosen_levels(LEVELS, "minutes")] == ["minutes"]


def test_an_inventory_changes_them(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yml"
    terms = {"nightly": {"budget": "90m", "max_unavailable": "{{ few }}"}, "monthly": False}
    group = {"hosts": {"n1": {}, "n2": {}}, "vars": {"hwcheck_sweep": terms, "few": "5%"}}
    file.write_text(yaml.safe_dump({"all": group}))
    levels = read_levels(read(str(file)))
    assert set(levels) == {"minutes", "nightly", "weekly"}
    assert (levels["nightly"].budget_s, levels["nightly"].every_s) == (5400.0, 86400.0)
    assert levels["nightly"].max_unavailable == Amount(share=0.05)
    with pytest.raises(UsageError, match="turns monthly off"):
        chosen_levels(levels, "monthly")


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (["nightly"], "levels by name are wanted"),
        ({"hourly": True}, "hourly: it is none of minutes, nightly, weekly, monthly"),
        ({"nightly": "2h"}, "nightly: a mapping is wanted"),
        ({"nightly": {"budgt": "2h"}}, "'budgt' is none of every, at_latest, budget"),
        ({"nightly": {"budget": "two hours"}}, "budget: 'two hours' is no time; it takes sec"),
        ({"nightly": {"budget": 0}}, "budget: '0' is no time"),
        ({"nightly": {"max_unavailable": "110%"}}, r"neither a count \(3\) nor a share"),
        ({"nightly": {"at_latest": "2h"}}, "at_latest is less than every"),
        (dict.fromkeys(LEVELS, False), "every level is turned off"),
    ],
)
def test_what_it_cannot_mean_is_one_line(declared: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        read_levels(cluster(declared))
    assert str(raised.value).startswith("cluster.yml: n0: hwcheck_sweep: ")
    assert "\n" not in str(raised.value)


def test_it_is_about_the_whole_inventory() -> None:
    with pytest.raises(UsageError, match="n1: hwcheck_sweep: unlike that of n0"):
        read_levels(cluster(None, {"weekly": False}))


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(UsageError, match="--level daily: it is one of minutes, nightly"):
        chosen_levels(LEVELS, "daily")


def test_lengths_and_amounts() -> None:
    assert [length_s(text) for text in ("90s", "1.5h", "2d", "4w")] == [90, 5400, 172800, 2419200]
    assert [length_text(s) for s in (90.0, 5400.0, 172800.0, 604800.0)] == [
        "90s",
        "90m",
        "2d",
        "1w",
    ]
    assert (Amount.parse("3"), Amount.parse("12.5%")) == (Amount(count=3), Amount(share=0.125))
    for text in ("", "0", "0%", "101%", "1.5", "-1", "3 hosts", "٣"):
        with pytest.raises(ValueError, match="neither"):
            Amount.parse(text)
    for text in ("", "0m", "0", "h", "-2h", "2 h", "1e3s"):
        with pytest.raises(ValueError, match="no time"):
            length_s(text)


def test_a_share_is_rounded_down_and_never_to_none_unsaid() -> None:
    nightly = LEVELS["nightly"]
    assert [nightly.at_once(hosts) for hosts in (1, 9, 19, 20, 200)] == [1, 1, 1, 2, 20]
    assert Amount(share=0.07).of(100) == 7
    assert Amount(count=50).of(12) == 12
    stated = read_levels(cluster({"nightly": {"max_unavailable": "2%"}}))["nightly"]
    with pytest.raises(UsageError, match=r"2% of 12 hosts is none; say a count, or 8\.4% or more"):
        stated.at_once(12)
