"""A session holds the node as a load does."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwcheck.node import load_lock
from tests.node.live_nodes import live_node


def test_the_lock_is_held_for_the_whole_block(tmp_path: Path) -> None:
    node = live_node(tmp_path, {"gpus": []})
    with node.reserved() as gpus:
        assert gpus == 0
        with pytest.raises(load_lock.BusyError), load_lock.held():
            raise AssertionError("a second one holds the node")
    with load_lock.held(), pytest.raises(load_lock.BusyError), node.reserved():
        raise AssertionError("the node was taken from its holder")
