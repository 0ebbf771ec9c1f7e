"""`train bench` over SSH on nodes that cannot train: each has its reason, the others train."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("torch")

from hwcheck.results.training import read_training
from tests.lab.lab import Lab, Node
from tests.lab.scenario import load
from tests.lab.scenarios_on_nodes import install_on

HWCHECK = Path(sys.executable).parent / "hwcheck"
FAULTS = {"busy": ("job_left_behind",), "cpu_torch": (), "no_nccl": ()}
CLAIMS_CUDA = "import torch; torch.version.cuda = '12.8'\n"
"""A torch for CUDA that was built without NCCL: the one here has no NCCL, and says so."""

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.timeout(300), pytest.mark.wide]


def install(node: Node) -> Mapping[str, object]:
    """Make all but one node those of four GPUs; torch is that of the tests."""
    if node.name not in FAULTS:
        return {"hwcheck_torch_python": sys.executable}
    variables = install_on(node, load("rtx4090x4", *FAULTS[node.name]))
    if node.name != "no_nccl":
        return {**variables, "hwcheck_torch_python": sys.executable}
    (node.folder / "sitecustomize.py").write_text(CLAIMS_CUDA)
    python = node.folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={node.folder} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return {**variables, "hwcheck_torch_python": str(python)}


def at_work(node: Node) -> Mapping[str, object]:
    """Have a scheduler's job on the node; its torch notes that it was started."""
    job = node.folder / "slurmstepd"
    shutil.copy("/bin/sleep", job)
    node.run([str(job), "3600"])
    python = node.folder / "python"
    python.write_text(f'#!/bin/sh\n: >{node.folder}/started\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return {"hwcheck_torch_python": str(python)}


def test_a_node_at_work_is_left_alone_but_for_force(tmp_path: Path) -> None:
    with Lab(["busy"], prepare=at_work) as lab:
        asked = ["--strategies", "single", "--steps", "1", "--repeats", "1", "--json"]
        command = [HWCHECK, "train", "bench", "--hosts", lab.inventory(), *asked]
        started = lab.nodes["busy"].folder / "started"
        for more, exit_code in (([], 3), (["--force"], 0)):
            done = subprocess.run(
                [*command, *more], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert done.returncode == exit_code, done.stdout + done.stderr
            record = read_training(tmp_path / json.loads(done.stdout)["run"])
            assert record is not None
            assert started.exists() == bool(more)
            assert [run.state for run in record.runs] == ["done"] * len(more)
            assert ("busy" in record.absent) != bool(more)
            if not more:
                assert "a scheduler's job is running: slurmstepd" in record.absent["busy"].text
        assert not lab.nodes["busy"].visitors()


def test_each_has_its_reason_and_the_one_that_can_trains(tmp_path: Path) -> None:
    with Lab([*FAULTS, "able"], prepare=install) as lab:
        asked = ["--strategies", "single", "--steps", "1", "--repeats", "1", "--json"]
        done = subprocess.run(
            [HWCHECK, "train", "bench", "--hosts", lab.inventory(), *asked],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        visitors = [pid for node in lab.nodes.values() for pid in node.visitors()]
    assert done.returncode == 3, done.stdout + done.stderr
    run = tmp_path / json.loads(done.stdout)["run"]
    record = read_training(run)
    assert record is not None
    assert record.finished
    assert not visitors
    assert {(each.hosts, each.state) for each in record.runs} == {(("able",), "done")}
    assert set(record.absent) == set(FAULTS)
    assert "is in use by process" in record.absent["busy"].text
    assert "has no CUDA" in record.absent["cpu_torch"].text
    assert "has no NCCL" in record.absent["no_nccl"].text
    page = (run / "report.html").read_text("utf-8")
    assert all(f"{host} took no part" in page for host in FAULTS)
