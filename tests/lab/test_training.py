"""Training over hosts: a slow link is exposed communication where much is sent, and only there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.advise.training_figures import figures_of
from hwcheck.node.training.shape import MODELS
from hwcheck.run.training.bench import Bench, Recorder
from hwcheck.run.training.options import TrainingOptions
from tests.lab.groups import opened, python_with_torch
from tests.lab.lab import Lab, wait_until

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.timeout(400), pytest.mark.wide]

RATE, SLOW = "400mbit", "2mbit"
SLOW_BYTES_PER_S = 2e6 / 8
WIRE_S = MODELS["tiny"].parameters * 4 / SLOW_BYTES_PER_S
"""What the gradients take on the slow link: of two ranks each sends them once."""
OPTIONS = TrainingOptions(
    MODELS["tiny"],
    strategies=("ddp", "pp_gpipe"),
    legs=("default",),
    steps=3,
    repeats=1,
    warmup=1,
    parity_steps=2,
    micro_batch=1,
    dtype="fp32",
    tf32=False,
)


def test_a_slow_link_is_exposed_communication(tmp_path: Path) -> None:
    """All gradients go over the link for DDP; a pipeline sends a few activations."""
    pytest.importorskip("torch")
    fastest: dict[tuple[str, str], float] = {}
    with Lab(["n1", "n2"], rates={"n1": RATE, "n2": RATE}) as lab:
        hosts = [replace(host) for host in python_with_torch(lab.hosts())]
        with opened(hosts, tmp_path, work="training") as members:
            assert members.present == ("n1", "n2"), members.absent
            for rate in (RATE, SLOW):
                lab.nodes["n2"].limit(rate)
                folder = tmp_path / rate
                folder.mkdir()
                recorder = Recorder(folder, members.present, OPTIONS)
                Bench(members, members.present, OPTIONS, recorder, lambda _: None).run()
                record = recorder.finish({}, finished=True)
                for run in record.runs:
                    figures = figures_of(record, run)
                    assert figures is not None, (run.state, run.reason, run.logs)
                    assert figures.exposed_s is not None
                    fastest[rate, run.strategy] = min(map(min, run.times_s))
                    if (rate, run.strategy) == (SLOW, "ddp"):
                        assert figures.exposed_s > 0.5 * WIRE_S, figures
        nodes = list(lab.nodes.values())
        wait_until(lambda: not any(node.visitors() for node in nodes), 10)
    # The fastest step of each: a busy machine makes some slow, and none faster than the link.
    assert fastest[SLOW, "ddp"] > 0.8 * WIRE_S > fastest[RATE, "ddp"], fastest
    added = {name: fastest[SLOW, name] - fastest[RATE, name] for name in ("ddp", "pp_gpipe")}
    assert added["pp_gpipe"] < 0.5 * added["ddp"], fastest
