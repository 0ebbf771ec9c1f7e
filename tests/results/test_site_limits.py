"""What a limit of a site's makes of a check's own, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck import checks
from hwcheck.contract.check import Check, Metric
from hwcheck.contract.limits import AtLeast, AtMost
from hwcheck.results.site_limits import applied, ignored, in_force, problem

REGISTRY = checks.load()
CAPPED = {"warn": 90.0, "source": "OPS-112"}
PERCENT = "power_cap.power_limit_percent"


def metric(check: Check, name: str) -> Metric:
    named = check.metric(name)
    assert named is not None
    return named


def test_a_border_takes_the_place_of_the_check_s_own_and_the_other_stays() -> None:
    changed = metric(applied(REGISTRY["power_cap"], {PERCENT: CAPPED}), "power_limit_percent")
    (limit,) = changed.limits
    assert isinstance(limit, AtLeast)
    assert (limit.warn, limit.fail, limit.confidence) == (90.0, 75.0, "inventory")
    assert limit.source.startswith(
        "OPS-112; the check's own fail 75: warn: NVML API Reference Guide"
    )
    assert [limit.judge(value, None) for value in (91.0, 89.0, 74.0)] == ["pass", "warn", "fail"]


def test_with_both_borders_only_the_site_s_word_counts() -> None:
    terms = {"warn": 60.0, "fail": 50.0, "source": "OPS-112"}
    (limit,) = metric(
        applied(REGISTRY["power_cap"], {PERCENT: terms}), "power_limit_percent"
    ).limits
    assert limit.source == "OPS-112"


def test_other_metrics_and_checks_stay_as_they_are() -> None:
    changed = applied(REGISTRY["power_cap"], {PERCENT: CAPPED})
    for own, other in zip(REGISTRY["power_cap"].metrics, changed.metrics, strict=True):
        assert (own is other) == (own.name != "power_limit_percent")
    assert applied(REGISTRY["driver"], {PERCENT: CAPPED}) is REGISTRY["driver"]


def test_a_share_stays_a_share() -> None:
    terms = {"hbm_bandwidth.copy_gbps": {"fail": 0.7, "source": "OPS-9"}}
    (limit,) = metric(applied(REGISTRY["hbm_bandwidth"], terms), "copy_gbps").limits
    assert isinstance(limit, AtLeast)
    assert (limit.fail, limit.warn) == (0.7, 0.9)
    assert limit.operand is not None


@pytest.mark.parametrize(
    ("key", "terms", "message"),
    [
        (PERCENT, {"warn": 90}, ""),
        (PERCENT, {"fail": 60, "warn": 70}, ""),
        (PERCENT, {"ignore": True}, ""),
        ("persistence_mode.persistence_mode", {"ignore": True}, ""),
        ("power_cap.power_limit_pct", {"warn": 1}, "did you mean power_cap.power_limit_percent?"),
        ("xyzzy", {"warn": 1}, "no such metric of a check; `hwcheck checks` lists"),
        (PERCENT, {"warn": 70}, "nothing would warn: fail 75 comes before warn 70"),
        ("temperature_idle.temperature_c", {"warn": 0.9}, "nothing would warn: fail 0.85"),
        ("temperature_idle.temperature_c", {"warn": 70}, "it is a share of temperature_slowdown_c"),
        ("persistence_mode.persistence_mode", {"warn": 1}, "only ignore: true is possible"),
        ("power_cap.power_limit_w", {"fail": 1}, "held against hwcheck_power_limit_w; declare"),
        ("disk_free.disk_size_gib", {"warn": 1}, "it is recorded and has no limit"),
        ("nvlink_state.switch_links_active", {"fail": 1}, "it has several limits"),
    ],
)
def test_what_cannot_be_set_is_named(key: str, terms: dict[str, Any], message: str) -> None:
    why = problem(key, {"source": "OPS-1", **terms}, REGISTRY)
    assert message in why
    assert bool(why) == bool(message)


def test_every_border_that_is_declared_can_be_set_to_itself() -> None:
    amount = 0
    for check in REGISTRY.values():
        for each in check.metrics:
            borders = [limit for limit in each.limits if isinstance(limit, (AtLeast, AtMost))]
            if len(borders) != 1 or "hwcheck_" in str(borders[0].operand):
                continue
            (limit,) = borders
            terms = {n: v for n, v in (("warn", limit.warn), ("fail", limit.fail)) if v is not None}
            why = problem(f"{check.id}.{each.name}", {**terms, "source": "OPS-1"}, REGISTRY)
            assert why == "" or "hwcheck_" in why
            amount += not why
    assert amount > 60


def test_what_is_in_force_is_folded_over_the_hosts() -> None:
    ignore = {PERCENT: {"ignore": True, "source": "OPS-3"}}
    hosts = [("n1", {PERCENT: CAPPED}), ("n2", {PERCENT: CAPPED}), ("n3", ignore), ("n4", {})]
    limits = list(in_force(hosts, REGISTRY["power_cap"]))
    assert limits == [
        ("power_limit_percent", "fail unless >= 75, warn unless >= 90", "OPS-112", ("n1", "n2")),
        ("power_limit_percent", "not judged", "OPS-3", ("n3",)),
    ]
    assert ignored(ignore) == {PERCENT: "OPS-3"}
    assert ignored({PERCENT: CAPPED}) == {}
