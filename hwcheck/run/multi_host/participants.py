"""All hosts of a run over several: opened together, asked at once, closed whatever happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import Any

from hwcheck.connect.connector import Connector
from hwcheck.connect.payload import Payload
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import Request
from hwcheck.inventory.inventory import Host
from hwcheck.results.multi_host import MultiHostRun
from hwcheck.results.run_folder import HostAnswer
from hwcheck.run.multi_host import orders
from hwcheck.run.multi_host.orders import Ready, Sizing
from hwcheck.run.multi_host.participant import Participant, ParticipantLostError

LEAVE_S = 30.0
Futures = Mapping[str, Future[dict[str, Any]]]


class RunStoppedError(Exception):
    """The run was stopped: what the hosts say from then on is about nothing but that."""


class Participants:
    """A context manager: the hosts are held from its beginning to its end.

    ``log`` gets what a host writes beside its answers. ``ready`` are the hosts that can take part;
    ``absent`` the others, and those that were lost later, each with the reason. ``work`` is what
    the sessions are for (``node.multi_host.order.WORKS``); with ``apart`` each host is by itself.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        requests: Mapping[str, Request],
        payload: Payload,
        connector: Connector,
        log: Callable[[str, str], None],
        work: str = "collectives",
        *,
        apart: bool = False,
    ) -> None:
        self.ready: dict[str, Ready] = {}
        self.absent: dict[str, Reason] = {}
        self._number = 0
        self._connector = connector
        self._participants = {
            host.name: Participant(
                host,
                replace(requests[host.name], checks=()),
                {
                    "interface": "lo" if apart else host.settings.interface,
                    "toward": _toward(host, () if apart else hosts),
                    "work": work,
                },
                payload,
                connector,
                lambda text, name=host.name: log(name, text),  # type: ignore[misc]
            )
            for host in hosts
        }

    def __enter__(self) -> Participants:
        for participant in self._participants.values():
            participant.enter()
        for name, participant in self._participants.items():
            try:
                self.ready[name] = participant.ready.result()
            except ParticipantLostError as lost:
                self.absent[name] = lost.reason
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for participant in self._participants.values():
            participant.leave()
        end = time.monotonic() + LEAVE_S
        for participant in self._participants.values():
            participant.join(max(0.0, end - time.monotonic()))
        self._connector.close()

    @property
    def stopped(self) -> bool:
        """Whether the run was stopped."""
        return self._connector.supervisor.stop.is_set()

    @property
    def present(self) -> tuple[str, ...]:
        """The hosts that can be asked."""
        return tuple(name for name in self.ready if name not in self.absent)

    def answers(self) -> dict[str, HostAnswer]:
        """Return what became of each visit that is over."""
        over = {name: participant.answer for name, participant in self._participants.items()}
        return {name: answer for name, answer in over.items() if answer is not None}

    def run(
        self,
        why: str,
        round_: int,
        host_sets: Sequence[Sequence[str]],
        sizes: Sequence[int],
        sizing: Sizing,
        device: int | None = None,
    ) -> list[MultiHostRun]:
        """Run these sets of hosts, which share none, at once; return what came of each.

        Raises RunStoppedError when the run is stopped meanwhile.
        """
        sent = []
        for hosts in host_sets:
            self._number += 1
            order_by_host = orders.orders(self._number, hosts, self.ready, sizes, sizing, device)
            sent.append((order_by_host, self._send(order_by_host)))
        runs = []
        for order_by_host, futures in sent:
            answers, lost = self._gather(futures)
            runs.append(orders.merged(why, round_, order_by_host, answers, lost))
        if self.stopped:
            raise RunStoppedError
        return runs

    def ask(
        self, order_by_host: Mapping[str, Mapping[str, Any]]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, Reason]]:
        """Return the answers to one set of orders by host, and why each other host gave none.

        Raises RunStoppedError when the run is stopped meanwhile.
        """
        answers, lost = self._gather(self._send(order_by_host))
        if self.stopped:
            raise RunStoppedError
        return answers, lost

    def _send(self, order_by_host: Mapping[str, Mapping[str, Any]]) -> Futures:
        return {name: self._participants[name].ask(order) for name, order in order_by_host.items()}

    def _gather(self, futures: Futures) -> tuple[dict[str, dict[str, Any]], dict[str, Reason]]:
        answers, lost = {}, {}
        for name, future in futures.items():
            try:
                answers[name] = future.result()
            except ParticipantLostError as error:
                lost[name] = self.absent[name] = error.reason
        return answers, lost


def _toward(host: Host, hosts: Sequence[Host]) -> str:
    return next((other.address for other in hosts if other is not host), "")
