"""`hwcheck validate` with collectives and a load, behind real SSH: one slot is hot everywhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("torch")

from hwcheck.advise.actions import advise
from hwcheck.advise.catalogue import shipped
from hwcheck.judge.judge import judge
from hwcheck.judge.records import worst
from hwcheck.results.run_folder import Run, read_run, read_series
from tests.lab import loads
from tests.lab.lab import Lab, Node
from tests.lab.load_runs import CHECKS, largest_gap_s
from tests.lab.scenarios_on_nodes import install_on
from tests.node.nccl_tests.stand_in import install as install_programs

HWCHECK = Path(sys.executable).parent / "hwcheck"
HOT = loads.load("h100x8", "hot_slot")
WRONG = loads.load("h100x8", "hot_slot", "wrong_now_and_then")
NODES = {"node1": HOT, "node2": WRONG}

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.timeout(300), pytest.mark.urgent]


def install(node: Node) -> Mapping[str, object]:
    variables = install_on(node, NODES[node.name].scenario)
    programs = {"hwcheck_nccl_tests_dir": str(install_programs(node.folder / "nccl-tests"))}
    return {**variables, **programs, **NODES[node.name].install_cuda(node.folder)}


@pytest.fixture(scope="module")
def run(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return one run over all hosts."""
    folder = tmp_path_factory.mktemp("user")
    with Lab(list(NODES), prepare=install) as lab:
        asked = ["--only", ",".join(("all_reduce", *CHECKS)), "--engine", "nccl-tests", "--json"]
        done = subprocess.run(
            [HWCHECK, "validate", "--hosts", lab.inventory(), *asked],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    return read_run(folder / json.loads(done.stdout)["run"])


def test_every_host_says_what_is_wrong_with_it(run: Run) -> None:
    found: dict[str, dict[str, list[str]]] = {name: {} for name in NODES}
    for each in judge(run, shipped()).findings:
        found[each.host].setdefault(f"{each.check} {each.subject}", []).append(each.outcome)
    complaints = {
        host: {of: worst(said) for of, said in own.items() if worst(said) != "pass"}
        for host, own in found.items()
    }
    assert complaints == {name: node.finds for name, node in NODES.items()}


def test_the_slot_is_one_action_and_the_bad_gpu_another(run: Run) -> None:
    actions = {
        action.check: action for action in advise(run, judge(run, shipped()), shipped()).actions
    }
    assert set(actions) == {"compute_errors", "thermal_spread"}
    assert actions["compute_errors"].hosts == ("node2",)
    assert actions["thermal_spread"].hosts == tuple(NODES)
    assert any(
        words.startswith("gpu4 on node2: wrong_products")
        for words in actions["compute_errors"].evidence
    )
    evidence = actions["thermal_spread"].evidence
    assert evidence[0].startswith("gpu7 on node")
    assert all("gpu7 on node" in words or "gpu7 is at " in words for words in evidence)


def test_the_samples_of_each_host_came_home(run: Run) -> None:
    for name in NODES:
        observed = read_series(run.path, name)
        assert observed is not None
        load = observed.load
        assert load is not None
        assert 20 <= load.load_end_s < 22
        assert largest_gap_s(load) <= 1.0
        assert observed.collectives is not None, "they came before the load"
        assert set(observed.collectives.series.columns) == set(load.series.columns)


def test_the_report_draws_them(run: Run) -> None:
    page = (run.path / "report.html").read_text("utf-8")
    assert page.count('role="img"') >= len(NODES)
    for name in NODES:
        assert f"{name}: the GPUs side by side" in page
    captions = re.findall(r"<figcaption>([^<]*)", page)
    bands = "the first band is the collectives, the second the load"
    assert sum(bands in caption for caption in captions) == len(NODES)
