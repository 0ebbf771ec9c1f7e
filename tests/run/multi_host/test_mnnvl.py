"""Runs within an NVLink domain are repeated without NVLink between hosts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.report.multi_host import multi_host_view
from hwcheck.results.multi_host import MNNVL_OFF
from hwcheck.run.multi_host.orders import Ready
from tests.run.multi_host.answering import well
from tests.run.multi_host.test_orders import answer
from tests.run.multi_host.test_second_look import session

TRAY = Ready("10.0.0.1", 5, "eth0", 4, nvlink_domain="4d0c clique 2")
OTHER_RACK = replace(TRAY, nvlink_domain="77aa clique 2")
HGX = Ready("10.0.0.1", 5, "eth0", 8)
DISABLED = (("NCCL_MNNVL_ENABLE", "0", "/etc/profile.d/nccl.sh"),)


def say(host: str, order: Any, group: tuple[str, ...]) -> dict[str, Any]:
    return well(order)


def off_orders(members: Any) -> list[dict[str, Any]]:
    return [given for why, given in members.asked if why == MNNVL_OFF]


@pytest.mark.parametrize("scope", ["pairs", "all"])
def test_hosts_of_one_domain_run_once_without_it(tmp_path: Path, scope: str) -> None:
    ready = dict.fromkeys("abcd", TRAY)
    record, members = session(tmp_path, say, scope, ready=ready)
    (given,) = off_orders(members)
    assert len(given) == (2 if scope == "pairs" else 4)
    for order in given.values():
        assert (order["env"], order["leg"]) == ({"NCCL_MNNVL_ENABLE": "0"}, "default")
    others = [each for why, each in members.asked if why != MNNVL_OFF]
    assert not any(order["env"] for each in others for order in each.values())
    shown = [run.why for run in multi_host_view(record).runs]
    assert "without MNNVL, all_reduce" in shown
    (off,) = (run for run in record.runs if run.why == MNNVL_OFF)
    on = next(run for run in record.runs if run.why == scope and run.hosts == off.hosts)
    assert on.sizes[-1].size_bytes == off.sizes[-1].size_bytes


@pytest.mark.parametrize(
    "ready",
    [
        dict.fromkeys("abcd", HGX),
        {"a": TRAY, "b": OTHER_RACK},
        {"a": TRAY, "b": HGX},
    ],
    ids=["H200 and B200", "two racks", "one outside"],
)
@pytest.mark.parametrize("scope", ["pairs", "all"])
def test_hosts_without_a_domain_have_nothing_to_turn_off(
    tmp_path: Path, scope: str, ready: dict[str, Ready]
) -> None:
    _, members = session(tmp_path, say, scope, ready=ready)
    assert off_orders(members) == []


def test_of_two_racks_a_pair_within_one_is_taken(tmp_path: Path) -> None:
    ready = {"a": TRAY, "b": OTHER_RACK, "c": OTHER_RACK}
    _, members = session(tmp_path, say, "pairs", "all", ready=ready)
    assert [sorted(given) for given in off_orders(members)] == [["b", "c"]]


def test_where_the_site_sets_it_nothing_is_turned_off(tmp_path: Path) -> None:
    ready = {"a": TRAY, "b": replace(TRAY, settings=DISABLED)}
    record, members = session(tmp_path, say, "all", ready=ready)
    assert off_orders(members) == []
    assert any("NCCL_MNNVL_ENABLE is set" in note for note in record.notes)


def test_a_network_that_fails_accuses_nobody(tmp_path: Path) -> None:
    def without_network(host: str, order: Any, group: tuple[str, ...]) -> dict[str, Any]:
        if order["env"]:
            return answer(id=order["id"], state="failed", sizes=[], reason="no route to host")
        return well(order)

    record, _ = session(tmp_path, without_network, "all", ready=dict.fromkeys("abcd", TRAY))
    assert (record.suspects, record.unresolved) == ((), ())
    assert any(note.startswith("without MNNVL: failed") for note in record.notes)
