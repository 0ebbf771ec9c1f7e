"""``dcgmi diag`` as LiveNode runs it, with a program of that name."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from hwcheck.contract.check import CouldNotMeasure, NotApplicable
from hwcheck.node import dcgm, load_lock
from hwcheck.node.live import LiveNode
from hwcheck.node.nccl_tests import process
from tests.node.live_nodes import ADDRESSES, live_node
from tests.node.roots import Root

PAYLOAD = str(Path(__file__).parents[2])


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveNode:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(dcgm, "PLACES", ())
    root = Root(tmp_path / "root")
    for address in ADDRESSES:
        root.device(address)
    mig = {"current": False, "pending": False}
    gpu = {"compute_processes": [], "mig_mode": mig, "utilization_percent": 0}
    gpus = [{**gpu, "pci_address": address} for address in ADDRESSES]
    made = live_node(root.path, {"gpus": gpus})
    made._payload = PAYLOAD
    return made


def install(folder: Path, script: str) -> None:
    (folder / "bin").mkdir()
    program = folder / "bin" / "dcgmi"
    program.write_text(f"#!/bin/bash\n{script}\n")
    program.chmod(0o755)


def test_its_output_is_returned_and_the_node_is_held_meanwhile(
    node: LiveNode, tmp_path: Path
) -> None:
    install(tmp_path, 'echo "$@"')
    assert node.dcgm_diag() == "diag -r 4 -j\n"


def test_it_is_not_started_beside_a_load(node: LiveNode, tmp_path: Path) -> None:
    install(tmp_path, f"echo > {tmp_path}/started")
    with load_lock.held(), pytest.raises(load_lock.BusyError):
        node.dcgm_diag()
    assert not (tmp_path / "started").exists()


def test_a_node_without_it(node: LiveNode) -> None:
    with pytest.raises(NotApplicable, match="DCGM is not installed"):
        node.dcgm_diag()


def test_one_that_hangs_is_asked_to_stop_its_daemon(
    node: LiveNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = tmp_path / "begun"
    until = lambda: 0.0 if begun.exists() else math.inf  # noqa: E731
    monkeypatch.setattr(process, "within", lambda limit_s: until)
    trap = f"trap 'echo > {tmp_path}/stopped; exit' TERM"
    install(tmp_path, f"{trap}; echo > {begun}; while :; do :; done")
    with pytest.raises(CouldNotMeasure, match="dcgmi diag -r 4 -j gave no answer within"):
        node.dcgm_diag()
    assert (tmp_path / "stopped").exists()
