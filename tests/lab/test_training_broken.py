"""Training over two hosts, one of which breaks a strategy each way: who broke what, and how.

What broke is named by strategy, host and rank; the others have their times; nothing stays.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.report.training import training_view
from hwcheck.results.training import TrainingRecord
from hwcheck.run.training.bench import Bench, Recorder
from tests.lab.groups import TINY, opened, python_with_torch
from tests.lab.lab import Lab, Node, wait_until

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.timeout(300), pytest.mark.wide]

BREAKS = """
import os, signal
import torch
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe
from torch.nn.parallel import DistributedDataParallel

whole_forward = DistributedDataParallel.forward


def no_memory(*arguments):
    raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has")


DistributedDataParallel.forward = lambda *arguments: whole_forward(*arguments) * float("nan")
ZeroRedundancyOptimizer.step = no_memory
ScheduleGPipe.step = lambda *arguments, **more: os.kill(os.getpid(), signal.SIGKILL)
Schedule1F1B.step = lambda *arguments, **more: signal.pause()
"""
"""ddp: a loss that is no number; zero1: no memory; pp_gpipe: a crash; pp_1f1b: a hang."""
OPTIONS = replace(
    TINY,
    strategies=("ddp", "zero1", "pp_gpipe", "pp_1f1b", "tp"),
    steps=1,
    warmup=0,
    silence_s=5.0,
    start_s=15.0,
)


def install(node: Node) -> Mapping[str, object]:
    if node.name == "well":
        return {}
    (node.folder / "sitecustomize.py").write_text(BREAKS)
    python = node.folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={node.folder} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return {}


def rows(record: TrainingRecord) -> dict[str, str]:
    """What the table of a report has of each strategy: strategy, ranks, and what became of it."""
    (table,) = training_view(record, shipped().models).tables
    return {row.cells[0]: f"on {row.cells[1]}: {row.state or 'timed'}" for row in table.rows}


def test_who_broke_a_strategy_is_named_and_the_others_are_timed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with Lab(["well", "broken"], prepare=install) as lab:
        nodes = list(lab.nodes.values())
        torch_python = {"broken": str(lab.nodes["broken"].folder / "python")}
        with opened(python_with_torch(lab.hosts()), tmp_path, torch_python, "training") as members:
            assert members.present == ("well", "broken"), members.absent
            recorder = Recorder(tmp_path, members.present, OPTIONS)
            Bench(members, members.present, OPTIONS, recorder, lambda _: None).run()
        wait_until(lambda: not any(node.visitors() for node in nodes), 10)
    record = recorder.finish({}, finished=True)
    memory = rows(record).pop("ZeRO-1")
    assert memory.startswith("on 2: out of memory: broken: rank 1: "), memory
    assert memory.endswith(" GiB at the peak, 3.00 GiB more asked for")
    hang = rows(record).pop("PP, 1F1B")
    assert hang.startswith("on 2: hang: "), hang
    assert hang.endswith(" s, rank 1: in the first step")
    others = {name: row for name, row in rows(record).items() if row not in (memory, hang)}
    assert others == {
        "one GPU": "on 1: timed",
        "DDP": "on 2: failed: broken: rank 1: FloatingPointError: the loss is nan in step 1",
        "PP, GPipe": "on 2: failed: broken: rank 1 was killed by SIGKILL",
        "TP": "on 2: timed",
    }
    assert not any(run.left_over for run in record.runs)
    stacks = next(run.logs for run in record.runs if run.state == "hang")
    assert "-- stack of rank 1" in stacks["broken"]
