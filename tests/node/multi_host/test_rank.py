from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hwcheck.node.multi_host.rank import Calls

pytest.importorskip("torch")

from hwcheck.node.collective.pattern import PERIOD
from hwcheck.node.multi_host.order import Order
from hwcheck.node.multi_host.rank import Large, measure


@pytest.mark.parametrize("ranks", [64, 65, 800, Large.MAX_RANKS])
def test_the_sum_of_many_ranks_is_exact(ranks: int) -> None:
    data = Large("float", ranks, "cpu")
    total = data.summand(0, 0, 3) * 0
    for rank in range(ranks):
        total += data.summand(rank, 0, 3)
    assert bool((total == data.total(0, 3)).all())
    assert float(data.total(0, 3).max()) < 2**24, "where fp32 holds every integer"


def test_a_summand_that_is_another_or_none_shows() -> None:
    data = Large("float", 100, "cpu")
    total, without = data.total(0, 0), data.total(0, 0) - data.summand(7, 0, 0)
    assert int((total != without).sum()) == PERIOD
    assert int((without + data.summand(6, 0, 0) != total).sum()) == PERIOD
    assert int((data.total(0, 1) != total).sum()) == PERIOD, "an earlier round's"


def test_more_ranks_than_that_would_not_be_exact() -> None:
    assert (Large.MAX_RANKS + 2) * 1.5 * PERIOD >= 2**24


LOGS = """
import ctypes, os, sys
from hwcheck.node.collective.log import Log
from hwcheck.node.collective.ranks import RankGroup
from hwcheck.node.multi_host import rank

def killed_as_nccl_logs(spec, number):
    for line in range(20):
        ctypes.CDLL(None).printf(b"h:1:1 [0] NCCL INFO Channel %02d/0 : via NET/IB/0\\n", line)
    os.kill(os.getpid(), 9)

rank.runtime.record_flight = killed_as_nccl_logs
from types import SimpleNamespace
order = SimpleNamespace(rank0=0, world=1)
with Log() as log, RankGroup() as group:
    group.fork(0, lambda send: rank.run_rank(order, None, 0, None, send), os.environ, log.fd, [])
    group.ranks[0].read()
    print(log.read().count("NCCL INFO"))
"""


def test_the_last_lines_of_a_rank_that_is_killed_are_there() -> None:
    """NCCL prints through the C library, whose stdout is a file here."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-c", LOGS],
        cwd=Path(__file__).parents[3],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "20\n"


@pytest.mark.parametrize(
    ("collective", "world", "dtype", "reason"),
    [
        ("all_reduce", Large.MAX_RANKS + 1, "float", "verifies up to 1365 ranks"),
        ("all_reduce", 64, "bfloat16", "verifies up to 63 ranks"),
        ("alltoall", 16, "bfloat16", "verifies up to 15 ranks"),
    ],
)
def test_more_ranks_than_a_type_can_verify_are_refused(
    collective: str, world: int, dtype: str, reason: str
) -> None:
    order = Order(1, collective, 0, world, (0,), ("h", 1), (1024,), 1.0, dtype=dtype)
    with pytest.raises(ValueError, match=reason):
        measure(order, SimpleNamespace(name="cpu"), 0, 1024, 0, lambda: None)


def test_what_a_child_counted_is_there_after_its_death() -> None:
    with Calls(3) as calls:
        pid = os.fork()
        if pid == 0:
            for _ in range(5):
                calls.begin(1)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
        calls.begin(2)
        assert [calls.of(index) for index in range(3)] == [0, 5, 1]
