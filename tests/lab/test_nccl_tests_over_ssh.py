"""`hwcheck validate --engine nccl-tests` on hosts behind real SSH, with programs that stand in."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.wire import CheckResult, Leg
from hwcheck.results.run_folder import Run, read_run, read_series
from tests.lab.lab import Lab, Node, wait_until
from tests.lab.scenarios_on_nodes import prepare
from tests.node.nccl_tests.stand_in import install

HWCHECK = Path(sys.executable).parent / "hwcheck"
SCENARIO = prepare("rtx4090x4", {})
MIB = 1 << 20
FAULTS: Mapping[str, dict[str, Any]] = {
    "good": {},
    "bad": {"default": {"hang_at": 16 * MIB}},
    "wrong": {"default": {"wrong": {str(8 * MIB): 3}}},
}

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.timeout(400)]


def with_programs(node: Node) -> Mapping[str, object]:
    folder = install(node.folder / "nccl-tests", **FAULTS[node.name])
    return {**SCENARIO(node), "hwcheck_nccl_tests_dir": str(folder)}


@pytest.fixture(scope="module")
def answer(
    namespaces: None, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Run, dict[str, Any]]:
    """One run over a good host, one whose default leg hangs, one whose default leg is wrong."""
    folder = tmp_path_factory.mktemp("user")
    with Lab(tuple(FAULTS), prepare=with_programs) as lab:
        file = lab.inventory(ansible_python_interpreter=sys.executable)
        words = ["--only", "all_reduce", "--legs", "default,p2p_off", "--engine", "nccl-tests"]
        done = subprocess.run(
            [HWCHECK, "validate", "--hosts", file, *words, "--maxbytes", "64M", "--json"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        for node in lab.nodes.values():
            wait_until(lambda node=node: not node.visitors(), 15)  # type: ignore[misc]
    assert "Traceback" not in done.stderr
    assert done.returncode == 1, done.stderr
    summary = json.loads(done.stdout)
    return read_run(folder / summary["run"]), summary


def legs(answer: tuple[Run, dict[str, Any]], host: str) -> dict[str, Leg]:
    (record,) = [record for record in answer[0].records if record.host == host]
    assert record.report is not None, record.reason.text
    result: CheckResult
    (result,) = record.report.results
    assert result.state == "done", result.reason.text
    return {leg.leg: leg for leg in result.legs}


def test_a_good_host_has_the_figures_of_its_programs(answer: tuple[Run, dict[str, Any]]) -> None:
    found = legs(answer, "good")
    assert list(found) == ["default", "p2p_off"]
    for name, busbw, kind in (("default", 41.0, "P2P/CUMEM"), ("p2p_off", 29.5, "SHM")):
        leg = found[name]
        assert (leg.state, leg.ranks, leg.library) == ("done", 4, "NCCL 2.30.7"), leg.reason.text
        assert leg.sizes[-1].size_bytes == 64 * MIB
        assert leg.sizes[-1].busbw_gbps == pytest.approx(busbw, rel=0.03)
        assert leg.transport[kind] == 4
        assert "measured by nccl-tests 2.19.6" in leg.notes[0]


def test_a_hang_is_killed_and_the_other_leg_still_runs(answer: tuple[Run, dict[str, Any]]) -> None:
    found = legs(answer, "bad")
    assert found["default"].state == "hang"
    assert "after 16 MiB was finished" in found["default"].reason.text
    assert found["p2p_off"].state == "done"


def test_wrong_data_is_counted(answer: tuple[Run, dict[str, Any]]) -> None:
    found = legs(answer, "wrong")
    assert found["default"].sizes[-1].passes > 1
    assert sum(size.all_wrong for size in found["default"].sizes) == 6, "those of one cycle"
    assert sum(size.all_wrong for size in found["p2p_off"].sizes) == 0


def test_the_tables_are_in_the_hosts_logs(answer: tuple[Run, dict[str, Any]]) -> None:
    log = (answer[0].path / "nodes" / "good.log").read_text()
    measured = legs(answer, "good")
    assert {leg.sizes[-1].passes for leg in measured.values()} == {3}
    assert log.count("# Collective test concluded: all_reduce_perf") == len(measured)
    assert "NCCL INFO AllReduce: 67108864 Bytes -> Algo RING proto SIMPLE" in log
    assert "secret" not in log


def test_nvml_was_read_all_the_time(answer: tuple[Run, dict[str, Any]]) -> None:
    observed = read_series(answer[0].path, "bad")
    assert observed is not None
    assert observed.load is None, "it was not asked for"
    assert observed.collectives is not None
    times, end_s = observed.collectives.series.time_s, observed.collectives.end_s
    assert len(times) > 10
    assert max(late - early for early, late in pairwise([0.0, *times, end_s])) <= 1.0
    assert set(observed.collectives.series.columns) == {f"gpu{index}" for index in range(4)}
    assert "bad: the GPUs side by side" in (answer[0].path / "report.html").read_text("utf-8")


def test_what_is_bad_fails_and_is_evidence(answer: tuple[Run, dict[str, Any]]) -> None:
    summary = answer[1]
    assert sorted(summary["hosts"]["fail"]) == ["bad", "wrong"]
    evidence = "\n".join(summary["nccl"]["evidence"])
    assert "bad: all_reduce: the default hangs" in evidence
    assert "wrong: all_reduce: the default gave 6 wrong elements" in evidence
    # One host has no trouble with P2P: nothing to set for all of them.
    assert summary["nccl"]["settings"] == {}
