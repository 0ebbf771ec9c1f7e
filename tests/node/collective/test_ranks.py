from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator

import pytest

from hwcheck.node.collective.log import Log
from hwcheck.node.collective.ranks import RankGroup, shortened, wait_until
from hwcheck.node.json_lines import Send


@pytest.fixture
def group() -> Iterator[RankGroup]:
    with RankGroup() as ranks:
        yield ranks


@pytest.fixture
def log() -> Iterator[Log]:
    with Log() as opened:
        yield opened


def ended(group: RankGroup) -> bool:
    return wait_until(lambda: not group.alive(), 10.0)


def test_a_rank_has_its_own_environment_and_prints_to_the_log(group: RankGroup, log: Log) -> None:
    def body(send: Send) -> None:
        os.system('echo "all of it: $(env | grep -c ^HWCHECK_) $HWCHECK_A"')
        send({"environment": sorted(os.environ)})

    group.fork(0, body, {"HWCHECK_A": "b", "PATH": os.environ["PATH"]}, log.fd, [])
    assert ended(group)
    assert group.ranks[0].read() == [{"environment": ["HWCHECK_A", "PATH"]}]
    assert log.read() == "all of it: 1 b\n"


def test_a_rank_keeps_no_pipe_of_the_launcher_or_of_another_rank(
    group: RankGroup, log: Log
) -> None:
    # 0, 1 and 2 are replaced in a rank; whatever else the test runner has open is inherited.
    inherited = sum(1 for fd in map(int, os.listdir("/proc/self/fd")) if fd > 2 and is_pipe(fd))
    ours, kept = os.pipe()

    def body(send: Send) -> None:
        fds = [int(name) for name in os.listdir("/proc/self/fd")]
        send({"pipes": sum(1 for fd in fds if is_pipe(fd))})

    for rank in range(2):
        group.fork(rank, body, {}, log.fd, [ours, kept])
    assert ended(group)
    assert [rank.read() for rank in group.ranks] == [[{"pipes": inherited + 1}]] * 2
    os.close(ours)
    os.close(kept)


def is_pipe(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:  # the listing's own descriptor
        return False


def test_an_exception_is_sent_in_one_line_with_its_time(group: RankGroup, log: Log) -> None:
    def body(send: Send) -> None:
        raise ValueError("two\nlines " + "x" * 1000)

    before = time.monotonic()
    group.fork(0, body, {}, log.fd, [])
    assert ended(group)
    (message,) = group.ranks[0].read()
    assert message["reason"].startswith("ValueError: two lines xxx")
    assert len(message["reason"]) <= 300
    assert message["reason"].endswith("xxx")
    assert before < message["at"] < time.monotonic()
    assert group.ranks[0].death() == "rank 0 exited with code 1"
    assert "Traceback" in log.read()


def test_a_killed_group_is_gone(group: RankGroup, log: Log) -> None:
    def body(send: Send) -> None:
        os.read(os.pipe()[0], 1)  # nobody will ever write

    for rank in range(2):
        group.fork(rank, body, {}, log.fd, [])
    assert len(group.alive()) == 2
    assert os.getpgid(group.ranks[1].pid) == group.ranks[0].pid != os.getpgrp()
    assert group.kill() == []
    assert [rank.death() for rank in group.ranks] == [
        "rank 0 was killed by SIGKILL",
        "rank 1 was killed by SIGKILL",
    ]


def test_waiting_ends_with_the_condition_or_with_patience() -> None:
    asked: list[int] = []
    assert wait_until(lambda: asked.append(1) is None and len(asked) > 2, 10.0)
    assert len(asked) == 3
    assert not wait_until(lambda: False, 0.05)


NCCL_ERROR = (
    "DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:33"
    "84, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.5 "
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device "
    "error. Last error: socketPollConnect: connect to 10.0.0.7<38271> returned Connection refused, "
    "exceeded error retry count after 35 attempts"
)


def test_of_a_long_nccl_error_the_cause_is_kept() -> None:
    said = shortened(NCCL_ERROR)
    assert len(said) <= 303
    assert said.startswith("DistBackendError: NCCL error in: /pytorch")
    assert (
        "...Last error: socketPollConnect: connect to 10.0.0.7<38271> returned Connection" in said
    )
    assert shortened("x" * 297) == "x" * 297
    early = "Last error: first" + "y" * 500 + " the end"
    assert shortened(early).endswith(" the end")
