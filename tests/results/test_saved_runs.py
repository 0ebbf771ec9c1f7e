"""A run folder that an earlier version wrote is judged and rendered as it was then.

``saved/`` has a run of eight simulated hosts with second visits (``again/``), runs over several
hosts (``group.json``), a host that was not reached and a few faults; ``saved/outcome.json`` is what
the version that wrote it made of it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hwcheck.cli.outcome import show

SAVED = Path(__file__).parent / "saved"
RUN = "20261122T130211Z-b9fde0"
OUTCOME: dict[str, Any] = json.loads((SAVED / "outcome.json").read_text("utf-8"))


def outcome(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return exit code, hosts, complaints and causes of a saved run."""
    exit_code = show(path, None, as_json=True)
    summary = json.loads(capsys.readouterr().out)
    return {
        "exit_code": exit_code,
        "hosts": {
            host["host"]: [host["outcome"], host["asked"], host["measured"]]
            for host in summary["host_results"]
        },
        "findings": sorted(
            [finding[key] for key in ("host", "check", "outcome", "metric", "subject", "value")]
            for finding in summary["findings"]
        ),
        "causes": sorted([cause["cause"], *cause["hosts"]] for cause in summary["causes"]),
        "suspects": summary.get("group", {}).get("suspects"),
    }


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAVED / RUN, tmp_path / RUN))


def test_a_run_of_an_earlier_version_is_judged_as_it_was(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(saved, capsys) == OUTCOME


def test_every_report_of_it_names_every_host(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show(saved, None, as_json=False)
    printed = capsys.readouterr().out
    for text in (
        printed,
        *((saved / f"report.{kind}").read_text("utf-8") for kind in ("html", "md")),
    ):
        assert all(name in text for name in OUTCOME["hosts"])
        assert "Between hosts" in text
    assert "node07" in (saved / "junit.xml").read_text("utf-8")


@pytest.mark.parametrize(
    "part", ["again/nodes/node04.json", "again/nodes/node07.json", "group.json"]
)
def test_second_visits_and_runs_over_hosts_count(
    part: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The control: without one of them the outcome is another."""
    (saved / part).unlink()
    assert outcome(saved, capsys) != OUTCOME
