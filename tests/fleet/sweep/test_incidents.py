"""Faults that the driver reports again and again, though each night is clean."""

from __future__ import annotations

from datetime import timedelta

from hwcheck.fleet.sweep.incidents import OFTEN, FaultCount, incidents, repeated
from tests.fleet.sweep.builders import NOW

CLEAN = {"node": 0}
LOST = {"gpu3 xid 79": 1}


def nights(*logs: dict[str, int], host: str = "n1", apart: float = 4.0) -> list[FaultCount]:
    """What the log of a host held, night by night; the last is tonight."""
    return [
        FaultCount(host, NOW - timedelta(days=apart * (len(logs) - number)), subject, events)
        for number, log in enumerate(logs, 1)
        for subject, events in log.items()
    ]


def days(counted: list[FaultCount]) -> list[int]:
    return [(NOW - each.at).days for each in incidents(counted).get("n1", ())]


def test_a_fault_that_stays_in_the_log_is_one_incident() -> None:
    assert days(nights(CLEAN, LOST, LOST, LOST)) == [8]
    assert days(nights(CLEAN, CLEAN)) == []


def test_a_burst_over_many_gpus_is_one_incident() -> None:
    burst = {f"gpu{n} xid {code}": n + 1 for n in range(8) for code in (79, 154)}
    (incident,) = incidents(nights(CLEAN, burst))["n1"]
    assert incident.text() == "2026-03-01 gpu0 xid 154 and 15 more"


def test_a_log_that_holds_less_tells_nothing_new() -> None:
    assert days(nights({"gpu3 xid 94": 5}, {"gpu3 xid 94": 3}, {"gpu3 xid 94": 3})) == [8]
    assert days(nights(LOST, CLEAN, LOST, {"gpu3 xid 79": 2})) == [12, 4, 0]


def test_a_node_that_is_reset_each_time_is_named_with_its_nights() -> None:
    again = nights(LOST, CLEAN, LOST, CLEAN, LOST, CLEAN)
    assert repeated(again, NOW) == {
        "n1": "3 incidents in 4w: 2026-02-09 gpu3 xid 79, 2026-02-17 gpu3 xid 79, "
        "2026-02-25 gpu3 xid 79"
    }
    assert repeated(nights(LOST, CLEAN, LOST, CLEAN), NOW) == {}
    assert OFTEN == 3


def test_only_the_last_four_weeks_count_and_every_host_for_itself() -> None:
    rare = nights(*[LOST, CLEAN] * 3, apart=8.0)
    assert len(incidents(rare)["n1"]) == 3
    assert repeated(rare, NOW) == {}
    fleet = [each for n in range(9) for each in nights(CLEAN, LOST, host=f"n{n}")]
    assert repeated(fleet, NOW) == {}
