"""How the launcher forks its ranks: with nothing to collect, and no thread that would be missing.

A collection in a rank would go through all of torch and copy its pages. A thread is not there in a
fork, but what it holds is: a lock that nobody gives back.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.node.multi_host.local_server import LocalMember
from tests.node.training.serving import order

FORKS = """
import gc, json, os


def note():
    seen = [len(os.listdir("/proc/self/task")), gc.get_freeze_count(), len(gc.get_objects())]
    with open({path!r}, "a") as stream:
        stream.write(json.dumps(seen) + chr(10))


os.register_at_fork(after_in_parent=note)
"""
"""Notes of each fork the threads, the objects that are frozen, and those that are not. OpenBLAS
ends its threads as a process forks, so it is looked at just after that."""


@pytest.mark.wide
@pytest.mark.timeout(300)
def test_ranks_are_forked_by_one_thread_with_all_of_torch_frozen(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    forks = tmp_path / "forks"
    (tmp_path / "sitecustomize.py").write_text(FORKS.format(path=str(forks)))
    python = tmp_path / "python"
    path = f"PYTHONPATH={tmp_path}:$PYTHONPATH"
    python.write_text(f'#!/bin/sh\n{path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    session = {"work": "training", "interface": "lo"}
    with LocalMember(tmp_path, "9", session=session, torch_python=str(python)) as member:
        ready = member.hear("ready", 120)["ready"]
        for number, (strategy, world) in enumerate((("single", 1), ("ddp", 2))):
            asked = order(strategy, world, id=number, launch=f"launch {number}")
            store = [ready["address"], ready["port"]]
            member.tell({**asked.to_dict(), "store": store})
            answer = member.hear("trained", 120)["trained"]
            assert answer["state"] == "done", answer["reason"] + answer["log_tail"]
    seen = [json.loads(line) for line in forks.read_text().splitlines()]
    assert len(seen) == 1 + 1 + 2, "the store, and the ranks of two launches"
    for threads, frozen, others in seen:
        assert threads == 1
        assert frozen > 10 * others
