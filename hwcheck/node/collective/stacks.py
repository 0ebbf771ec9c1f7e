"""Before a hung leg is killed: where each rank is, and what it would leave behind."""

from __future__ import annotations

import os
from typing import List, Set

from hwcheck.node.collective.log import TAIL_CHARACTERS, Log, last_lines
from hwcheck.node.collective.ranks import DUMP_SIGNAL, RankGroup, RankProcess, wait_until

OUTERMOST = " in <module>\n"  # faulthandler prints a stack from the inside out
PATIENCE_S = 1.0
SEGMENT_PREFIX = "/dev/shm/nccl-"  # noqa: S108 (NCCL's name, read from /proc/PID/maps)


def tail_with_stacks(group: RankGroup, log: Log) -> str:
    """Return the log's tail and every living rank's Python stack, at most 20,000 characters.

    Ranks are asked one after another, so that their stacks do not mix. One that is stuck in the
    kernel does not answer; it is waited for one second and noted.
    """
    before = log.size()
    stacks = [_stack(rank, log) for rank in group.alive()]
    text = "".join(stacks)[: TAIL_CHARACTERS * 3 // 4]
    return last_lines(log.read(0, before))[-(TAIL_CHARACTERS - len(text) - 1) :] + "\n" + text


def _stack(rank: RankProcess, log: Log) -> str:
    log.write("hwcheck: stack of rank %d\n" % rank.rank)
    start = log.size()
    os.kill(rank.pid, DUMP_SIGNAL)
    answered = wait_until(lambda: OUTERMOST in log.read(start), PATIENCE_S)
    title = "-- stack of rank %d" % rank.rank
    if not answered:
        title += ": no answer within %g s, it is stuck outside Python" % PATIENCE_S
    return title + "\n" + log.read(start)


def shared_segments(group: RankGroup) -> Set[str]:
    """Return NCCL's named shared memory that the living ranks have mapped."""
    found: Set[str] = set()
    for rank in group.alive():
        try:
            with open("/proc/%d/maps" % rank.pid, encoding="utf-8", errors="replace") as stream:
                paths = [line.split(None, 5)[-1].rstrip("\n") for line in stream]
        except OSError as error:
            os.write(2, ("cannot read the maps of rank %d: %s\n" % (rank.rank, error)).encode())
            continue
        found.update(path for path in paths if path.startswith(SEGMENT_PREFIX))
    return {path for path in found if os.path.exists(path)}


def remove(paths: Set[str]) -> List[str]:
    """Remove the files; return one line for each that stays."""
    failed = []
    for path in sorted(paths):
        try:
            os.unlink(path)
        except OSError as error:
            failed.append("%s is left over: %s" % (path, error.strerror))
    return failed
