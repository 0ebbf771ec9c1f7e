"""`hwcheck validate` as its user runs it, with every check, on hosts behind real SSH."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hwcheck.results.run_folder import Run, read_run
from tests.lab.lab import Lab, wait_until

HWCHECK = Path(sys.executable).parent / "hwcheck"
LEGS = ["default", "p2p_off", "net"]

pytestmark = pytest.mark.usefixtures("namespaces")


@pytest.fixture(scope="module")
def answer(
    namespaces: None, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Run, dict[str, Any]]:
    """One run over a good host, which has a login banner, and one that is down."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("user")
    with Lab(("gpu1", "gpu2")) as lab:
        (lab.nodes["gpu1"].home / ".bashrc").write_text("echo Welcome\n")
        lab.nodes["gpu2"].stop_sshd()
        file = lab.inventory()
        inventory = yaml.safe_load(file.read_text())
        inventory["all"]["vars"]["ansible_python_interpreter"] = sys.executable
        file.write_text(yaml.safe_dump(inventory))
        done = subprocess.run(
            [HWCHECK, "validate", "--hosts", file, "--maxbytes", "1M", "--json"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        wait_until(lambda: not lab.nodes["gpu1"].visitors(), 15)
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    summary = json.loads(done.stdout)
    return read_run(folder / summary["run"]), summary


@pytest.mark.timeout(300)
def test_a_healthy_host_is_measured_and_the_dead_one_is_named(
    answer: tuple[Run, dict[str, Any]],
) -> None:
    run, summary = answer
    assert (summary["outcome"], summary["exit_code"]) == ("inconclusive", 3)
    states = {record.host: record.state for record in run.records}
    assert states == {"gpu1": "reported", "gpu2": "unreachable"}
    report = run.records[0].report
    assert report is not None
    (result,) = [each for each in report.results if each.check == "all_reduce"]
    assert [leg.leg for leg in result.legs] == LEGS
    for leg in result.legs:
        assert (leg.state, leg.exercise) == ("done", True), leg
        assert sum(size.wrong for size in leg.sizes) == 0
        assert leg.sizes[-1].iterations >= 20
    assert "Welcome" in (run.path / "nodes" / "gpu1.log").read_text()
