"""The launcher process: imports torch once and forks the ranks of every leg from itself.

Started by ``launch`` as ``python -c <boot> <payload> <pid of the payload process>``, under the
interpreter that has torch. Orders come as JSON on stdin, messages leave as JSON lines on the
stdout that it was started with; whatever else prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Callable, Dict

from hwcheck.node import parent_death
from hwcheck.node.collective.spec import Spec


def main() -> None:
    """Serve one set of orders."""
    parent_death.die_with(int(sys.argv[2]))
    started = time.monotonic()
    out = os.dup(1)
    os.dup2(2, 1)

    def send(message: Dict[str, Any]) -> None:
        data = json.dumps(message, allow_nan=False).encode("ascii") + b"\n"
        while data:
            data = data[os.write(out, data) :]

    spec = Spec.from_json(sys.stdin.read())
    problem = torch_problem(spec)
    if problem:
        send({"kind": "refused", "reason": problem})
        return
    send({"kind": "ready"})
    run(spec, send, started, out)


def run(spec: Spec, send: Callable[[Dict[str, Any]], None], started: float, out: int) -> None:
    """Run the legs; torch is imported and no device touched yet."""
    from hwcheck.node.collective import operation, serve

    chosen = operation.load(spec.collective)
    if spec.ranks > chosen.max_ranks:
        words = (spec.collective, chosen.max_ranks, spec.ranks)
        send({"kind": "refused", "reason": "%s verifies up to %d ranks, not %d" % words})
        return
    serve.serve(spec, chosen, send, time.monotonic() - started, [out])


def torch_problem(spec: Spec) -> str:
    """Import torch; return why it cannot measure here, or an empty text."""
    where = "under %s: set hwcheck_torch_python to an interpreter that has it" % sys.executable
    try:
        from hwcheck.node.collective import runtime
    except ImportError as error:
        if error.name in ("torch", "torch.distributed"):
            return "no torch " + where
        return "torch %s %s" % ("cannot be imported (%s)" % error, where)
    if spec.gpus and runtime.missing_cuda():
        return "%s %s" % (runtime.missing_cuda(), where)
    return ""
