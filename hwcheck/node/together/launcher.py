"""The launcher process: imports torch once and forks the ranks of every leg from itself.

Started by ``launch`` as ``python -c <boot> <payload>``, under the interpreter that has torch.
Orders come as a message on stdin (``json_lines``), messages leave on the stdout that it was started
with; whatever else prints goes to stderr. To the message ``driver`` the next one on stdin is the
answer: the ``problem`` (``hangs.Driver``).
"""

from __future__ import annotations

import gc
import os
from functools import partial

from hwcheck.contract.collective_spec import CollectiveSpec
from hwcheck.node import json_lines, parent_death, torch_process
from hwcheck.node.collective.hangs import Driver, Hangs
from hwcheck.node.json_lines import Send


def main() -> None:
    """Serve one set of orders."""
    parent_death.die_with(os.getppid())  # the payload, or a wrapper that it started
    send, out = torch_process.sender()
    payload = json_lines.Reader(0)
    spec = CollectiveSpec.from_dict(payload.next() or {})
    problem = torch_problem(spec)
    if problem:
        send({"kind": "refused", "reason": problem})
        return
    send({"kind": "ready"})
    run(spec, send, out, partial(_ask_driver, send, payload))


def run(spec: CollectiveSpec, send: Send, out: int, driver: Driver) -> None:
    """Run copies between GPUs, legs and NCCL's diagnostics; no device is touched yet."""
    from hwcheck.node.collective import operations, serve

    chosen = [operations.load(name) for name in spec.collectives]
    hangs = Hangs(driver)
    gc.freeze()  # a collection in a rank would go through all of torch, and copy its pages
    if spec.pairs:
        from hwcheck.node.pairs import serve as pairs

        pairs.serve(spec, send, [out], hangs)
    serve.serve(spec, chosen, send, [out], hangs)
    if spec.diagnostics:
        from hwcheck.node.collective import diagnostics

        diagnostics.serve(spec, send, [out], hangs)


def _ask_driver(send: Send, payload: json_lines.Reader) -> str:
    """Ask the payload, which has NVML: the driver may hang whoever asks it."""
    send({"kind": "driver"})
    answer = payload.next()
    return str(answer["problem"]) if answer else "the payload is gone"


def torch_problem(spec: CollectiveSpec) -> str:
    """Import torch; return why it cannot measure here, or an empty text."""
    return torch_process.torch_problem(lambda: _lack(spec))


def _lack(spec: CollectiveSpec) -> str:
    from hwcheck.node import torch_runtime
    from hwcheck.node.collective import runtime

    if not spec.gpus:
        return ""
    needs_nccl = bool(spec.collectives) or spec.diagnostics
    return runtime.missing_cuda() if needs_nccl else torch_runtime.missing_cuda()
