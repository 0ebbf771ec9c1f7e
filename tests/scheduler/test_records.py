"""How many nodes may be drained, and what a node is called for people."""

from __future__ import annotations

import pytest

from hwcheck.scheduler.records import BUSY, DRAINED, Amount, NodeState


@pytest.mark.parametrize(
    ("text", "nodes", "most"),
    [
        ("8", 100, 8),
        ("10%", 100, 10),
        ("10%", 19, 1),
        ("10%", 9, 0),
        ("100%", 7, 7),
        ("29%", 100, 29),
        ("7%", 100, 7),
        ("2.5%", 1000, 25),
        ("33%", 3, 0),
    ],
)
def test_a_share_is_rounded_down(text: str, nodes: int, most: int) -> None:
    at_most = Amount.parse(text)
    assert (at_most.of(nodes), str(at_most)) == (most, text)


@pytest.mark.parametrize("text", ["", "0", "-1", "0%", "101%", "ten", "10 %", "1e3", "%", "9" * 9])
def test_what_is_no_bound_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is neither a count \(3\) nor a share \(10%\)"):
        Amount.parse(text)


def test_a_node_in_one_line() -> None:
    jobs = tuple(str(number) for number in range(7))
    assert NodeState("gpu1", BUSY, True, jobs).line() == "busy: jobs 0, 1, 2, 3, 4 and 2 more"
    assert NodeState("gpu1", DRAINED, reason="hwcheck: x").line() == (
        "drained by somebody else: hwcheck: x"
    )
