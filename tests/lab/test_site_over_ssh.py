"""The example of ``docs/your-site.md`` on simulated nodes behind real SSH."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hwcheck.results.run_folder import read_run
from tests.lab.lab import Lab
from tests.lab.scenarios_on_nodes import prepare
from tests.site.page import example, write

HWCHECK = Path(sys.executable).parent / "hwcheck"
CHECKS = "checkpoint_room,power_cap,time_sync"

pytestmark = pytest.mark.usefixtures("namespaces")


@pytest.mark.timeout(300)
def test_a_site_s_check_runs_on_nodes_and_its_limits_hold_host_by_host(tmp_path: Path) -> None:
    """Both nodes have one GPU at 71 % of its power; the second one's site says that it is meant."""
    faults = {"gpu1": "power_capped", "gpu2": "power_capped"}
    with Lab(("gpu1", "gpu2"), prepare=prepare("h100x8", faults)) as lab:
        inventory = yaml.safe_load(lab.inventory().read_text())
        hosts = inventory["all"]["hosts"]
        page = yaml.safe_load(example()["cluster.yml"])["all"]["vars"]["hwcheck_limits"]
        meant = {"power_cap.power_limit_percent": {"warn": 70, "fail": 60, "source": "OPS-113"}}
        hosts["gpu1"]["hwcheck_limits"] = page
        hosts["gpu2"]["hwcheck_limits"] = meant
        write(tmp_path, {"cluster.yml": yaml.safe_dump(inventory)})
        done = subprocess.run(
            [HWCHECK, "validate", "--hosts", "cluster.yml", "--json", "--only", CHECKS],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert "Traceback" not in done.stderr
    summary = json.loads(done.stdout)
    run = read_run(tmp_path / summary["run"])
    for record in run.records:
        assert record.report is not None
        states = {answer.check: answer.state for answer in record.report.results}
        assert states["checkpoint_room"] == "done"
    failed = [f for f in summary["findings"] if f["metric"] == "power_limit_percent"]
    assert [(f["host"], f["subject"], f["outcome"]) for f in failed] == [("gpu1", "gpu4", "fail")]
    assert failed[0]["limit"] == "fail unless >= 75, warn unless >= 90"
    assert failed[0]["source"].startswith("capped since May, OPS-112; the check's own fail 75: ")
    assert done.returncode == 1
    assert "time_sync.clock_synchronized" in (run.path / "report.html").read_text("utf-8")
