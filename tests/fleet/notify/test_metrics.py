"""``hwcheck.prom``, the alert rules and the dashboard: as promtool reads them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hwcheck import shipped
from hwcheck.fleet.notify.changes import LastSweep, OpenProblem, State, Sweep
from hwcheck.fleet.notify.config import Notify
from hwcheck.fleet.notify.metrics import metrics, seconds
from hwcheck.fleet.notify.problems import Problem
from hwcheck.fleet.notify.tell import write_metrics

MONITORING = shipped.PACKAGE / "share" / "monitoring"
STATE = State(
    "sweep-1",
    "",
    (
        OpenProblem(
            Problem("n1", "pcie_link", "fail", ("gpu3",), 'a "link"\\'), "2026-02-01T03:00:00Z"
        ),
        OpenProblem(Problem("n2", "", "inconclusive"), "2026-02-01T03:00:00Z"),
        OpenProblem(Problem("n1", "mig", "warn"), "2026-02-01T03:00:00Z"),
    ),
    {"nightly": LastSweep("2026-02-01T02:30:00Z", "2026-02-01T03:00:00Z", 3, 2, 86400.0)},
)
TEXT = metrics(STATE, 'cluster "a".yml', ["n1", "n2", "n3"], {"ops": 2})


@pytest.fixture
def promtool() -> str:
    program = shutil.which("promtool")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("promtool is not installed: Debian has it in prometheus")
        pytest.skip("promtool is not installed: Debian has it in prometheus")
    return program


def checked(*argv: str, text: str = "", cwd: Path | None = None) -> str:
    done = subprocess.run(argv, input=text, capture_output=True, text=True, cwd=cwd, check=False)
    return f"{done.stdout}{done.stderr}" if done.returncode else ""


def test_every_metric_has_its_help_type_and_samples() -> None:
    lines = TEXT.splitlines()
    assert 'hwcheck_hosts{inventory="cluster \\"a\\".yml",outcome="fail"} 1' in lines
    assert 'hwcheck_hosts{inventory="cluster \\"a\\".yml",outcome="pass"} 1' in lines
    ended = 'hwcheck_sweep_end_timestamp_seconds{inventory="cluster \\"a\\".yml",level="nightly"}'
    assert f"{ended} 1769914800" in lines
    names = {line.partition("{")[0] for line in lines if not line.startswith("#")}
    for word in ("HELP", "TYPE"):
        assert {line.split()[2] for line in lines if line.startswith(f"# {word}")} == names
    assert seconds("2026-02-01T03:00:00Z") == 1769914800


def test_promtool_accepts_them(promtool: str) -> None:
    assert checked(promtool, "check", "metrics", text=TEXT) == ""


@pytest.mark.parametrize(
    "broken", [TEXT.replace("HELP", "HALP"), TEXT.replace('"} 1', "} 1"), TEXT.replace(" 1", " x")]
)
def test_promtool_refuses_what_is_broken(promtool: str, broken: str) -> None:
    assert checked(promtool, "check", "metrics", text=broken)


def test_the_rules_fire_where_they_should(promtool: str, tmp_path: Path) -> None:
    cases = Path(__file__).parent / "rules_test.yml"
    shutil.copy(MONITORING / "rules.yml", tmp_path)
    shutil.copy(cases, tmp_path)
    assert checked(promtool, "check", "rules", "rules.yml", cwd=tmp_path) == ""
    assert checked(promtool, "test", "rules", cases.name, cwd=tmp_path) == ""
    rules = (tmp_path / "rules.yml").read_text()
    assert "+ 3600" in rules
    (tmp_path / "rules.yml").write_text(rules.replace("+ 3600", "+ 360000"))
    assert "HwcheckSweepOverdue" in checked(promtool, "test", "rules", cases.name, cwd=tmp_path)


def test_the_dashboard_asks_only_for_what_there_is(promtool: str, tmp_path: Path) -> None:
    dashboard = json.loads((MONITORING / "grafana.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    variables = dashboard["templating"]["list"]
    queries += [each["definition"] for each in variables if "definition" in each]
    asked = {name for query in queries for name in re.findall(r"\bhwcheck_\w+", query)}
    there_are = {line.split()[2] for line in TEXT.splitlines() if line.startswith("# TYPE")}
    assert asked <= there_are
    assert len(asked) >= 6
    rules = [
        {"record": f"a:b:{place}", "expr": query.replace("$inventory", ".*")}
        for place, query in enumerate(queries)
        if not query.startswith("label_values")
    ]
    file = tmp_path / "queries.yml"
    file.write_text(json.dumps({"groups": [{"name": "a", "rules": rules}]}))
    assert checked(promtool, "check", "rules", str(file)) == ""
    of_rules = (MONITORING / "rules.yml").read_text()
    assert set(re.findall(r"\bhwcheck_\w+", of_rules)) <= there_are


def test_the_file_is_whole_and_for_all_to_read(tmp_path: Path) -> None:
    file = tmp_path / "hwcheck.prom"
    at = "2026-02-01T03:00:00Z"
    sweep = Sweep("sweep-1", {"nightly": 86400.0}, "cluster.yml", at, at, ("n1", "n2"), 2)
    before = os.umask(0o077)
    try:
        for _ in range(2):
            assert write_metrics(Notify(metrics=file), tmp_path, sweep, STATE) == []
    finally:
        os.umask(before)
    assert file.read_text() == metrics(STATE, sweep.inventory, sweep.hosts, {})
    assert file.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [file]
