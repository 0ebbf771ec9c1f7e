from __future__ import annotations

import pytest
from ClusterShell.NodeSet import NodeSet

from hwcheck.fold import MOST_SUBJECTS, fold, fold_subjects


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""),
        (["node01"], "node01"),
        (["node03", "node01", "node02"], "node[01-03]"),
        (["node01", "node01"], "node01"),
        (["gpu-a1.dc", "gpu-a2.dc", "login"], "gpu-a[1-2].dc,login"),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
        (["user@a", "b"], "b,user@a"),
    ],
)
def test_fold(names: list[str], folded: str) -> None:
    assert fold(names) == folded


@pytest.mark.parametrize("odd", ["a[1", "x!y", "x&y", "x%d", "a,b", "<script>", "@all", "n[1-3]"])
def test_a_name_that_is_no_node_set_is_joined_plainly(odd: str) -> None:
    folded = fold(["node1", odd, "node2"])
    assert odd in folded
    assert "node[1-2]" in folded


def test_what_is_shown_stands_for_exactly_the_names() -> None:
    names = [f"r{rack}n{node:02d}" for rack in range(3) for node in range(5) if rack != node]
    assert set(NodeSet(fold(names))) == set(names)


def test_zero_padding_is_kept_apart() -> None:
    folded = fold(["node1", "node01"])
    assert len(NodeSet(folded)) == 2


def test_of_many_names_that_a_node_made_up_a_part_is_folded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = [f"gpu{number}-gpu{number + 1}" for number in range(1000)]
    most = []
    fromlist = NodeSet.fromlist
    monkeypatch.setattr(
        NodeSet, "fromlist", lambda names, **kw: most.append(len(names)) or fromlist(names, **kw)
    )
    folded = fold_subjects(pairs)
    assert folded.endswith(f" and {1000 - MOST_SUBJECTS} more")
    assert max(most) == MOST_SUBJECTS
    assert fold_subjects(pairs[:3]) == fold(pairs[:3])
