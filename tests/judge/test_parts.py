"""What was ordered against what is there: line by line, and never a pass by silence."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.contract.reasons import NO_PERMISSION, NONE, Reason
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.judge.parts import judge_parts
from hwcheck.judge.records import Finding
from tests import factories
from tests.judge.nodes import host_case

GPUS = {f"gpu{n}": {"part_model": "NVIDIA H200", "part_serial": f"16500{n}"} for n in range(8)}
THERE = {
    "chassis": {"part_model": "SYS-821GE", "part_serial": "C821-7"},
    "bios": {"part_model": "SYS-821GE", "part_firmware": "2.1"},
    "nic mlx5_0": {"part_model": "CX7", "card_firmware": "28.39.2048", "part_serial": "MT1"},
    "nvme0": {"part_model": "MZQL2"},
    "rack": {"part_serial": "1821624190123", "part_place": "slot 22, tray 14, host 1"},
    **GPUS,
}
ENDS = {"port mlx5_0/1": {"neighbor": "leaf1 23"}, "port mlx5_1/1": {"neighbor": "leaf2 23"}}


def answer(check: str, parts: dict[str, dict[str, str]], state: str = "done") -> CheckResult:
    samples = [Sample(m, v, "", part) for part, of in parts.items() for m, v in of.items()]
    return CheckResult(
        check, state, NONE if state == "done" else Reason(NO_PERMISSION, "no root"), tuple(samples)
    )


def judged(*rows: dict[str, Any], state: str = "done") -> list[Finding]:
    answers = (answer("parts", THERE, state), answer("cabling", ENDS, state))
    record = factories.record("n1", answers)
    return list(judge_parts(host_case(record, parts=list(rows))))


@pytest.mark.parametrize(
    ("row", "outcome", "words"),
    [
        ({"part": "chassis", "serial": "C821-7"}, "pass", ""),
        ({"part": "chassis", "serial": "c821-7"}, "pass", ""),
        ({"part": "chassis", "serial": "C821-8"}, "fail", "chassis has serial C821-7"),
        ({"part": "gpu", "count": 8, "model": "NVIDIA H200"}, "pass", ""),
        ({"part": "gpu", "count": 4, "model": "NVIDIA H200"}, "fail", "8 are there, 4 were"),
        ({"part": "gpu", "count": 8, "model": "NVIDIA H100"}, "fail", "0 of 8: gpu0 has model"),
        ({"part": "gpu", "serial": "165003"}, "pass", ""),
        ({"part": "gpu3", "serial": "165004"}, "fail", "gpu3 has serial 165003"),
        ({"part": "mlx5_0", "firmware": "28.39.2048"}, "pass", ""),
        ({"part": "nic", "count": 8}, "fail", "1 of 8"),
        ({"part": "bios", "firmware": "2.3"}, "fail", "bios has firmware 2.1"),
        ({"part": "nvme", "serial": "S64G"}, "inconclusive", "does not tell serial of nvme0"),
        ({"part": "psu", "count": 6}, "inconclusive", "does not tell that of the part"),
        ({"part": "nvswitch", "count": 4}, "fail", "no nvswitch is there"),
        ({"part": "rack", "serial": "1821624190123"}, "pass", ""),
        ({"part": "rack", "place": "slot 22, tray 14, host 1"}, "pass", ""),
        ({"part": "rack", "place": "slot 21, tray 13, host 1"}, "fail", "rack has place slot 22"),
        ({"part": "mlx5_0/1", "neighbor": "leaf1 23"}, "pass", ""),
        ({"part": "mlx5_0/1", "neighbor": "leaf2 23"}, "fail", "has neighbor leaf1 23"),
        ({"part": "mlx5_9/1", "neighbor": "leaf2 23"}, "fail", "no mlx5_9/1 is there"),
    ],
)
def test_each_line_of_an_order(row: dict[str, Any], outcome: str, words: str) -> None:
    (finding,) = judged(row)
    assert (finding.outcome, finding.subject) == (outcome, row["part"])
    assert words in finding.reason.text
    assert finding.source == "the inventory's hwcheck_parts"
    assert finding.check == ("cabling" if "neighbor" in row else "parts")


def test_a_part_that_was_not_ordered_is_named_and_the_ordered_ones_are_not() -> None:
    rows = [{"part": "gpu", "serial": f"16500{n}"} for n in (0, 1, 2, 4, 5, 6, 7, 9)]
    wrong = [each for each in judged(*rows) if each.outcome != "pass"]
    assert [each.reason.text for each in wrong] == ["gpu3 has serial 165003"]


def test_what_could_not_be_read_is_inconclusive_and_what_was_read_counts() -> None:
    found = judged(
        {"part": "chassis", "serial": "C821-7"},
        {"part": "psu", "count": 6},
        {"part": "mlx5_5/1", "neighbor": "leaf1 9"},
        state="could_not_measure",
    )
    assert [each.outcome for each in found] == ["pass", "inconclusive", "inconclusive"]
    assert "no root" in found[1].reason.text


def test_without_an_order_nothing_is_said() -> None:
    assert judged() == []
