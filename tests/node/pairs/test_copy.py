"""The copies themselves, under an interpreter whose CUDA is simulated."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.lab import loads
from tests.lab.loads import LoadedNode
from tests.lab.scenario import overlay
from tests.node.conftest import ROOT

QUICK_S = 8.0
"""What the copies of 8 GPUs may take of a quick visit, beside torch's import and CUDA's start."""

RUN = """
import json, sys, time
from hwcheck.node.pairs import copy
from hwcheck.node.tournament import rounds

for gpus, near_cpus in json.loads(sys.argv[1]):
    begin = time.monotonic()

    def send(message):
        print(json.dumps({**message, "at_s": time.monotonic() - begin}), flush=True)

    copy.run(gpus, send, rounds(range(gpus)), near_cpus)
"""

Message = Mapping[str, Any]


def run(
    folder: Path,
    *orders: tuple[int, Sequence[str]],
    node: LoadedNode | None = None,
    **faults: Mapping[str, Mapping[str, Any]],
) -> subprocess.CompletedProcess[str]:
    """Copy between so many GPUs, from near such CPUs; one order after the other in a process."""
    node = node or loads.load("h100x8")
    says = [
        {**each, "peer_faults": faults.get(f"gpu{place}", {})}
        for place, each in enumerate(node.gpus)
    ]
    environment, variables = replace(node, gpus=tuple(says)).install(folder / "node")
    own = {**environment, "PYTHONPATH": str(ROOT)}
    python = Path(str(variables["hwcheck_torch_python"]))
    # Its interpreter sets the path to its own modules; those of the package come behind.
    python.write_text(python.read_text().replace("PYTHONPATH='", f"PYTHONPATH='{ROOT}:"))
    return subprocess.run(
        [str(python), "-c", RUN, json.dumps(orders)],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=120,
    )


def messages(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """Return what became of 8 GPUs, of which one sends wrong data to another every second time.

    Afterwards 9 are asked for.
    """
    started = time.monotonic()
    done = run(tmp_path_factory.mktemp("pairs"), (8, ()), (9, ()), gpu4={"7": {"flip_every": 2}})
    assert time.monotonic() - started < 60
    return done


@pytest.fixture(scope="module")
def said(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return what the 8 GPUs say."""
    return messages(done)


def of(said: list[dict[str, Any]], kind: str) -> dict[tuple[int, ...], Message]:
    return {tuple(each["pair"]): each for each in said if each["kind"] == kind}


def test_every_ordered_pair_copies_alone_and_beside_others(said: list[dict[str, Any]]) -> None:
    every = {(one, other) for one in range(8) for other in range(8) if one != other}
    for kind in ("alone", "together"):
        found = of(said, kind)
        assert set(found) == every
        assert [each["gbps"] for each in found.values()] == pytest.approx([370] * 56, rel=0.01)
    assert all(each["access"] for each in of(said, "alone").values())
    assert said[-1]["kind"] == "done"


def test_all_gpus_are_at_work_in_each_round(said: list[dict[str, Any]]) -> None:
    rounds = [each["pairs"] for each in said if len(each.get("pairs", ())) > 1]
    assert len(rounds) == 14  # 7 rounds, each way
    for pairs in rounds:
        assert sorted(gpu for pair in pairs for gpu in pair) == list(range(8))


def test_only_the_pair_that_corrupts_has_wrong_elements(said: list[dict[str, Any]]) -> None:
    wrong = {
        pair
        for kind in ("alone", "together")
        for pair, each in of(said, kind).items()
        if each["wrong"]
    }
    assert wrong == {(4, 7)}


def test_what_is_under_way_is_said_before_it_begins(said: list[dict[str, Any]]) -> None:
    doing: list[Any] = []
    for each in said:
        if each["kind"] == "doing":
            doing = each.get("pairs", [])
        elif "pair" in each:
            assert each["pair"] in doing


def test_eight_gpus_fit_in_a_quick_visit(said: list[dict[str, Any]]) -> None:
    first = next(each for each in said if "pairs" in each)
    assert said[-1]["at_s"] - first["at_s"] < QUICK_S


def test_fewer_gpus_than_nvml_sees_are_refused(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode != 0
    assert "torch sees 8 of 9 GPUs" in done.stderr


def test_a_process_in_which_a_gpu_meets_nine_others_is_refused_by_cuda(tmp_path: Path) -> None:
    done = run(tmp_path, (10, ()), node=loads.ten_a40())
    assert done.returncode != 0
    assert "peer mapping resources exhausted" in done.stderr


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs to be near to or far from")
def test_copies_through_the_host_start_near_their_source(tmp_path: Path) -> None:
    sockets = {place: {"cpu_affinity": str(place % 2)} for place in range(4)}
    node = loads.load("rtx4090x4")
    apart = replace(node.scenario, nvml=overlay(node.scenario.nvml, {"gpus": sockets}))
    near_cpus = [str(place % 2) for place in range(4)]
    done = run(tmp_path, (4, ()), (4, near_cpus), node=replace(node, scenario=apart))
    assert done.returncode == 0, done.stderr
    for kind in ("alone", "together"):
        speeds = [each["gbps"] for each in messages(done) if each["kind"] == kind]
        assert speeds == pytest.approx([12.0] * 12 + [20.0] * 12, rel=0.01)
