"""Fan out: visit many hosts at once; one host can neither hold up nor spoil another."""

from __future__ import annotations

import gc
import queue
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from hwcheck.connect.connector import Connector
from hwcheck.connect.payload import Payload
from hwcheck.connect.visit import Listener, Visit
from hwcheck.contract.reasons import CRASHED, NONE, Reason
from hwcheck.contract.wire import Request
from hwcheck.inventory.inventory import Host
from hwcheck.results.files import DiskError
from hwcheck.results.run_folder import INTERRUPTED, UNDER_WAY, HostAnswer, RunFolder, utc_now

NOBODY: Mapping[str, Reason] = MappingProxyType({})
STOP_S = 5.0
LOOK_S = 0.2
KEEP_S = 2.0
"""How old the file of a host under way may be. Results that come together cost one write, a short
visit costs only its last, and one that took longer than this is on disk when it arrives."""


@dataclass(frozen=True)
class VisitEvent:
    """For a live display. ``kind`` is started, progress or finished.

    ``text`` is what the host works on, or the reason of its ``state`` when it has finished.
    """

    host: str
    kind: str
    text: str = ""
    state: str = ""


def fan_out(
    hosts: Sequence[Host],
    requests: Mapping[str, Request],
    payload: Payload,
    folder: RunFolder,
    connector: Connector,
    *,
    forks: int,
    progress: Callable[[VisitEvent], None],
    given_up: Mapping[str, Reason] = NOBODY,
) -> None:
    """Visit every host, ``forks`` at a time, and write each record as it arrives.

    ``requests`` are by host name. The connector has been prepared with these hosts; its stop event
    ends the visits that are under way and leaves out the others. ``progress`` is called from
    several threads, one call at a time. ``given_up`` may grow meanwhile: the visit to a host that
    is in it is ended, or does not begin, for that reason. Returns when all is written; what
    ``progress`` raises, and the DiskError of a folder on a full disk, stops the run and is raised
    from here.
    """
    _FanOut(requests, payload, folder, connector, progress, given_up).run(hosts, forks)


class _FanOut:
    def __init__(
        self,
        requests: Mapping[str, Request],
        payload: Payload,
        folder: RunFolder,
        connector: Connector,
        progress: Callable[[VisitEvent], None],
        given_up: Mapping[str, Reason],
    ) -> None:
        self._requests = requests
        self._payload = payload
        self._folder = folder
        self._connector = connector
        self._stop = connector.supervisor.stop
        self._progress = progress
        self._given_up = given_up
        self._lock = threading.Lock()
        self._running: dict[str, float] = {}
        self._last: dict[str, HostAnswer] = {}
        self._unwritten: set[str] = set()
        self._kept: dict[str, float] = {}
        self._failure: Exception | None = None

    def run(self, hosts: Sequence[Host], forks: int) -> None:
        waiting: queue.SimpleQueue[Host | None] = queue.SimpleQueue()
        for host in hosts:
            waiting.put(host)
        # Daemons: a visit that hangs in name resolution must not keep the command from ending.
        threads = [
            threading.Thread(target=self._work, args=(waiting,), daemon=True)
            for _ in range(min(forks, len(hosts)))
        ]
        # What is loaded by now stays: the collector need not look through it host by host.
        gc.freeze()
        for thread in threads:
            waiting.put(None)
            thread.start()
        try:
            self._wait(threads)
        finally:
            gc.unfreeze()
            self._connector.close()
        if self._failure is not None:
            raise self._failure

    def _wait(self, threads: Sequence[threading.Thread]) -> None:
        stopped_at = 0.0
        for thread in threads:
            while thread.is_alive():
                thread.join(LOOK_S)
                if self._failure is None:
                    self._guarded(self._write_unwritten)
                if self._stop.is_set():
                    stopped_at = stopped_at or time.monotonic()
                    if time.monotonic() - stopped_at > STOP_S:
                        self._abandon()
                        return

    def _write_unwritten(self) -> None:
        with self._lock:
            self._unwritten &= self._running.keys()
            for host in tuple(self._unwritten):
                self._keep(host)

    def _keep(self, host: str) -> None:
        """Write what is known of a host under way, unless its file is fresh."""
        now = time.monotonic()
        if now - self._kept[host] < KEEP_S:
            self._unwritten.add(host)
            return
        self._folder.write_host(self._last[host])
        self._unwritten.discard(host)
        self._kept[host] = now

    def _abandon(self) -> None:
        with self._lock:
            for host, started in sorted(self._running.items()):
                took = time.monotonic() - started
                record = replace(self._last[host], reason=INTERRUPTED, duration_s=took)
                if self._failure is None:
                    self._finish(record)
            self._running.clear()

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do something of the run itself; when it fails, the run stops."""
        try:
            work()
        except Exception as error:
            self._failure = self._failure or error
            self._stop.set()

    def _work(self, waiting: queue.SimpleQueue[Host | None]) -> None:
        while not self._stop.is_set():
            host = waiting.get()
            if host is None:
                return
            self._guarded(partial(self._visit, host))

    def _visit(self, host: Host) -> None:
        with self._lock:
            self._running[host.name] = self._kept[host.name] = time.monotonic()
            # Written soon: if hwcheck is killed, this host is known to have been under way.
            self._last[host.name] = HostAnswer(host.name, "lost", UNDER_WAY, "", utc_now())
            self._unwritten.add(host.name)
            self._progress(VisitEvent(host.name, "started"))
        try:
            record = Visit(
                host,
                self._requests[host.name],
                self._payload,
                self._connector,
                self._listener(host.name),
            ).run()
        except DiskError:
            raise  # on the way of the host's log: it stops the run
        except Exception as error:
            # Ours, not the host's: it must still cost this host only.
            self._folder.append_log(host.name, traceback.format_exc())
            record = HostAnswer(
                host.name, "lost", Reason(CRASHED, f"unforeseen: {error!r}"[:1000]), "run"
            )
        with self._lock:
            if self._running.pop(host.name, None) is not None:
                self._finish(record)
                self._last.pop(host.name, None)

    def _listener(self, name: str) -> Listener:
        def record(so_far: HostAnswer) -> None:
            with self._lock:
                if name in self._running:
                    self._last[name] = so_far
                    self._keep(name)

        def say(text: str) -> None:
            with self._lock:
                if name in self._running:
                    self._progress(VisitEvent(name, "progress", text))

        def keep(series: dict[str, Any]) -> None:
            with self._lock:
                if name in self._running:
                    self._folder.write_series(name, series)

        return Listener(
            *(record, lambda text: self._folder.append_log(name, text), say, keep),
            given_up=lambda: self._given_up.get(name, NONE),
        )

    def _finish(self, record: HostAnswer) -> None:
        self._folder.write_host(record)
        text = f"{record.phase}: {record.reason}" if record.phase else record.reason.text
        self._progress(VisitEvent(record.host, "finished", text, record.state))
