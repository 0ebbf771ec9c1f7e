"""The launcher process: imports torch once and forks the ranks of every leg from itself.

Started by ``launch`` as ``python -c <boot> <payload> <pid of the payload process>``, under the
interpreter that has torch. Orders come as JSON on stdin, messages leave as JSON lines on the
stdout that it was started with; whatever else prints goes to stderr.
"""

from __future__ import annotations

import sys
import time

from hwcheck.node import parent_death, torch_process
from hwcheck.node.collective.spec import Spec
from hwcheck.node.torch_process import Send


def main() -> None:
    """Serve one set of orders."""
    parent_death.die_with(int(sys.argv[2]))
    started = time.monotonic()
    send, out = torch_process.sender()
    spec = Spec.from_json(sys.stdin.read())
    problem = torch_problem(spec)
    if problem:
        send({"kind": "refused", "reason": problem})
        return
    send({"kind": "ready"})
    run(spec, send, started, out)


def run(spec: Spec, send: Send, started: float, out: int) -> None:
    """Run the legs; torch is imported and no device touched yet."""
    from hwcheck.node.collective import operation, serve

    chosen = [operation.load(name) for name in spec.collectives]
    serve.serve(spec, chosen, send, time.monotonic() - started, [out])


def torch_problem(spec: Spec) -> str:
    """Import torch; return why it cannot measure here, or an empty text."""
    return torch_process.torch_problem(lambda: _lack(spec))


def _lack(spec: Spec) -> str:
    from hwcheck.node.collective import runtime

    return runtime.missing_cuda() if spec.gpus else ""
