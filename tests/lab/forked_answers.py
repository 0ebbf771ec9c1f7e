"""What one node after the other answers, each in a fork of one process that has all imports done.

Run as a program it reads orders, one JSON object a line, and writes an answer for each. An order
has ``request`` and ``environment``; with ``trace`` the answer is what each check reads, otherwise
the results of the checks asked for and the facts of the node. Its NVML and kernel are the
libraries that it was started with (``LD_LIBRARY_PATH``, ``LD_PRELOAD``).
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hwcheck import checks
from hwcheck.contract.wire import Request, to_dict
from hwcheck.node.host.reader import NodeHost
from hwcheck.node.live import LiveNode
from hwcheck.node.main import _facts, run_check
from hwcheck.node.nvml import nvml

TIME_LIMIT_S = 60
FACTS = "facts"
"""Stands among the checks for what the payload says of the node beside their answers."""


def main() -> None:
    registry = checks.load()
    # It is the torch of this Python, whatever the node: asked once, in place of 0.3 s each time.
    torch_stack = cache(NodeHost("/").torch_stack)
    torch_stack("")
    NodeHost.torch_stack = lambda _, python: torch_stack(python)  # type: ignore[method-assign]
    # Each fork ends after one answer: what it would look through for garbage, it would copy.
    gc.disable()
    for line in sys.stdin:
        order = json.loads(line)
        if order.get("trace"):
            print(json.dumps(_traced(order, registry)), flush=True)
        else:
            print(_in_a_fork(order, lambda node: _answer(node, registry)), flush=True)


def _answer(node: LiveNode, registry: Mapping[str, checks.Check]) -> Any:
    results = [to_dict(run_check(registry[name], node)) for name in node.request.checks]
    return {"results": results, FACTS: _facts(node)}


def _traced(order: Mapping[str, Any], registry: Mapping[str, checks.Check]) -> Any:
    """Return by check the keys of NVML and the files that it reads on a node of its own."""
    reads = {}
    with TemporaryDirectory(prefix="hwlab-") as name:
        keys = Path(name, "keys")
        for check in (FACTS, *order["request"]["checks"]):
            keys.write_text("")
            environment = {**order["environment"], "HWLAB_NVML_KEYS": str(keys)}
            ask = (
                _facts
                if check == FACTS
                else lambda node, check=check: run_check(registry[check], node)
            )
            files = _in_a_fork(
                {**order, "environment": environment}, lambda node, ask=ask: _opened(node, ask)
            )
            reads[check] = {
                "nvml": sorted(set(keys.read_text().split())),
                "files": json.loads(files),
            }
    return reads


def _opened(node: LiveNode, ask: Any) -> list[str]:
    root, opened = os.path.realpath(node.request.host_root), set[str]()

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(root):
            opened.add(os.path.relpath(os.path.realpath(arguments[0]), root))

    sys.addaudithook(note)
    ask(node)
    return sorted(opened)


def _in_a_fork(order: Mapping[str, Any], ask: Any) -> str:
    """Return the answer as JSON; ``null`` where the fork did not live to give one."""
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(TIME_LIMIT_S)
        os.environ.update(order["environment"])
        node = LiveNode(Request.from_dict(order["request"]), "", lambda _: None)
        with os.fdopen(there, "w") as stream:
            json.dump(ask(node), stream)
        os._exit(0)
    os.close(there)
    with os.fdopen(here) as stream:
        answer = stream.read()
    _, status = os.waitpid(pid, 0)
    return answer if status == 0 and answer else "null"


if __name__ == "__main__":
    nvml  # noqa: B018  its import takes the time
    main()
