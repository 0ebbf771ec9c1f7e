"""Runs the assertions of many hosts at once: one process for each host that is at work.

pytest collects once and is forked; a worker takes one host after the other, and its reports travel
back as pytest's own JSON.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from hwcheck.exit_codes import INTERRUPTED

NUMBER_BYTES = 4
CHUNK_BYTES = 65536


class Workers:
    """Processes that run groups of items; ``leave`` is called in them when a group is done."""

    def __init__(
        self, groups: Mapping[str, Sequence[pytest.Item]], leave: Callable[[str], None]
    ) -> None:
        self._names = list(groups)
        self._groups = groups
        self._leave = leave
        self._rest: dict[int, bytes] = {}
        self._pids: list[int] = []

    def run(self, forks: int) -> Iterator[dict[str, Any]]:
        """Yield pytest's serialized reports as they come.

        A worker that dies leaves reports out; so does one whose caller stops asking: it is ended.
        """
        todo = self._todo()
        with selectors.DefaultSelector() as selector:
            try:
                for _ in range(min(forks, len(self._names))):
                    reader = self._start(todo)
                    self._rest[reader] = b""
                    selector.register(reader, selectors.EVENT_READ)
                os.close(todo)
                while self._rest:
                    for key, _ in selector.select():
                        yield from self._read(selector, key.fd)
            finally:
                self._end()

    def _todo(self) -> int:
        """Return a pipe from which workers take the numbers of groups, each of them once."""
        reader, writer = os.pipe()
        with os.fdopen(writer, "wb") as stream:
            os.set_blocking(writer, False)  # it holds 64 kB, which is 16,000 hosts
            for number in range(len(self._names)):
                stream.write(number.to_bytes(NUMBER_BYTES, "big"))
        return reader

    def _start(self, todo: int) -> int:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writer)
            self._pids.append(pid)
            return reader
        status = 1
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _capture_nothing(next(iter(self._groups.values()))[0].config)
            self._work(todo, writer)
            status = 0
        except KeyboardInterrupt:
            status = INTERRUPTED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)  # nothing of pytest's own end is a worker's to do

    def _work(self, todo: int, writer: int) -> None:
        with os.fdopen(writer, "w", encoding="ascii") as stream:
            while number := os.read(todo, NUMBER_BYTES):
                name = self._names[int.from_bytes(number, "big")]
                for reports in self._reports(self._groups[name]):
                    stream.writelines(json.dumps(report) + "\n" for report in reports)
                    stream.flush()
                self._leave(name)

    def _reports(self, items: Sequence[pytest.Item]) -> Iterator[list[dict[str, Any]]]:
        """Yield the reports of each item, which pytest makes when it has run: they go together."""
        for item, following in zip(items, [*items[1:], None], strict=True):
            config = item.config
            yield [
                config.hook.pytest_report_to_serializable(config=config, report=report)
                for report in runtestprotocol(item, log=False, nextitem=following)
            ]

    def _read(self, selector: selectors.BaseSelector, reader: int) -> Iterator[dict[str, Any]]:
        data = os.read(reader, CHUNK_BYTES)
        if not data:
            selector.unregister(reader)
            os.close(reader)
            del self._rest[reader]
            return
        *lines, self._rest[reader] = (self._rest[reader] + data).split(b"\n")
        for line in lines:
            report = json.loads(line)
            if isinstance(report["longrepr"], list):  # where a test was skipped: JSON has no tuples
                report["longrepr"] = tuple(report["longrepr"])
            yield report

    def _end(self) -> None:
        for reader in self._rest:
            os.close(reader)
        for pid in self._pids:
            if self._rest:  # not read to the end: what it still does is of no use
                os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
        self._rest.clear()
        self._pids.clear()


def _capture_nothing(config: pytest.Config) -> None:
    """Leave out pytest's capture: its file would be shared with all other workers."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)
        config.pluginmanager.unregister(capture)
