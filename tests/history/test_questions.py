"""Swaps, names, flaps, comparisons, trends and the ten questions, on planted runs."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from hwcheck.advise.assessment import assess
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.wire import CheckResult, Sample, Value
from hwcheck.errors import UsageError
from hwcheck.history import retention
from hwcheck.history.compare import compare, compare_last_green
from hwcheck.history.events import events, names_of
from hwcheck.history.last_runs import last_runs
from hwcheck.history.overview import host_lines, last_values, run_lines
from hwcheck.history.past import past_of
from hwcheck.history.trend import gpus_named, metric_named, trend
from hwcheck.history.views import History
from hwcheck.judge.past import Past, Setup, figures, joined
from hwcheck.results.options import Options
from hwcheck.results.run_folder import HostRecord, read_run
from hwcheck.text import binary_size
from tests import factories
from tests.history.conftest import (
    FLAPS,
    NIGHTS,
    STEP,
    SWAP,
    night_of,
    run_id,
    with_gpus,
    write_night,
)

PAGE = (Path(__file__).parents[2] / "docs" / "history.md").read_text("utf-8")
QUESTIONS = re.findall(
    r"^([A-Z][^\n]*\?)\n\n```sql\n(.*?)```", PAGE.partition("## Ten questions")[2], re.M | re.S
)
ANSWERS = {
    "Which hosts failed most": [("node02", 3, 9)],
    "What is each host's last": (
        "node01",
        "pass",
        datetime.fromisoformat("2026-01-09T03:00:00"),
        datetime.fromisoformat("2026-01-09T03:00:00"),
    ),
    "Which checks complain": ("power_cap", "fail", 1, 3),
    "Which slots had another GPU": [("node04", "gpu2", 2, "serial-new")],
    "How has all_reduce gone": ("node03", 446.5, 446.5, 401.9),
    "Which drivers run": [("570.86.15", 4, "node01 node02 node03 node04")],
    "Which complaints came and went": ("node02", "power_cap", "gpu3", 3),
    "What did a cause cost": ("power_limit_lowered", 1, 3),
}


def test_there_are_ten_questions() -> None:
    assert len(QUESTIONS) == 10


@pytest.mark.parametrize(("question", "sql"), QUESTIONS, ids=[each[0][:30] for each in QUESTIONS])
def test_a_question_of_the_docs_is_answered_as_it_stands(
    planted: Path, question: str, sql: str
) -> None:
    with History.open(planted) as history:
        rows = history.select(sql).rows
    expected = next((ANSWERS[key] for key in ANSWERS if question.startswith(key)), None)
    if isinstance(expected, list):
        assert rows == expected
    elif expected:
        assert expected in [row[: len(expected)] for row in rows]
    elif question.startswith("Which GPUs sat in more"):
        assert rows == []  # see test_a_gpu_that_moved
    else:
        assert len(rows) == 10
        assert rows[0][3] == 34.0


def test_the_docs_name_every_column_of_every_view(planted: Path) -> None:
    with History.open(planted) as history:
        for view in ("runs", "hosts", "gpus", "samples", "findings", "causes"):
            columns = history.select(f"SELECT * FROM {view} LIMIT 0").columns
            (row,) = re.findall(rf"^\| `{view}` \| [^|]* \| (.*) \|$", PAGE, re.M)
            assert re.findall(r"`(\w+)`", row) == list(columns)


def test_runs_and_hosts_line_by_line(planted: Path) -> None:
    with History.open(planted) as history:
        runs = run_lines(history)
        assert [run.run for run in runs] == [run_id(night) for night in range(NIGHTS)]
        assert [run.failed for run in runs] == [int(night in FLAPS) for night in range(NIGHTS)]
        hosts = {host.host: host for host in host_lines(history)}
        assert hosts["node02"].flaps == ("power_cap of gpu3 (3 times)",)
        assert (hosts["node02"].green, hosts["node02"].red) == (6, 3)
        assert hosts["node02"].last_red == datetime.fromisoformat("2026-01-08T03:00:00")
        assert hosts["node01"].flaps == ()
        assert hosts["node01"].last_red is None
        recent = host_lines(history, ["node02"], datetime.fromisoformat("2026-01-09T00:00:00"))
        assert [(host.runs, host.flaps) for host in recent] == [(1, ())]
        asked = metric_named(history, "all_reduce.busbw_gbps")
        assert last_values(history, asked, ["node03"])["node03"][-1] == pytest.approx(
            401.9, abs=0.1
        )


def test_a_swap_is_an_event_and_starts_a_history_of_its_own(planted: Path) -> None:
    with History.open(planted) as history:
        (event,) = events(history)
        assert (event.host, event.run, event.kind) == ("node04", run_id(SWAP), "swapped")
        assert (event.subject, event.before, event.after) == ("gpu2", "GPU-node04-2", "GPU-new")
        asked = metric_named(history, "temperature_c")
        for name, nights in (("serial-new", NIGHTS - SWAP), ("16500042", SWAP)):
            shown = trend(history, asked, gpus=gpus_named(history, name))
            assert len(shown.points) == nights


def names_and_machines(out: Path) -> None:
    """node01 is renamed; node02's name goes to another machine; node03 is installed anew; a GPU of
    node05 moves into node04, whose own is not seen again."""
    first = [with_gpus(factories.gpu_host(f"node0{n}")) for n in (1, 2, 3, 4, 5)]
    write_night(out, 0, *first)
    renamed = with_gpus(factories.gpu_host("node01"))
    facts = renamed.report.facts  # type: ignore[union-attr]
    renamed = factories.gpu_host("newname")
    renamed.report.facts["gpus"][:] = facts["gpus"]  # type: ignore[union-attr]
    other = with_gpus(factories.gpu_host("node02"), **{f"gpu{n}": f"other{n}" for n in range(8)})
    again = with_gpus(factories.gpu_host("node03"))
    again.report.facts["kernel"] = "6.14.0-reinstalled"  # type: ignore[index,union-attr]
    moved = with_gpus(factories.gpu_host("node04"), gpu1="node05-1")
    left = with_gpus(factories.gpu_host("node05"))
    del left.report.facts["gpus"][1]  # type: ignore[union-attr]
    write_night(out, 1, renamed, other, again, moved, left)


def test_names_and_machines_are_told_apart(tmp_path: Path) -> None:
    names_and_machines(tmp_path)
    with History.open(tmp_path) as history:
        told = {(each.host, each.kind, each.subject) for each in events(history)}
        assert told == {
            ("newname", "renamed", "node"),
            ("node02", "another machine under this name", "node"),
            ("node04", "moved", "gpu1"),
            ("node05", "gone", "gpu1"),
        }
        (question,) = (sql for text, sql in QUESTIONS if text.startswith("Which GPUs sat"))
        rows = history.select(question).rows
        assert ("GPU-node05-1", "node04", "gpu1") in [row[:3] for row in rows]


def test_what_changed_between_two_runs(planted: Path) -> None:
    with History.open(planted) as history:
        compared = compare(history, run_id(0), run_id(NIGHTS - 1), shipped().checks)
        by_host = {(each.host, each.kind) for each in compared.changes}
        assert by_host == {("node03", "figure"), ("node03", "outcome"), ("node04", "GPU")}
        figures = [each for each in compared.changes if each.kind == "figure"]
        (figure,) = figures  # of all sizes of a leg the largest stands for it
        assert figure.what == "all_reduce.busbw_gbps at 1 GiB and 10 smaller sizes"
        assert figure.share == pytest.approx(-0.1, abs=0.001)
        assert compared.same == ("node01", "node02")
        nothing = compare(history, run_id(0), run_id(2), shipped().checks)
        assert nothing.changes == ()
        with pytest.raises(UsageError, match="no host in common"):
            compare(history, run_id(0), "no run", shipped().checks)


def test_a_leg_is_compared_at_each_size_within_the_spread_of_that_size(tmp_path: Path) -> None:
    for night, peak_gbps in enumerate((450.0, 405.0)):
        leg = factories.leg(peak_gbps=peak_gbps)
        *smaller, largest = leg.sizes
        leg = replace(leg, sizes=(*smaller, replace(largest, pass_spread=0.2)))
        write_night(tmp_path, night, factories.gpu_host("node01", [leg]))
    with History.open(tmp_path) as history:
        changes = compare(history, run_id(0), run_id(1), shipped().checks).changes
    whats = [each.what for each in changes if each.kind == "figure"]
    assert whats == [
        f"all_reduce.busbw_gbps at {binary_size(smaller[-1].size_bytes)} and "
        f"{len(smaller) - 1} smaller sizes"
    ]


def test_what_differs_from_day_to_day_is_not_compared(tmp_path: Path) -> None:
    """Two runs of a healthy H100 had free disk space, products and slopes of heat as changes."""
    nights = (
        (63.80, 504e6, 11392, 1.62, "idle", 128.0, 0, 2048.0, 0.0),
        (63.78, 520e6, 11360, 1.27, "none", 127.9, 1, 1984.0, 64.0),
    )
    for night, (free, used, products, slope, clocks, module, jobs, *memory) in enumerate(nights):
        answers = {
            "disk_free": (Sample("disk_free_gib", free, "GiB", "/"),),
            "stray_processes": (
                Sample("memory_used_bytes", used, "bytes", "gpu0"),
                Sample("compute_processes", jobs, "processes", "gpu0"),
            ),
            "compute_errors": (Sample("products", products, "products", "gpu0"),),
            "thermal_slope": (Sample("thermal_slope", slope, "C/s", "gpu0"),),
            "throttle_reasons": (Sample("clock_event_reasons", clocks, "", "gpu0"),),
            "host_memory": (
                Sample("numa_memory_gib", module, "GiB", "NUMA 0"),
                Sample("memory_total_gib", memory[0], "GiB"),
            ),
            "hugepages": (Sample("huge_pages_gib", memory[1], "GiB"),),
        }
        checks = tuple(CheckResult(name, "done", samples=of) for name, of in answers.items())
        record = factories.record("node01", checks, gpus=factories.gpu_facts(1))
        write_night(tmp_path, night, record)
    with History.open(tmp_path) as history:
        compared = compare(history, run_id(0), run_id(1), shipped().checks).changes
    assert {each.text() for each in compared if each.kind in ("setting", "count", "figure")} == {
        "stray_processes.compute_processes of gpu0: 0 processes -> 1 processes",
        "host_memory.memory_total_gib: 2048 GiB -> 1984 GiB (-3.1%)",
        "hugepages.huge_pages_gib: 0 GiB -> 64 GiB",
    }


@pytest.mark.parametrize(
    ("check", "metric", "unit", "subject", "before", "after", "is_news"),
    [
        ("host_memory", "swap_used_percent", "%", "node", 1.0, 9.0, False),
        ("infiniband_ports", "out_of_sequence", "packets", "port mlx5_0/1", 10, 5000, False),
        ("throttle_under_load", "sw_power_cap_percent", "%", "gpu0", 20.0, 80.0, False),
        ("power_state", "performance_state", "", "gpu0", "P0", "P8", False),
        # What goes by age grew, and what is held against its own maximum is another: said.
        ("ecc_errors", "ecc_uncorrected_aggregate", "errors", "gpu0", 0, 3, True),
        ("infiniband_ports", "link_downed", "errors", "port mlx5_0/1", 0, 3, True),
        ("pcie_link", "pcie_link_width", "lanes", "gpu0", 16, 8, True),
    ],
)
def test_what_goes_by_use_is_no_change(
    tmp_path: Path,
    *,
    check: str,
    metric: str,
    unit: str,
    subject: str,
    before: Value,
    after: Value,
    is_news: bool,
) -> None:
    """Two tables said what goes by use: 8 % more of swap was a figure beyond its spread."""
    for night, value in enumerate((before, after)):
        answer = CheckResult(check, "done", samples=(Sample(metric, value, unit, subject),))
        gpus = factories.gpu_facts(1)
        write_night(tmp_path, night, factories.record("node01", (answer,), gpus=gpus))
    with History.open(tmp_path) as history:
        changes = compare(history, run_id(0), run_id(1), shipped().checks).changes
    assert [each.what for each in changes] == ([f"{check}.{metric}"] if is_news else [])


def test_each_host_against_its_own_last_green_run(planted: Path) -> None:
    with History.open(planted) as history:
        compared = compare_last_green(history, run_id(FLAPS[1]), shipped().checks)
        assert compared.before["node02"] == run_id(FLAPS[1] - 1)
        texts = [each.text() for each in compared.changes if each.host == "node02"]
        assert "power_cap.power_limit_w of gpu3: 700 W -> 400 W (-42.9%)" in texts
        after = compare_last_green(history, run_id(FLAPS[0] + 1), shipped().checks)
        assert after.before["node02"] == run_id(FLAPS[0] - 1)
        assert after.changes == ()
        with pytest.raises(UsageError, match="has a green run before it"):
            compare_last_green(history, run_id(0), shipped().checks)


def test_a_trend_has_its_band_its_points_and_its_marks(planted: Path) -> None:
    with History.open(planted) as history:
        shown = trend(history, metric_named(history, "all_reduce.busbw_gbps"), host="node03")
        values = [point.value for point in shown.points]
        assert len(values) == NIGHTS
        assert values[STEP - 1] > 440 > 410 > values[STEP]
        assert {point.subject for point in shown.points} == {"leg default"}
        assert [band.middle for band in shown.bands] == pytest.approx([446.5] * NIGHTS, abs=0.1)
        temperature = metric_named(history, "temperature_c")
        marks = trend(history, temperature, host="node04").marks
        assert [(mark.what, mark.after) for mark in marks] == [("board of gpu2", "GPU-new")]
        assert trend(history, temperature, host="node01").marks == ()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("busbw", "busbw: no such metric in the history; did you mean busbw_gbps?"),
        ("bus", "bus: no such metric in the history; did you mean busbw_gbps?"),
        ("slowdown", "did you mean temperature_slowdown_c?"),
        ("all_reduce.busbw_gbs", "did you mean all_reduce.busbw_gbps?"),
        ("driver_version", "driver_version: no such metric"),  # a text, and no number
    ],
)
def test_a_metric_that_is_none_is_refused_with_the_nearest(
    planted: Path, name: str, message: str
) -> None:
    with History.open(planted) as history, pytest.raises(UsageError, match=re.escape(message)):
        metric_named(history, name)


def test_the_past_equals_the_figures_of_the_runs(planted: Path) -> None:
    assert_past_is_that_of_the_runs(planted)


def test_the_past_has_profiles_and_no_impossible_reading(tmp_path: Path) -> None:
    def hot(value: float, unit: str = "C") -> HostRecord:
        host = factories.gpu_host("node01")
        assert host.report
        samples = (Sample("temperature_c", value, unit, "gpu2"),)
        load = CheckResult("temperature_under_load", "done", samples=samples)
        return replace(host, report=replace(host.report, results=(*host.report.results, load)))

    nights = [hot(61.0), hot(9999.0), hot(330.0, "K"), hot(74.0), hot(61.0)]
    for night, record in enumerate(nights):
        profile = "standard" if night == 3 else "quick"
        asked = (
            Options(profile=profile, force=night == 2, duration_s=20.0, timeout_s=60.0)
            if night
            else None
        )
        write_night(tmp_path, night, record, profile=profile, options=asked)
    past = assert_past_is_that_of_the_runs(tmp_path)
    assert [run.profile for run in past.runs] == ["quick", "quick", "quick", "standard"]
    assert ["force True" in run.asked for run in past.runs] == [False, False, True, False]
    assert [bool(run.asked) for run in past.runs] == [False, True, True, True]
    (row,) = (row for row, of in enumerate(past.series) if of.check == "temperature_under_load")
    assert [None if np.isnan(value) else value for value in past.values[row]] == [
        *(61.0, None, None, 74.0)
    ]


def test_the_past_has_no_busbw_of_a_leg_that_moved_nothing(tmp_path: Path) -> None:
    """Of one rank the busbw is 0; and an update of NCCL on one of two hosts is another setup."""
    for night in range(3):
        legs = [factories.leg(), factories.leg("net", ranks=1)]
        newer = replace(legs[0], library="NCCL 2.28.3") if night else legs[0]
        hosts = (factories.gpu_host("node01", legs), factories.gpu_host("node02", [newer]))
        write_night(tmp_path, night, *hosts)
    past = assert_past_is_that_of_the_runs(tmp_path)
    subjects = {of.subject for of in past.series if of.check == "all_reduce"}
    assert subjects == {"leg default"}
    assert {setup.nccl for setup in past.setups} >= {"NCCL 2.27.5", "NCCL 2.28.3"}


def setups_of(past: Past, row: int) -> list[Setup | None]:
    return [None if code < 0 else past.setups[code] for code in past.setup_of[row]]


def assert_past_is_that_of_the_runs(folder: Path) -> Past:
    runs = [read_run(path) for path in sorted(folder.iterdir())]
    want = joined(figures(each, shipped().checks) for each in runs[:-1])
    with History.open(folder) as history:
        past = past_of(
            history, names_of(history, runs[-1]), runs[-1].meta.started, shipped().checks
        )
    assert past.runs == want.runs
    assert set(past.series) == set(want.series)
    place = {series: row for row, series in enumerate(past.series)}
    rows = [place[series] for series in want.series]
    assert np.array_equal(past.values[rows], want.values, equal_nan=True)
    for row, series in zip(rows, range(len(want.series)), strict=True):
        assert setups_of(past, row) == setups_of(want, series)
    return past


def test_the_last_green_run_of_a_host_and_an_acceptance_stay(planted: Path, tmp_path: Path) -> None:
    runs = Path(shutil.copytree(planted, tmp_path / "runs"))
    write_night(runs, NIGHTS, factories.gpu_host("node02", power_limit_w=(3, 400.0)))
    (runs / run_id(0) / retention.ACCEPTANCE).write_text("{}")
    (runs / "under-way").mkdir()
    with History.open(runs) as history:
        planned = retention.plan(history, None, 1)
        kept = {folder.name: why for folder, why in planned.kept}
        assert kept == {
            run_id(0): "it is an acceptance",
            run_id(NIGHTS - 1): "the last green run of 4 hosts",
        }
        assert {folder.name for folder in planned.going} == set(map(run_id, range(1, NIGHTS - 1)))
        by_age = retention.plan(history, datetime.fromisoformat("2026-01-03T00:00:00"), None)
        assert [folder.name for folder in by_age.going] == [run_id(1)]
        retention.delete(runs, planned.going)
    left = {path.name for path in runs.iterdir()}
    assert left == {run_id(0), run_id(NIGHTS - 1), run_id(NIGHTS), "under-way"}


def test_a_run_of_an_acceptance_stays_wherever_it_was_copied_to(
    planted: Path, tmp_path: Path
) -> None:
    runs = Path(shutil.copytree(planted, tmp_path / "runs"))
    about = runs / run_id(0) / "run.json"
    of = {"id": "20260101T000000Z-aaaaaa", "stage": "idle"}
    about.write_text(json.dumps({**json.loads(about.read_text()), "acceptance": of}))
    (runs / run_id(1) / "run.json").write_text("{")
    host = night_of(NIGHTS)
    options = Options(duration_s=20.0, timeout_s=900.0, acceptance=of)
    write_night(runs, NIGHTS, *host, options=options, acceptance=of)
    write_night(runs, NIGHTS + 1, *host)
    with History.open(runs) as history:
        planned = retention.plan(history, None, 1)
    kept = {folder.name: why for folder, why in planned.kept}
    assert kept[run_id(0)] == kept[run_id(NIGHTS)] == "it is of an acceptance"
    assert "acceptance" not in json.loads((runs / run_id(NIGHTS) / "run.json").read_text())
    assert "run.json cannot be read" in kept[run_id(1)]
    assert run_id(2) in {folder.name for folder in planned.going}


RENAMED_IN = 4


@pytest.fixture
def renamed(tmp_path: Path) -> Path:
    """node01, which fails in every other night, is called login01 from the fifth night on, and
    another machine is called node01 in the last, the sixth."""
    for night in range(6):
        name = "login01" if night >= RENAMED_IN else "node01"
        legs = [factories.leg(), factories.leg("p2p_off", 40.0), factories.leg("net", 9.0)]
        record = factories.gpu_host(
            name, legs, **{"power_limit_w": (3, 400.0)} if night % 2 else {}
        )
        assert record.report
        for gpu in record.report.facts["gpus"]:
            gpu["uuid"] = f"GPU-of-it-{gpu['index']}"
        hosts = [record, with_gpus(factories.gpu_host("node02"))]
        hosts += [with_gpus(factories.gpu_host("node01"))] if night == 5 else []
        write_night(tmp_path, night, *hosts)
    return tmp_path


def test_a_renamed_host_keeps_its_past(renamed: Path) -> None:
    last = read_run(renamed / run_id(5))
    with History.open(renamed, before=run_id(5)) as history:
        names = names_of(history, last)
        past = past_of(history, names, last.meta.started, shipped().checks)
        shown = last_runs(history, assess(last, shipped()).judgement, names, last.meta.started)
    rows = {of.host: past.values[row] for row, of in enumerate(past.series) if of.size_bytes}
    assert np.isfinite(rows["login01"]).all()
    assert "node01" not in rows  # what was called so then is login01 now
    assert [len(each.outcomes) for each in shown.values()] == [5]
    assert list(shown) == ["login01"]


def test_a_renamed_host_is_one_host_to_all_commands(renamed: Path) -> None:
    with History.open(renamed) as history:
        lines = {each.host: each for each in host_lines(history)}
        assert {host: each.runs for host, each in lines.items()} == {
            "login01": 6,
            "node02": 6,
            "node01": 1,
        }
        assert lines["login01"].flaps == ("power_cap of gpu3 (3 times)",)
        shown = trend(history, metric_named(history, "all_reduce.busbw_gbps"), host="login01")
        assert len(shown.points) == 6
        assert {point.host for point in shown.points} == {"login01"}
        assert [mark.text() for mark in shown.marks] == [
            "2026-01-05 login01: name node01 -> login01"
        ]
        green = compare_last_green(history, run_id(RENAMED_IN), shipped().checks)
        assert green.before == {"login01": run_id(2), "node02": run_id(3)}
        two = compare(history, run_id(2), run_id(RENAMED_IN), shipped().checks)
        assert [each.text() for each in two.changes] == ["name: node01 -> login01"]
        back = compare(history, run_id(RENAMED_IN), run_id(2), shipped().checks)
        assert [each.text() for each in back.changes] == ["name: login01 -> node01"]
        figures = compare(history, run_id(0), run_id(5), shipped().checks).before
        assert figures == {"login01": run_id(0), "node02": run_id(0)}
        values = last_values(history, metric_named(history, "all_reduce.busbw_gbps"))
        assert [len(values[host]) for host in ("login01", "node01")] == [6, 1]
