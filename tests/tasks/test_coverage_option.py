from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.node.wire import CheckResult
from hwcheck.tasks.command_line import program
from hwcheck.tasks.coverage_option import percent
from tests.factories import gpu_host, saved


@pytest.mark.parametrize(
    ("given", "wanted"),
    [(None, None), (True, 100.0), ("90", 90.0), ("99.5", 99.5), ("80%", 80.0), ("100", 100.0)],
)
def test_a_percentage_or_none_at_all(given, wanted) -> None:
    assert percent(given) == wanted


@pytest.mark.parametrize("given", ["0", "-1", "101", "all", "", "nan", "inf", "%"])
def test_anything_else_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="takes a percentage"):
        percent(given)


def _report(out: Path, capsys, *flags: str, whole: bool) -> tuple[int, str]:
    host = gpu_host("a")
    assert host.report is not None
    if not whole:
        answers = tuple(
            CheckResult("driver", "could_not_measure", "no answer in 5 s")
            if one.check == "driver"
            else one
            for one in host.report.results
        )
        host = replace(host, report=replace(host.report, results=answers))
    run, code = saved(out, host), 0
    try:
        program.run(["hwcheck", "report", str(run), *flags])
    except SystemExit as ended:
        code = int(ended.code or 0)
    return code, capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--require-coverage", "--require-coverage=100"])
def test_a_saved_run_is_held_to_it(tmp_path: Path, capsys, flag: str) -> None:
    code, out = _report(tmp_path, capsys, flag, whole=False)
    assert code == 3
    plain = " ".join(out.split())
    assert "below the required coverage of 100 % on 1 host: not measured: driver on a" in plain


def test_a_covered_run_passes_and_says_nothing(tmp_path: Path, capsys) -> None:
    code, out = _report(tmp_path, capsys, "--require-coverage", whole=True)
    assert code == 0
    assert "below the required" not in " ".join(out.split())


def test_the_summary_has_both_sides(tmp_path: Path, capsys) -> None:
    _, out = _report(tmp_path, capsys, "--json", "--require-coverage", "50", whole=True)
    told = json.loads(out)["coverage"]
    assert (told["percent"], told["required_percent"], told["shortfall"]) == (100.0, 50.0, "")
