"""Values of flags; what they refuse is in test_bad_input.py as well."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.cli.flags import PROOF, select, timing
from hwcheck.cli.root import call
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import COLLECTIVES, CheckResult, Timing
from hwcheck.errors import UsageError
from tests.factories import gpu_host, saved

CHECKS = ["all_reduce", "driver", "gpu_count"]
ALL = ["all_gather", "all_reduce", "alltoall", "driver", "sendrecv"]
MIB = 1 << 20


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
        (None, None, ("sendrecv", "all_gather"), ("all_gather", "driver", "sendrecv")),
        (None, None, ("all",), tuple(ALL)),
        ("driver", None, None, ("driver",)),
        ("driver", None, ("sendrecv",), ("driver", "sendrecv")),
        ("sendrecv", None, None, ("sendrecv",)),
        (None, "alltoall", None, ("all_reduce", "driver")),
    ],
)
def test_collectives(
    only: str | None, skip: str | None, collectives: Sequence[str] | None, chosen: Sequence[str]
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


def test_no_flag_is_the_default() -> None:
    assert timing() == Timing()


def test_every_flag_is_carried() -> None:
    flags = {"minbytes": 8 * MIB, "maxbytes": 64 * MIB, "stepfactor": 4, "iters": 30}
    timed = timing(legs=("default", "net"), **flags, warmup_iters=0, datatype="bfloat16")
    assert timed == Timing(("default", "net"), 8 * MIB, 64 * MIB, 4, 30, 0, "bfloat16")


@pytest.mark.parametrize(
    ("flags", "least", "most"),
    [
        ({"minbytes": 2048 * MIB}, 2048 * MIB, 2048 * MIB),
        ({"minbytes": 64 * MIB}, 64 * MIB, 1024 * MIB),
        ({"maxbytes": 65536}, 65536, 65536),
        ({"maxbytes": 4096 * MIB}, MIB, 4096 * MIB),
    ],
)
def test_one_end_moves_the_other_where_it_must(
    flags: dict[str, int], least: int, most: int
) -> None:
    timed = timing(**flags)
    assert (timed.min_bytes, timed.max_bytes) == (least, most)


def test_ends_that_are_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(UsageError, match="--minbytes 2 MiB: it is more than --maxbytes 1 MiB"):
        timing(minbytes=2 * MIB, maxbytes=MIB)


def _report(out: Path, capsys, *flags: str, whole: bool) -> tuple[int, str]:
    host = gpu_host("a")
    assert host.report is not None
    if not whole:
        answers = tuple(
            CheckResult("driver", "could_not_measure", Reason("not_measured", "no answer in 5 s"))
            if one.check == "driver"
            else one
            for one in host.report.results
        )
        host = replace(host, report=replace(host.report, results=answers))
    code = call(["report", str(saved(out, host)), *flags])
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
