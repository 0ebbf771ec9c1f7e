"""Members that answer order by order, as hosts do: what is blamed comes from their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hwcheck.contract.reasons import Reason
from hwcheck.results.multi_host import MultiHostRun
from hwcheck.run.multi_host import orders
from hwcheck.run.multi_host.orders import Ready, Sizing
from tests.run.multi_host.test_orders import answer

Say = Callable[[str, Mapping[str, Any], tuple[str, ...]], dict[str, Any]]
"""What a host answers to its order in a run of these hosts."""


def well(order: Mapping[str, Any]) -> dict[str, Any]:
    """An answer of a healthy host: 20 GB/s."""
    sizes = [{"size_bytes": s, "times_us": [s / 20e3] * 5, "wrong": 0} for s in order["sizes"]]
    return answer(id=order["id"], sizes=sizes)


def hung(calls: int, process: str = "S", rank: int = 0) -> dict[str, Any]:
    stood = {"rank": rank, "process": process, "calls": calls, "done": False}
    return answer(state="hang", sizes=[], reason="killed", ranks=[stood])


class AnsweringMembers:
    """Implements what ``Session`` uses of ``Members``; ``asked`` are the orders by host."""

    def __init__(self, ready: Mapping[str, Ready], say: Say) -> None:
        self.ready = dict(ready)
        self.absent: dict[str, Reason] = {}
        self.stopped = False
        self.asked: list[tuple[str, dict[str, dict[str, Any]]]] = []
        self._say = say

    @property
    def present(self) -> tuple[str, ...]:
        return tuple(name for name in self.ready if name not in self.absent)

    def run(
        self,
        why: str,
        round_: int,
        groups: Sequence[Sequence[str]],
        sizes: Sequence[int],
        sizing: Sizing,
        device: int | None = None,
    ) -> list[MultiHostRun]:
        made = []
        for group in groups:
            given = orders.orders(len(self.asked) + 1, group, self.ready, sizes, sizing, device)
            self.asked.append((why, given))
            answers = {host: self._say(host, order, tuple(group)) for host, order in given.items()}
            made.append(orders.merged(why, round_, given, answers, {}))
        return made
