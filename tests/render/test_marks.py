from __future__ import annotations

from hwcheck.render.marks import FEW_HOSTS, MOST_HOSTS, drawn_hosts
from tests.factories import hosts, judgement


def test_a_small_run_is_drawn_whole_and_a_large_one_where_something_is_wrong() -> None:
    none = judgement()
    assert drawn_hosts(hosts(FEW_HOSTS), none) == ("n00", "n01")
    assert drawn_hosts(hosts(FEW_HOSTS + 1), none) == ()
    found = judgement(
        ("n01", "thermal_spread", "warn", "gpu3"),
        ("n02", "power_under_load", "fail", "gpu1"),
        ("n00", "power_under_load", "pass", "gpu1"),
        ("n03", "power_cap", "fail", "gpu1"),
        ("n04", "all_reduce", "fail", "leg net"),
        ("n05", "power_under_load", "inconclusive", "node"),
    )
    assert drawn_hosts(hosts(9), found) == ("n02", "n04", "n01")


def test_a_fleet_that_fails_is_bounded() -> None:
    run = hosts(MOST_HOSTS + 3)
    all_fail = judgement(*((r.host, "cool_down", "fail", "gpu0") for r in run.records))
    assert len(drawn_hosts(run, all_fail)) == MOST_HOSTS
