"""What a table of nccl-tests comes to: state, figure, wrong elements, notes."""

from __future__ import annotations

import pytest

from hwcheck.explain.benchmark import runs_of
from hwcheck.explain.explain import explain
from hwcheck.explain.records import BenchmarkRun, Benchmarks
from hwcheck.explain.sources import LogFile
from hwcheck.node.nccl_tests.text import read
from tests.node.nccl_tests import logs
from tests.node.nccl_tests.logs import FOOTER, MIB, device, header, row, started


def one(*lines: str) -> BenchmarkRun:
    (run,) = runs_of(read("\n".join(lines)))
    return run


def whole(*lines: str) -> BenchmarkRun:
    """The one run of a log as ``explain`` reads it."""
    (entry,) = explain(LogFile("f", "\n".join(lines)))
    assert isinstance(entry, Benchmarks)
    return entry.runs[0]


def said(run: BenchmarkRun, part: str) -> bool:
    return any(part in note for note in run.notes)


def test_a_clean_run() -> None:
    run = one(logs.log())
    assert (run.collective, run.ranks, run.state) == ("all_reduce", 4, "done")
    assert (run.peak_busbw_gbps, run.peak_bytes, run.wrong) == (16.0, 64 * MIB, 0)
    assert list(run.to_dict()) == [
        "collective",
        "ranks",
        "peak_busbw_gbps",
        "peak_place",
        "peak_bytes",
        "wrong",
        "state",
        "notes",
    ]


def test_the_peak_is_the_better_half_of_the_largest_size() -> None:
    rows = (row(MIB, busbw=30.0), row(2 * MIB, busbw=20.0, inside=22.0))
    run = one(started(), header(), *rows, FOOTER)
    assert (run.peak_busbw_gbps, run.peak_bytes) == (22.0, 2 * MIB)
    assert run.peak_place == "in place"
    assert one(header(), row(MIB, busbw=30.0, inside=29.0)).peak_place == "out of place"
    assert one(header(), row(MIB, busbw=30.0, inside=30.0)).peak_place == "out of place"
    assert said(run, "higher before: 30 GB/s at 1 MiB")
    assert said(run, "busbw at 2 MiB: out of place 20, in place 22 GB/s")


def test_a_curve_that_still_rises() -> None:
    rows = (row(MIB, busbw=10.0), row(2 * MIB, busbw=11.0))
    assert said(one(header(), *rows), "still rises at 2 MiB")
    flat = (row(MIB, busbw=10.0), row(2 * MIB, busbw=10.1))
    assert not said(one(header(), *flat), "still rises")


def test_a_spread_at_a_large_size_is_named() -> None:
    rows = (row(64 * MIB, busbw=200.0, inside=140.0), row(128 * MIB, busbw=202.0))
    assert said(one(header(), *rows), "in place only 140 GB/s at 64 MiB, beside 200")
    small = (row(MIB, busbw=200.0, inside=140.0), row(128 * MIB, busbw=202.0))
    assert not said(one(header(), *small), "spread")


def test_a_healthy_all_gather_whose_redop_is_empty_is_not_corrupt() -> None:
    """Such long times have no decimals, so a row that is shifted by one still reads."""
    rows = [
        row((1 << 30) << step, lead=("", "-1"), busbw=0.2, factor=0.75, checks=check, n=4)
        for step, check in enumerate((("0e+00", "0e+00"), ("0", "0")))
    ]
    assert rows[0].split()[4].isdigit()
    for check, each in zip(("error", "#wrong"), rows, strict=True):
        run = one(started("all_gather_perf"), header(check=check), each, FOOTER)
        assert (run.state, run.ranks, run.peak_busbw_gbps) == ("done", 4, 0.2)
        assert (run.table.rows[0].redop, run.table.rows[0].root) == ("none", -1)
        assert run.table.damaged == 0


@pytest.mark.parametrize("words", [5, 6, 7, 8, 9])
def test_a_header_that_is_cut_short_is_damaged_and_says_by_what(words: int) -> None:
    whole = header().splitlines()[0].split()
    cut = " ".join([*whole[:4], *whole[4 : 4 + words]])
    run = one(started(), cut.replace("# size count type", "#  size   count   type"), row(MIB))
    assert (run.state, run.peak_busbw_gbps, run.wrong) == ("damaged", None, None)
    words_of = f"the header has {words} columns after the type, and a row 10"
    assert run.notes[0] == f"damaged: none of its 1 row can be read ({words_of})"


def test_rows_that_do_not_agree_with_the_header_are_left_out_and_counted() -> None:
    run = one(started(), header(), row(MIB), row(2 * MIB) + "  7  8", row(4 * MIB), FOOTER)
    assert (run.state, run.peak_bytes) == ("done", 4 * MIB)
    assert said(run, "1 row left out: the header has 10 columns after the type, and a row 12")


def test_alltoallv_is_read_as_the_others() -> None:
    rows = [
        row(MIB << step, lead=("none", "-1"), busbw=10.0 + step, factor=0.75, checks=("0", "N/A"))
        for step in range(7)
    ]
    run = one(started("alltoallv_perf"), header(), *rows, FOOTER)
    assert (run.collective, run.ranks, run.state, run.wrong) == ("alltoallv", 4, "done", 0)
    assert (run.peak_busbw_gbps, run.peak_bytes) == (16.0, 64 * MIB)


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ([header(), row(MIB, checks=("3", "4")), "# Out of bounds values : 2 FAILED"], 7),
        ([header(), row(MIB, checks=("3", "N/A"))], 3),
        ([header(), row(MIB), "# Out of bounds values : 2 FAILED"], None),
        ([header(check="error"), row(MIB, checks=("5e-07", "1e-03"))], None),
    ],
)
def test_wrong_data_in_each_form(lines: list[str], wrong: int | None) -> None:
    run = one(*lines)
    assert (run.state, run.wrong) == ("corrupt", wrong)
    assert "wrong data" in run.notes[0]


def test_a_small_deviation_is_no_wrong_element() -> None:
    run = one(header(check="error"), row(MIB, checks=("5e-07", "1e-06")), FOOTER)
    assert (run.state, run.wrong) == ("done", None)
    assert said(run, "not a count of wrong elements")


@pytest.mark.parametrize(
    "lines",
    [
        [header(), row(MIB, checks=("N/A", "N/A")), FOOTER],
        [started(validation=0), header(), row(MIB), FOOTER],
    ],
)
def test_unchecked_data_is_said(lines: list[str]) -> None:
    run = one(*lines)
    assert run.state == "unchecked"


def test_unchecked_in_place_only_is_checked() -> None:
    assert one(header(), row(MIB, checks=("0", "N/A"))).state == "done"


def test_a_table_without_a_row_is_a_hang_and_no_zero() -> None:
    run = one(started(), header())
    assert (run.state, run.peak_busbw_gbps, run.wrong, run.ranks) == ("hang", None, None, 4)


@pytest.mark.parametrize(
    "lines",
    [
        ["mpirun was unable to launch the specified application", "  ./build/all_reduce_perf"],
        [started(), header(), "node7: Test NCCL failure common.cu:958 'unhandled system error'"],
    ],
)
def test_a_failure_is_told_from_a_hang(lines: list[str]) -> None:
    run = one(*lines)
    assert (run.state, run.peak_busbw_gbps) == ("launch-failed", None)
    assert said(run, "it said: ")


def test_one_rank_has_no_bus_bandwidth() -> None:
    run = one(started(ranks=1), header(), row(MIB, busbw=0.0, factor=0.0), FOOTER)
    assert (run.state, run.ranks, run.peak_busbw_gbps) == ("single-rank", 1, None)


def test_processes_that_each_measured_alone_are_one_run() -> None:
    lines = [started(ranks=1), header(), row(MIB, busbw=0.0, factor=0.0), FOOTER]
    text = "\n".join(lines)
    marked = (f"[1,{rank}]<stdout>:{line}" for line in text.splitlines() for rank in range(3))
    run = one(*marked)
    assert run.state == "single-rank"
    assert "3 processes each measured alone" in run.notes[0]
    mixed = one(started(ranks=1), header(), started(ranks=1), header(), lines[2], lines[2])
    assert said(mixed, "2 processes each measured alone")


def test_ranks_that_do_not_fit_the_figures() -> None:
    run = one(device(3), header(), row(64 * MIB, busbw=300.0, factor=1.75))
    assert run.ranks == 8
    assert said(run, "means 8 ranks, and the device list ends at 4")


def test_ranks_on_one_gpu_are_no_bandwidth_test() -> None:
    twins = (device(0, index=0, bus="0000:09:00"), device(1, index=0, bus="0000:09:00"))
    assert said(one(*twins, header(), row(MIB, factor=1.0)), "ranks 0 and 1 share one GPU")
    apart = (device(0, "a", 0, "0000:09:00"), device(1, "b", 0, "0000:09:00"))
    assert not said(one(*apart, header(), row(MIB, factor=1.0)), "share one GPU")


@pytest.mark.parametrize(
    ("high", "end", "note"),
    [
        (64 * MIB, FOOTER, ""),
        (64 * MIB, "", "no footer: its counts"),
        (512 * MIB, "", "end at 64 MiB of 512 MiB and no footer follows"),
        (MIB, FOOTER, "announced up to 1 MiB, and the rows go to 64 MiB"),
    ],
)
def test_what_the_end_of_a_log_tells(high: int, end: str, note: str) -> None:
    run = one(started(high=high), header(), row(64 * MIB), end)
    assert run.state == "done"
    assert said(run, note) if note else not said(run, "footer")


KILLED = "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 9 (Killed)."
FAILED = "n1: Test NCCL failure common.cu:959 'unhandled cuda error / '"


@pytest.mark.parametrize("said", [KILLED, FAILED])
def test_a_run_that_was_killed_is_not_done(said: str) -> None:
    lines = (started(high=64 * MIB), header(), row(MIB), row(2 * MIB))
    run = whole(*lines, said)
    assert run.state == "launch-failed"
    assert run.notes[0].startswith("it broke off after 2 MiB: " + said[:40])
    assert run.no_proof
    assert (run.peak_busbw_gbps, run.peak_bytes) == (20.0, 2 * MIB), "what it measured is told"
    assert whole(*lines, FOOTER, said).state == "done", "the footer comes after the last row"
    assert whole(said, *lines).state == "done", "what was said before the table is of another run"


def test_wrong_data_stays_wrong_where_the_run_was_killed() -> None:
    run = whole(started(), header(), row(MIB, checks=("3", "0")), KILLED)
    assert (run.state, run.wrong) == ("corrupt", 3)


def test_no_row_and_a_kill_is_no_hang() -> None:
    """Whoever killed it may have been short of memory, or of patience."""
    assert whole(started(), header()).state == "hang"
    assert whole(started(), header(), "Killed").state == "launch-failed"


def test_a_log_that_is_cut_proves_no_clean_run() -> None:
    cut = one(started(high=512 * MIB), header(), row(64 * MIB))
    assert (cut.state, bool(cut.no_proof)) == ("done", True)
    ended = one(started(high=512 * MIB), header(), row(64 * MIB), FOOTER)
    reached = one(started(high=64 * MIB), header(), row(64 * MIB))
    assert (ended.no_proof, reached.no_proof) == ("", "")


def test_an_average_is_no_verdict() -> None:
    run = one(header(), row(MIB), "# Avg bus bandwidth    : 3 FAILED")
    assert run.state == "done"
    assert said(run, "NCCL_TESTS_MIN_BW")


def test_a_collective_that_its_columns_tell_is_said_to_be_told_by_them() -> None:
    run = one(header(), row(MIB))
    assert run.collective == "all_reduce"
    assert said(run, "the log names no program")
    assert one(header(), row(MIB, lead=("none", "-1"))).collective is None
