"""Ranks that carry out one order after another: forked, told each order and ended together."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from functools import partial
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple

from hwcheck.contract.reasons import Reason
from hwcheck.node import json_lines
from hwcheck.node.collective import stacks
from hwcheck.node.collective.log import Log
from hwcheck.node.collective.ranks import RankGroup, wait_until
from hwcheck.node.json_lines import Send

EXIT_S = 10.0
Body = Callable[[int, Send], None]
"""What a rank does: it is handed the fd of its orders, and what sends a message."""


class HeldRanks:
    """Ranks by number, body and environment; each reads its orders from a pipe of its own.

    ``close_fds`` are the launcher's own, which no rank may keep; where torch has ``recorded`` what
    ranks did, the end of those that hang shows it.
    """

    def __init__(
        self,
        ranks: Sequence[Tuple[int, Body, Mapping[str, str]]],
        close_fds: List[int],
        *,
        recorded: bool,
    ) -> None:
        self._recorded = recorded
        self._order_fds: List[int] = []
        with ExitStack() as stack:
            self.log = stack.enter_context(Log())
            self.group = stack.enter_context(RankGroup())
            for number, body, env in ranks:
                reader, writer = os.pipe()
                self._order_fds.append(writer)
                stack.callback(os.close, writer)
                shut = [*close_fds, *self._order_fds]
                self.group.fork(number, partial(body, reader), env, self.log.fd, shut)
                os.close(reader)
            self._open: Optional[ExitStack] = stack.pop_all()

    def tell(self, order: Mapping[str, Any]) -> None:
        """Write an order to every rank, or nothing: that is the end."""
        for place, fd in enumerate(self._order_fds):
            try:
                json_lines.write(fd, order)
            except BrokenPipeError:  # the watch sees it as well, and why
                number = self.group.ranks[place].rank
                sys.stderr.write("rank %d is not there any more\n" % number)

    def end(self, state: str, log_title: str = "") -> Tuple[str, List[Reason]]:
        """End the ranks, whose last order came to ``state``, and return what ``stacks.kill`` does.

        With a title the whole log goes to stderr, and from there into the host's log: what NCCL
        said about its transports is evidence.
        """
        if self._open is None:
            return "", []
        with self._open:
            self._open = None
            if state == "done":
                self.tell({})
                wait_until(lambda: not self.group.alive(), EXIT_S)
            tail, left_over = stacks.kill(self.group, self.log, state, recorded=self._recorded)
            if log_title:
                sys.stderr.write("-- %s\n%s" % (log_title, self.log.read()))
                sys.stderr.flush()
        return tail, left_over
