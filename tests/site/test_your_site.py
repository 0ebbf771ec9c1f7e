"""``docs/your-site.md`` as its reader follows it: the files and the commands of the page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hwcheck.results.run_folder import read_run
from tests.site.page import PAGE, example, write

HWCHECK = Path(sys.executable).parent / "hwcheck"
CHECKS = "checkpoint_room,time_sync,power_cap"


def hwcheck(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [HWCHECK, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The page's files, with this machine as its host."""
    inventory = yaml.safe_load(example()["cluster.yml"])
    inventory["all"]["hosts"]["node01"] = {"ansible_connection": "local"}
    return write(tmp_path, {"cluster.yml": yaml.safe_dump(inventory)}).parent


def test_the_page_shows_all_five_and_its_commands() -> None:
    kinds = {name.split("/")[1] for name in example() if "/" in name}
    assert kinds == {"checks", "models", "rules", "templates", "tests"}
    assert "hwcheck_limits" in example()["cluster.yml"]
    for command in (
        "hwcheck site test --site hwcheck",
        "hwcheck checks --hosts cluster.yml",
        "hwcheck validate --hosts cluster.yml",
    ):
        assert command in PAGE.read_text("utf-8")


def test_the_cases_pass_and_a_wrong_one_does_not(site: Path) -> None:
    done = hwcheck(site, "site", "test", "--site", "hwcheck")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 check, 1 model, 1 rule, 1 template, 4 cases: all is well" in done.stdout
    case = site / "hwcheck/tests/checks/checkpoint_room/room.json"
    case.write_text(case.read_text().replace('"pass"', '"warn"'))
    done = hwcheck(site, "site", "test", "--hosts", "cluster.yml")
    assert done.returncode == 1
    assert "room.json: outcomes: they are" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["checks", "--site", ""], "--site is empty"),
        (["checks", "--site", "nowhere"], "--site nowhere: no such folder"),
        (["checks", "--site", "."], "not a site's folder: it holds none of checks, models"),
        (["site", "test"], "name the site's folder with --site"),
        (["site", "tset", "--site", "hwcheck"], "site tset: it is one of test"),
    ],
)
def test_a_folder_that_is_none_ends_with_2_and_one_line(
    site: Path, arguments: list[str], message: str
) -> None:
    done = hwcheck(site, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_list_of_checks_has_the_site_s(site: Path) -> None:
    done = hwcheck(site, "checks", "--hosts", "cluster.yml")
    text = " ".join(done.stdout.split())
    assert "checkpoint_room (idle, of this site)" in text
    assert "on node01: fail unless >= 75, warn unless >= 90; source: capped since May" in text
    assert "on node01: not judged; source: PTP, which the kernel does not see" in text


def test_a_run_uses_what_the_site_adds_and_is_judged_again_without_it(site: Path) -> None:
    done = hwcheck(site, "validate", "--hosts", "cluster.yml", "--only", CHECKS, "--json")
    summary = json.loads(done.stdout)
    run = read_run(site / summary["run"])
    (record,) = run.records
    assert record.report is not None
    (answer,) = [each for each in record.report.results if each.check == "checkpoint_room"]
    assert (answer.state, answer.samples[0].unit) == ("done", "GiB")
    assert "see our runbook, OPS-1" in (run.path / "report.html").read_text("utf-8")
    assert sorted(run.meta.site) == [
        *("checks/checkpoint_room.py", "models/rtx_a5000.yml"),
        *("rules/storage.py", "templates/coverage.html.j2"),
    ]

    (site / "hwcheck").rename(site / "gone")
    refused = hwcheck(site, "report", summary["run"])
    assert refused.returncode == 2
    assert f"add --site {summary['run']}/site to run what it keeps" in refused.stderr
    again = hwcheck(site, "report", summary["run"], "--site", f"{summary['run']}/site", "--json")
    assert json.loads(again.stdout) == summary
    assert "other files" not in again.stderr

    path = site / "gone/rules/storage.py"
    path.write_text(path.read_text() + "\n# changed since\n")
    other = hwcheck(site, "report", summary["run"], "--site", "gone", "--json")
    assert json.loads(other.stdout)["outcome"] == summary["outcome"]
    assert "was measured with other files than" in other.stderr

    (run.path / "site/checks").chmod(0o777)
    refused = hwcheck(site, "report", summary["run"], "--site", f"{summary['run']}/site")
    assert refused.returncode == 2
    assert "site/checks: others may write to it" in refused.stderr


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ("{power_cap.power_limit_pct: {warn: 90, source: OPS-1}}", "did you mean power_cap.power"),
        ("{checkpoint_room.room_gib: {warn: 0.1, source: OPS-1}}", "nothing would warn: fail 0.5"),
        ("{checkpoint_room.room: {ignore: true, source: OPS-1}}", "mean checkpoint_room.room_gib?"),
    ],
)
def test_a_limit_of_no_metric_ends_with_2_and_one_line(
    site: Path, limits: str, message: str
) -> None:
    text = f"all: {{hosts: {{node01: {{ansible_connection: local, hwcheck_limits: {limits}}}}}}}\n"
    (site / "cluster.yml").write_text(text)
    for command in ("validate", "checks"):
        done = hwcheck(site, command, "--hosts", "cluster.yml")
        assert done.returncode == 2
        assert "node01: hwcheck_limits: " in done.stderr.splitlines()[-1]
        assert message in done.stderr.splitlines()[-1]
    assert not (site / "runs").exists()


def test_nothing_is_run_from_the_folder_that_one_stands_in(site: Path) -> None:
    """An inventory planted there, or a folder beside it, is not run where nobody names it."""
    (site / "inventory").mkdir()
    python = site / "python"
    python.write_text(f'#!/bin/sh\n: >{site / "run"}\nexec python3 "$@"\n')
    python.chmod(0o755)
    here = {"ansible_connection": "local", "ansible_python_interpreter": str(python)}
    (site / "inventory/local.yml").write_text(json.dumps({"all": {"hosts": {"here": here}}}))
    (site / "hwcheck").rename(site / "inventory/hwcheck")
    evil = site / "inventory/hwcheck/checks/checkpoint_room.py"
    evil.write_text(f"{evil.read_text()}\nopen({str(site / 'run')!r}, 'w')\n")
    done = hwcheck(site, "validate", "--only", "kernel", "--json")
    assert "site" not in {path.name for path in (site / json.loads(done.stdout)["run"]).iterdir()}
    hwcheck(site, "checks")
    assert not (site / "run").exists()
    (site / "inventory/hwcheck").chmod(0o777)
    done = hwcheck(site, "checks", "--hosts", "inventory/../inventory/local.yml")
    assert done.returncode == 2
    assert not (site / "run").exists()
    (site / "inventory/hwcheck").chmod(0o755)
    hwcheck(site, "checks", "--hosts", "inventory/../inventory/local.yml")
    assert (site / "run").exists(), "the control: named, it is run"
