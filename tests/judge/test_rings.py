"""Rings of NVLinks."""

from __future__ import annotations

import pytest

from hwcheck.judge.prediction import rings


@pytest.mark.parametrize(
    ("gpus", "links", "expected"),
    [
        (2, {(0, 1): 4}, 4),
        (2, {}, 0),
        (3, {(0, 1): 1, (1, 2): 2, (0, 2): 1}, 2),
        (4, {(0, 1): 4, (2, 3): 4}, 0),  # two bridged pairs: no ring passes all
        (4, {(a, b): 4 for a in range(4) for b in range(a + 1, 4)}, 12),
        (4, {(0, 1): 1, (1, 2): 1, (2, 3): 1}, 0),  # a chain
        (9, {(a, b): 1 for a in range(9) for b in range(a + 1, 9)}, 0),
        (1, {}, 0),
    ],
)
def test_directed_rings(gpus: int, links: dict[tuple[int, int], int], expected: int) -> None:
    assert rings(gpus, links) == expected


def test_one_lost_link_costs_its_rings() -> None:
    mesh = {(a, b): 4 for a in range(4) for b in range(a + 1, 4)}
    assert rings(4, mesh | {(0, 1): 3}) == 10


def test_the_search_ends_on_a_mesh_with_many_rings() -> None:
    mesh = {(a, b): 3 for a in range(8) for b in range(a + 1, 8)}
    assert 2 <= rings(8, mesh) <= 20
