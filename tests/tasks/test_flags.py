"""Values of flags; what they refuse is in test_bad_input.py as well."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.node.reasons import Reason
from hwcheck.node.wire import COLLECTIVES, CheckResult, Timing
from hwcheck.tasks.command_line import program
from hwcheck.tasks.flags import PROOF, percent, seconds, select, size, timing, whole
from tests.factories import gpu_host, saved

CHECKS = ["all_reduce", "driver", "gpu_count"]
ALL = ["all_gather", "all_reduce", "alltoall", "driver", "sendrecv"]
MIB = 1 << 20
NO_FLAGS = dict.fromkeys(
    ("minbytes", "maxbytes", "stepfactor", "iters", "warmup_iters", "datatype"), ""
)


@pytest.mark.parametrize(
    ("text", "length_s"),
    [("90", 90), ("90s", 90), ("45m", 2700), ("1.5h", 5400), ("8h", 28800)],
)
def test_a_duration(text: str, length_s: float) -> None:
    assert seconds("--duration", text) == length_s


@pytest.mark.parametrize(
    "text", ["", "h", "8hh", "8 h", "-8h", "1h30m", "0", "inf", "nan", "1e400"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="it takes seconds, or 45m or 8h"):
        seconds("--duration", text)


def test_a_whole_number_has_a_least() -> None:
    assert whole("--forks", "1", 1) == 1
    with pytest.raises(UsageError, match="--forks 0: it takes a whole number from 1"):
        whole("--forks", "0", 1)


@pytest.mark.parametrize("text", ["1" + "0" * 400, "9" * 5000])
def test_a_number_beyond_all_sense_is_refused_and_not_shown_whole(text: str) -> None:
    with pytest.raises(UsageError, match="a whole number from 0, of at most 9 digits") as caught:
        whole("--timeout", text, 0)
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize(
    ("only", "skip", "chosen"),
    [
        (None, None, ("all_reduce", "driver", "gpu_count")),
        ("gpu_count, driver", None, ("driver", "gpu_count")),
        (None, "all_reduce", ("driver", "gpu_count")),
        ("driver,gpu_count", "driver", ("gpu_count",)),
    ],
)
def test_only_and_skip(only: str | None, skip: str | None, chosen: tuple[str, ...]) -> None:
    assert select(CHECKS, only, skip) == chosen


@pytest.mark.parametrize(
    ("only", "skip", "collectives", "chosen"),
    [
        (None, None, None, ("all_reduce", "alltoall", "driver")),
        (None, None, "sendrecv, all_gather", ("all_gather", "driver", "sendrecv")),
        (None, None, "all", tuple(ALL)),
        ("driver", None, None, ("driver",)),
        ("driver", None, "sendrecv", ("driver", "sendrecv")),
        ("sendrecv", None, None, ("sendrecv",)),
        (None, "alltoall", None, ("all_reduce", "driver")),
    ],
)
def test_collectives(
    only: str | None, skip: str | None, collectives: str | None, chosen: tuple[str, ...]
) -> None:
    assert select(ALL, only, skip, collectives) == chosen


def test_a_check_on_demand_runs_only_where_a_flag_names_it() -> None:
    checks = ["driver", "gate_proof"]
    assert select(checks, None, None) == ("driver",)
    assert select(checks, "gate_proof", None) == ("gate_proof",)
    assert select(checks, None, None, on_demand=PROOF) == ("driver", "gate_proof")
    assert select(checks, "driver", None, on_demand=PROOF) == ("driver", "gate_proof")
    with pytest.raises(UsageError, match="--skip gate_proof: another flag asks for it"):
        select(checks, None, "gate_proof", on_demand=PROOF)


def test_a_longer_profile_times_all() -> None:
    assert select(ALL, None, None, usual=COLLECTIVES) == tuple(ALL)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("allreduce", "--collectives allreduce: no such collective; did you mean all_reduce?"),
        ("", "--collectives '' names no collective; leave --collectives out to time the usual"),
    ],
)
def test_collectives_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        select(ALL, None, None, text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("only", "skip", "text"),
    [
        ("gpucount", None, "--only gpucount: no such check; did you mean gpu_count?"),
        ("", None, "--only '' names no check; leave --only out to run all"),
        ("driver", " ,", "--skip ' ,' names no check; leave --skip out to run all"),
        (None, "zzz", "--skip zzz: no such check; known: all_reduce, driver, gpu_count"),
        ("driver", "driver", "--skip leaves no check to run"),
    ],
)
def test_checks_that_are_refused(only: str | None, skip: str | None, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        select(CHECKS, only, skip)
    assert str(caught.value) == text


def timed(legs: str | None = None, **flags: str) -> Timing:
    return timing(legs=legs, **{**NO_FLAGS, **flags})


def test_no_flag_is_the_default() -> None:
    assert timed() == Timing()


def test_every_flag_is_carried() -> None:
    flags = {"minbytes": "8M", "maxbytes": "64M", "stepfactor": "4", "iters": "30"}
    timing_of = timed("net,default", **flags, warmup_iters="0", datatype="bfloat16")
    assert timing_of == Timing(("default", "net"), 8 * MIB, 64 * MIB, 4, 30, 0, "bfloat16")


@pytest.mark.parametrize(
    ("flags", "least", "most"),
    [
        ({"minbytes": "2G"}, 2048 * MIB, 2048 * MIB),
        ({"minbytes": "64M"}, 64 * MIB, 1024 * MIB),
        ({"maxbytes": "64K"}, 65536, 65536),
        ({"maxbytes": "4g"}, MIB, 4096 * MIB),
    ],
)
def test_one_end_moves_the_other_where_it_must(
    flags: dict[str, str], least: int, most: int
) -> None:
    assert (timed(**flags).min_bytes, timed(**flags).max_bytes) == (least, most)


@pytest.mark.parametrize(
    ("text", "count"),
    [("8", 8), ("64k", 65536), ("8MB", 8 * MIB), ("0.5G", 512 * MIB), ("1.5M", 3 * MIB // 2)],
)
def test_sizes_as_nccl_tests_takes_them(text: str, count: int) -> None:
    assert size("-b", text) == count


@pytest.mark.parametrize(
    "text", ["7", "", "1.M", "0.001K", "-1M", "1T", "65G", "M", "9" * 30, "\u0661M"]
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match=r"it takes bytes, or 64K, 8M, 0\.5G, from 8 B to 64 GiB"):
        size("-b", text)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"iters": "200000"}, "--iters 200000: at most 100000"),
        ({"stepfactor": "2000"}, "--stepfactor 2000: at most 1024"),
        ({"minbytes": "2M", "maxbytes": "1M"}, "--minbytes 2M: it is more than --maxbytes 1M"),
    ],
)
def test_sizes_and_counts_that_are_refused(flags: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        timed(**flags)


def test_one_iteration_is_taken_and_none_is_not() -> None:
    assert timed(iters="1").iterations == 1
    with pytest.raises(UsageError, match="whole number from 1"):
        timed(iters="0")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [(None, None), (True, 100.0), ("90", 90.0), ("99.5", 99.5), ("80%", 80.0), ("100", 100.0)],
)
def test_a_percentage_or_none_at_all(text, wanted) -> None:
    assert percent(text) == wanted


@pytest.mark.parametrize("text", ["0", "-1", "101", "all", "", "nan", "inf", "%"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="takes a percentage"):
        percent(text)


def _report(out: Path, capsys, *flags: str, whole: bool) -> tuple[int, str]:
    host = gpu_host("a")
    assert host.report is not None
    if not whole:
        answers = tuple(
            CheckResult("driver", "could_not_measure", Reason("unreadable", "no answer in 5 s"))
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
    coverage = json.loads(out)["coverage"]
    assert (
        coverage["percent"],
        coverage["required_percent"],
        coverage["shortfall"],
    ) == (100.0, 50.0, "")
