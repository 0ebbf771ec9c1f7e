"""The launcher process: imports torch once and forks the worker of every GPU from itself.

Started by ``launch`` under the interpreter that has torch. The orders are the only message on
stdin, whose end asks the workers to end; messages leave on stdout (``json_lines``).
"""

from __future__ import annotations

import gc
import os
import select
import tempfile
import time
from typing import Callable, List, Optional, Set

from hwcheck.node import json_lines, parent_death, torch_process
from hwcheck.node.collective.ranks import RankGroup, RankProcess, wait_until
from hwcheck.node.json_lines import Send
from hwcheck.node.load.shared import Shared
from hwcheck.node.load.spec import BurnSpec, worker_environment

EXIT_S = 2.0


def main() -> None:
    """Serve one set of orders."""
    parent_death.die_with(os.getppid())  # the payload, or a wrapper that it started
    send, out = torch_process.sender()
    stop_fd = os.dup(0)  # the workers' stdin is something else
    spec = BurnSpec.from_dict(json_lines.Reader(stop_fd).next() or {})
    problem = torch_process.torch_problem(lambda: lack(spec))
    if problem:
        send({"kind": "refused", "reason": problem})
        return
    send({"kind": "ready"})
    serve(spec, send, stop_fd, out)


def lack(spec: BurnSpec) -> str:
    """Import torch; return what it does not have for these orders."""
    from hwcheck.node import torch_runtime

    return torch_runtime.missing_cuda() if spec.gpus else ""


def serve(spec: BurnSpec, send: Send, stop_fd: int, out: int) -> None:
    """Fork the workers and pass on what they send, until all have ended."""
    go_fd, gate_fd = os.pipe()
    gc.freeze()  # a collection in a worker would go through all of torch, and copy its pages
    with tempfile.TemporaryFile() as lock, RankGroup() as group:
        shared = Shared(go_fd, stop_fd, lock.fileno())
        for worker in range(len(spec.subjects)):
            env = worker_environment(spec, worker, os.environ)
            group.fork(worker, _body(spec, worker, shared), env, 2, [out, gate_fd])
        Relay(group, spec.patience_s, send, gate_fd).until_all_ended(stop_fd)


def _body(spec: BurnSpec, worker: int, shared: Shared) -> Callable[[Send], None]:
    from hwcheck.node.load.burn import run_worker

    return lambda send: run_worker(spec, worker, shared, send)


class Relay:
    """Passes on what the workers send, gives the word to start, and kills who does not end."""

    def __init__(self, group: RankGroup, patience_s: float, send: Send, gate_fd: int) -> None:
        self._group = group
        self._patience_s = patience_s
        self._send = send
        self._gate_fd = gate_fd
        self._preparing: Set[int] = {worker.rank for worker in group.ranks}

    def until_all_ended(self, stop_fd: int) -> None:
        """Return when no worker is left; ``stop_fd`` ends when they are asked to end."""
        deadline: Optional[float] = None
        while self._speaking():
            fds = [worker.pipe_fd for worker in self._speaking()]
            if deadline is None:
                ready = select.select([stop_fd, *fds], [], [])[0]
            else:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    self._kill()
                    return
                ready = select.select(fds, [], [], left_s)[0]
            if stop_fd in ready:
                deadline = time.monotonic() + self._patience_s
            for worker in self._speaking():
                if worker.pipe_fd in ready:
                    self._pass_on(worker)

    def _speaking(self) -> List[RankProcess]:
        return [worker for worker in self._group.ranks if not worker.silent]

    def _pass_on(self, worker: RankProcess) -> None:
        for message in worker.read():
            worker.done = worker.done or message["kind"] in ("done", "error")
            self._send(dict(message, worker=worker.rank))
            if message["kind"] == "prepared":
                self._prepared(worker)
        if worker.silent:
            self._prepared(worker)
            if not worker.done:
                wait_until(worker.ended, EXIT_S)
                self._lost(worker, worker.ending() or "ended without a word")

    def _prepared(self, worker: RankProcess) -> None:
        if worker.rank in self._preparing:
            self._preparing.remove(worker.rank)
            if not self._preparing:
                os.close(self._gate_fd)

    def _kill(self) -> None:
        late = self._speaking()
        stuck = self._group.kill()
        for worker in late:
            how = "did not end within %g s and was killed" % self._patience_s
            if worker in stuck:
                how += "; it does not die, being stuck in the kernel"
            self._lost(worker, how)

    def _lost(self, worker: RankProcess, how: str) -> None:
        reason = "process %d %s" % (worker.pid, how)
        self._send({"kind": "lost", "reason": reason, "worker": worker.rank})
