"""Before a hung leg is killed: where each rank is, its last work, what it would leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import List, Set, Tuple

from hwcheck.contract.reasons import STUCK, Reason, of_errno
from hwcheck.node.collective import flight
from hwcheck.node.collective.log import TAIL_CHARACTERS, Log, last_lines
from hwcheck.node.collective.ranks import DUMP_SIGNAL, RankGroup, RankProcess, wait_until

OUTERMOST = " in <module>\n"  # faulthandler prints a stack from the inside out
RANKS_SHARE = 0.75  # of the tail, for what the ranks say; alike for each
PATIENCE_S = 1.0
HANGS = ("hang", "not_started")
SEGMENT_PREFIX = "/dev/shm/nccl-"  # noqa: S108 (NCCL's own name)


def kill(group: RankGroup, log: Log, state: str, *, recorded: bool) -> Tuple[str, List[Reason]]:
    """Kill the ranks; return the tail of their log and a reason for each thing that stays.

    There is a tail where they failed; where they hung it comes with their stacks.
    """
    segments = shared_segments(group)
    tail = tail_with_stacks(group, log, recorded) if state in HANGS else ""
    stuck = group.kill()
    left_over = remove(segments)
    for rank in stuck:
        words = "rank %d (pid %d) does not die: it is stuck in the kernel"
        left_over.append(Reason(STUCK, words % (rank.rank, rank.pid)))
    return log.tail() if state == "failed" else tail, left_over


def tail_with_stacks(group: RankGroup, log: Log, recorded: bool = False) -> str:
    """Return the log's tail and every living rank's Python stack, at most 20,000 characters.

    Where torch has ``recorded`` what the ranks did, their flight records stand before the stacks.
    Every rank has the same room; where it is small, the innermost frames of its main thread stay.

    Ranks are asked one after another, so that their stacks do not mix. One that is stuck in the
    kernel does not answer; it is waited for one second and noted.
    """
    before = log.size()
    stacks = [_stack(rank, log) for rank in group.alive()]
    room = int(TAIL_CHARACTERS * RANKS_SHARE / max(1, len(stacks)))
    text = flight.records(group, log, room // 3) if recorded else ""
    room -= room // 3 if recorded else 0
    text += "".join(stack if len(stack) <= room else stack[: room - 1] + "\n" for stack in stacks)
    return last_lines(log.read(0, before))[-(TAIL_CHARACTERS - len(text) - 1) :] + "\n" + text


def _stack(rank: RankProcess, log: Log) -> str:
    log.write("hwcheck: stack of rank %d\n" % rank.rank)
    start = log.size()
    os.kill(rank.pid, DUMP_SIGNAL)
    answered = wait_until(lambda: OUTERMOST in log.read(start), PATIENCE_S)
    title = "-- stack of rank %d" % rank.rank
    if not answered:
        title += ": no answer within %g s, it is stuck outside Python" % PATIENCE_S
    threads = sorted(log.read(start).split("\n\n"), key=lambda part: OUTERMOST[:-1] not in part)
    return title + "\n" + "\n\n".join(part.rstrip("\n") for part in threads) + "\n"


def shared_segments(group: RankGroup) -> Set[str]:
    """Return NCCL's named shared memory that the living ranks have mapped.

    A process of its own looks, because reading the maps of one that is stuck in the kernel can
    block; then nothing is known and nothing is removed.
    """
    maps = ["/proc/%d/maps" % rank.pid for rank in group.alive()]
    if not maps:
        return set()
    try:
        done = subprocess.run(["/bin/cat", *maps], stdout=subprocess.PIPE, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        sys.stderr.write("the maps of the ranks cannot be read: %s\n" % error)
        return set()
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    paths = {line.split(None, 5)[-1] for line in lines}
    return {path for path in paths if path.startswith(SEGMENT_PREFIX) and os.path.exists(path)}


def remove(paths: Set[str]) -> List[Reason]:
    """Remove the files; return a reason for each that stays."""
    failed = []
    for path in sorted(paths):
        try:
            os.unlink(path)
        except OSError as error:
            words = "%s is left over: %s" % (path, error.strerror)
            failed.append(Reason(of_errno(error.errno), words))
    return failed
