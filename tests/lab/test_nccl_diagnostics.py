"""NCCL's own diagnostics on simulated GPUs: they agree with the copies, contradict them, break off.

The payload runs as on a node, under an interpreter whose CUDA and NCCL are simulated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from hwcheck.checks.gpu_pairs import gpu_pairs
from hwcheck.checks.nccl_diagnostics import nccl_diagnostics
from hwcheck.contract.collective_spec import MIB
from hwcheck.contract.wire import CheckResult, Request, Timing
from tests.lab import loads
from tests.lab.answers import answers
from tests.lab.load_runs import TOKEN, declared, judged
from tests.lab.loads import LoadedNode
from tests.lab.start_ups import START
from tests.lab.test_pair_faults import faulty

pytestmark = [pytest.mark.urgent, pytest.mark.timeout(300)]

PAIRS = 8 * 7
NEW = {"nccl": [2, 31, 2]}
H100 = loads.load("h100x8")


class Came:
    """What came of a node."""

    def __init__(
        self,
        folder: Path,
        node: LoadedNode,
        start: Mapping[str, Any],
        *checks: str,
        scale: float = 1.0,
    ) -> None:
        environment, variables = node.install(folder / "node")
        environment["HWLAB_START"] = json.dumps({**start, "scale": scale})
        request = Request(
            token=TOKEN,
            checks=checks,
            budget_s=10.0,
            timing=Timing(("default",), max_bytes=4 * MIB),
            host_root=str(variables["hwcheck_host_root"]),
            expect=declared(node),
            torch_python=str(variables["hwcheck_torch_python"]),
        )
        boot = ("-c", START, str(folder), str(scale))
        report, _ = answers(request, environment, timeout_s=200, start=boot)
        self.results = {result.check: result for result in report.results}
        self.findings, self.actions = judged(node, report, checks)

    @property
    def by_nccl(self) -> CheckResult:
        return self.results[nccl_diagnostics.id]

    def values(self, metric: str) -> dict[str, Any]:
        return {s.subject: s.value for s in self.by_nccl.samples if s.metric == metric}

    def complaints(self) -> dict[str, str]:
        """Return all that is no pass, and of a contradiction what it holds against what."""
        return {
            f"{each.metric or each.check} {each.subject}": str(each.value)
            if each.metric == "contradicts"
            else each.outcome
            for each in self.findings
            if each.outcome != "pass"
        }


def test_both_call_every_pair_whole_and_the_leg_is_timed(tmp_path: Path) -> None:
    came = Came(tmp_path, H100, NEW, gpu_pairs.id, "all_reduce", nccl_diagnostics.id)
    assert (came.by_nccl.state, came.by_nccl.reason.text) == ("done", "")
    assert came.values("diag_tested") == {"node": PAIRS}
    assert [*came.values("diag_p2p").values()] == ["verified"] * PAIRS
    assert came.values("ras_ecc") == {"node": "ok"}
    assert came.values("ras_nvlink") == {"node": "ok"}
    of_checks = {name for name in came.complaints() if name.startswith(("contra", "diag", "ras"))}
    assert of_checks == set()
    (default,) = came.results["all_reduce"].legs
    assert default.state == "done"
    # The variable is not in a leg that is timed.
    assert dict(default.env) == {}
    assert "NCCL DIAG" not in default.log_tail


def test_nccl_complains_where_the_copies_are_whole(tmp_path: Path) -> None:
    failed = {**NEW, "diagnostics": {"failed": {"2-5": "write mismatch"}}}
    came = Came(tmp_path, H100, failed, gpu_pairs.id, nccl_diagnostics.id)
    assert came.by_nccl.state == "done"
    assert came.complaints() == {
        "diag_p2p gpu2-gpu5": "warn",
        "contradicts gpu2-gpu5": "NCCL: write mismatch; copies: 0 elements arrive wrong",
    }
    (why,) = {title for action in came.actions for title in action.explained_by}
    assert "contradict each other" in why


@pytest.mark.wide
def test_ras_complains_in_the_same_communicator(tmp_path: Path) -> None:
    words = "uncorrected volatile errors on rank(s) {3} (worst=2)"
    came = Came(
        tmp_path, H100, {**NEW, "diagnostics": {"ras": {"ECC": words}}}, nccl_diagnostics.id
    )
    assert came.by_nccl.state == "done"
    assert came.complaints() == {"ras_ecc node": "warn"}
    assert came.values("ras_ecc") == {"node": words + " across 8 ranks"}
    (why,) = {title for action in came.actions for title in action.explained_by}
    assert "could not be corrected" in why


@pytest.mark.wide
def test_the_copies_go_wrong_where_nccl_has_verified(tmp_path: Path) -> None:
    node = faulty(H100, "corrupts", gpu2={"5": {"flip_every": 1}})
    came = Came(tmp_path, node, NEW, gpu_pairs.id, nccl_diagnostics.id)
    found = came.complaints()
    assert found.pop("p2p_wrong_elements gpu2-gpu5") == "fail"
    assert [*found] == ["contradicts gpu2-gpu5"]
    assert found["contradicts gpu2-gpu5"].startswith("NCCL: verified; copies: ")


@pytest.mark.wide
def test_an_older_nccl_is_not_asked(tmp_path: Path) -> None:
    came = Came(tmp_path, H100, {}, nccl_diagnostics.id)
    assert came.by_nccl.state == "not_applicable"
    assert came.by_nccl.reason.text == "NCCL 2.27.5 has no diagnostics: they came with 2.31"
    assert came.by_nccl.samples == ()


@pytest.mark.parametrize(
    ("breaks", "scale", "reason"),
    [("torn", 1.0, "NCCL's report breaks off"), ("hangs", 0.1, "no communicator after 1")],
)
def test_what_breaks_off_is_not_measured_and_harms_nothing_else(
    tmp_path: Path, breaks: str, scale: float, reason: str
) -> None:
    start = {**NEW, "diagnostics": {"breaks": breaks}}
    came = Came(tmp_path, H100, start, gpu_pairs.id, "all_reduce", nccl_diagnostics.id, scale=scale)
    assert came.by_nccl.state == "could_not_measure"
    assert reason in came.by_nccl.reason.text
    assert ("the driver answers" in came.by_nccl.reason.text) == (breaks == "hangs")
    assert came.results[gpu_pairs.id].state == "done"
    assert [leg.state for leg in came.results["all_reduce"].legs] == ["done"]
    assert came.complaints()[f"{nccl_diagnostics.id} node"] == "inconclusive"
