"""Training over hosts: by every strategy that has groups, and over a slow link.

A slow link is exposed communication where much is sent, and only there.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.advise.training_figures import figures_of
from hwcheck.contract.model_shape import MODELS
from hwcheck.node.training import strategies
from hwcheck.run.training.bench import Bench, Recorder
from tests.lab.groups import TINY, opened, python_with_torch
from tests.lab.lab import Lab, wait_until

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.timeout(400), pytest.mark.wide]

RATE, SLOW = "400mbit", "2mbit"
SLOW_BYTES_PER_S = 2e6 / 8
WIRE_S = MODELS["tiny"].parameters * 4 / SLOW_BYTES_PER_S
"""What the gradients take on the slow link: of two ranks each sends them once."""
OPTIONS = replace(TINY, strategies=("ddp", "pp_gpipe"), steps=3, warmup=1)


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
                    figures = figures_of(record, run, shipped().models)
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


@pytest.mark.parametrize(("hosts", "ranks"), [(2, (4, 8)), (4, (4,))])
def test_groups_over_hosts_compute_what_one_process_does(
    tmp_path: Path, hosts: int, ranks: tuple[int, ...]
) -> None:
    """Two and four ranks on each of two hosts, one on each of four; and the control is caught."""
    pytest.importorskip("torch")
    grouped = ("hsdp", "tp", "pp_1f1b", "dp_tp", "dp_pp", "tp_pp", "3d", "zero1_3d")
    options = replace(
        OPTIONS, strategies=grouped, ranks=ranks, steps=1, warmup=0, parity_steps=2, prove=True
    )
    with (
        Lab([f"n{number}" for number in range(hosts)]) as lab,
        opened(python_with_torch(lab.hosts()), tmp_path, work="training") as members,
    ):
        assert len(members.present) == hosts, members.absent
        recorder = Recorder(tmp_path, members.present, options)
        Bench(members, members.present, options, recorder, lambda _: None).run()
        record = recorder.finish({}, finished=True)
    several = {(run.strategy, run.ranks): run for run in record.runs if run.strategy != "single"}
    assert len(several) == len(ranks) * (len(grouped) + 1)
    for (name, number), run in several.items():
        strategy = strategies.load(name)
        if reason := strategy.refuses(options.model, number, hosts, cuda=False):
            assert (run.state, run.reason) == ("not_applicable", reason)
        else:
            state = "wrong_loss" if strategy.control else "done"
            assert run.state == state, (name, number, run.reason, run.logs)
            assert run.degrees == strategy.degrees(number, hosts)
            assert bool(run.times_s) != strategy.control
    done = {name for name, number in several if several[name, number].state == "done"}
    assert done == (set(grouped) if 8 in ranks else set(grouped) - {"3d", "zero1_3d"})
