"""The ranks of one leg: forked from the launcher, a process group of their own."""

from __future__ import annotations

import faulthandler
import math
import os
import select
import signal
import time
import traceback
from functools import partial
from typing import Callable, List, Mapping, Optional

from hwcheck.contract.reasons import GPU_EXCLUSIVE, NOT_OFFERED, RANK_FAILED
from hwcheck.node import json_lines, parent_death
from hwcheck.node.collective.log import BREAKS
from hwcheck.node.json_lines import Message, Send

LOOK_S = 0.01
DUMP_SIGNAL = signal.SIGUSR2
ASK_SIGNAL = signal.SIGUSR1  # see ``flight``; blocked, so that it ends nobody who does not listen
# Of a process with CUDA contexts on every GPU the driver takes seconds to clean up.
KILL_S = 20.0
BEGIN_CHARACTERS = 100
CAUSE_CHARACTERS = 197
LIBRARY_WORDS = {
    "busy or unavailable": GPU_EXCLUSIVE,  # cudaErrorDevicesUnavailable
    "support": NOT_OFFERED,  # gloo of older torches says so of what it cannot (torch 2.1)
    "scalar type": NOT_OFFERED,
}
"""What CUDA and gloo say where they have no code of their own for torch to pass on."""
CAUSE = "Last error:"  # what NCCL says last and most exactly (torch, NCCLUtils.hpp)


class RankProcess:
    """One forked rank as the launcher sees it: what it sent and how it ended."""

    def __init__(self, rank: int, pid: int, pipe_fd: int) -> None:
        self.rank = rank
        self.pid = pid
        self.pipe_fd = pipe_fd
        self.status: Optional[int] = None
        self.error = ""
        self.error_code = ""
        self.error_at = 0.0
        self.joined = False
        self.started = False
        self.done = False
        self._messages = json_lines.Reader(pipe_fd)

    @property
    def silent(self) -> bool:
        """Whether its pipe has ended."""
        return self._messages.ended

    def read(self) -> List[Message]:
        """Wait for messages and return those that came."""
        return self._messages.read()

    def ended(self) -> bool:
        """Whether the process is gone; collects its exit status."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def death(self) -> str:
        """Say how the rank ended; empty when it lives or ended well."""
        how = self.ending()
        return "rank %d %s" % (self.rank, how) if how else ""

    @property
    def aborted(self) -> bool:
        """Whether SIGABRT ended it: what torch's watchdog does where a partner is gone."""
        return bool(self.status) and os.WTERMSIG(self.status or 0) == signal.SIGABRT

    def ending(self) -> str:
        """Say how the process ended (``was killed by SIGKILL``); empty as for ``death``."""
        if not self.status:
            return ""
        if os.WIFSIGNALED(self.status):
            return "was killed by %s" % signal.Signals(os.WTERMSIG(self.status)).name
        return "exited with code %d" % os.WEXITSTATUS(self.status)


class RankGroup:
    """All ranks of one leg."""

    def __init__(self) -> None:
        self.ranks: List[RankProcess] = []

    def fork(
        self,
        rank: int,
        body: Callable[[Send], None],
        env: Mapping[str, str],
        log_fd: int,
        close_fds: List[int],
    ) -> None:
        """Start one rank that calls ``body`` in the environment ``env`` and prints to the log."""
        launcher = os.getpid()
        group = self.ranks[0].pid if self.ranks else 0
        read_fd, write_fd = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                parent_death.die_with(launcher)
                os.setpgid(0, group)
                for fd in [read_fd, *close_fds, *(other.pipe_fd for other in self.ranks)]:
                    os.close(fd)
                code = _child(body, env, log_fd, write_fd)
            finally:
                os._exit(code)
        os.close(write_fd)
        self.ranks.append(RankProcess(rank, pid, read_fd))
        try:
            os.setpgid(pid, group or pid)
        except OSError as error:  # it has ended already, which the watch will see
            traceback.print_exception(type(error), error, None)

    def alive(self) -> List[RankProcess]:
        """Return the ranks whose process is still there."""
        return [rank for rank in self.ranks if not rank.ended()]

    def kill(self, patience_s: float = KILL_S) -> List[RankProcess]:
        """Kill the group and return the ranks that do not die: they are stuck in the kernel."""
        alive = self.alive()
        if alive:  # while one is there, the group's number cannot belong to anyone else
            os.killpg(self.ranks[0].pid, signal.SIGKILL)
        wait_until(lambda: not self.alive(), patience_s)
        return self.alive()

    def __enter__(self) -> RankGroup:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill(0.0)
        for rank in self.ranks:
            os.close(rank.pipe_fd)


def wait_until(condition: Callable[[], bool], patience_s: float) -> bool:
    """Look every 10 ms until ``condition`` holds or the patience ends; return whether it holds.

    Looks are counted, not seconds: a machine that stood still meanwhile, as a virtual one may,
    held up those that are waited for as well.
    """
    for _ in range(math.ceil(patience_s / LOOK_S)):
        if condition():
            return True
        select.select([], [], [], LOOK_S)
    return condition()


def code_of(error: Exception) -> str:
    """Return the code of an error that ended a rank: its own, or by the words of its library."""
    code = getattr(error, "code", None)
    if isinstance(code, str):
        return code
    text = str(error)
    return next((code for words, code in LIBRARY_WORDS.items() if words in text), RANK_FAILED)


def shortened(text: str) -> str:
    """Return the begin of an error, and its cause as NCCL names it or else its end."""
    if len(text) <= BEGIN_CHARACTERS + CAUSE_CHARACTERS:
        return text
    cause = max(text.find(CAUSE), BEGIN_CHARACTERS)
    if cause == BEGIN_CHARACTERS:
        cause = len(text) - CAUSE_CHARACTERS
    return text[:BEGIN_CHARACTERS] + "..." + text[cause : cause + CAUSE_CHARACTERS]


def _child(body: Callable[[Send], None], env: Mapping[str, str], log_fd: int, write_fd: int) -> int:
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log_fd, 1), (log_fd, 2)):
        os.dup2(source, target)
    faulthandler.enable(2)
    faulthandler.register(DUMP_SIGNAL, 2, all_threads=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {ASK_SIGNAL})
    os.environ.clear()
    os.environ.update(env)

    send = partial(json_lines.write, write_fd)
    try:
        body(send)
    except Exception as error:
        text = "%s\n%s" % (BREAKS, traceback.format_exc())
        os.write(2, text.encode("utf-8", "replace"))
        text = "%s: %s" % (type(error).__name__, " ".join(str(error).split()))
        code = code_of(error)
        send({"kind": "error", "reason": shortened(text), "code": code, "at": time.monotonic()})
        return 1
    return 0
