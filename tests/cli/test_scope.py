"""``--scope``, as its user gives it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hwcheck.cli.root import parse
from hwcheck.cli.scope import multi_host_options
from hwcheck.contract.wire import COLLECTIVES, Timing
from hwcheck.errors import UsageError
from hwcheck.results.multi_host import MultiHostRecord, read_multi_host, write_multi_host
from hwcheck.results.options import MultiHostOptions
from tests.cli.test_validate import hwcheck, the_run


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ([], ("node",)),
        (["--scope", "node"], ("node",)),
        (["--scope", "all, pairs"], ("pairs", "all")),
        (["--scope", "rails,node"], ("node", "rails")),
    ],
)
def test_scopes(words: list[str], chosen: tuple[str, ...]) -> None:
    (ctx,) = parse(["validate", *words])
    assert ctx.params["scope"] == chosen


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("pair", "--scope pair: no such scope; did you mean pairs?"),
        (" , ", "--scope ' , ' names no scope; leave --scope out to measure each node"),
    ],
)
def test_a_scope_that_is_none(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse(["validate", "--scope", text])
    assert str(refusal.value) == problem


NOTHING: dict[str, Any] = {
    **dict.fromkeys(("only", "skip", "collectives")),
    **dict.fromkeys(("minbytes", "maxbytes", "stepfactor", "iters", "warmup_iters")),
    "engine": "torch",
}


def asked(
    chosen: tuple[str, ...] = ("all",), timed: Timing | None = None, **given: Any
) -> MultiHostOptions:
    return multi_host_options(chosen, timed or Timing(), {**NOTHING, **given})


def test_what_is_not_said_is_left_to_the_backend() -> None:
    assert asked() == MultiHostOptions()
    assert asked(("node",), engine="nccl-tests", only="kernel") == MultiHostOptions(), (
        "no run over hosts"
    )


def test_the_flags_of_nccl_tests_reach_the_runs_over_hosts() -> None:
    timed = Timing(("site",), 1 << 20, 1 << 23, 4, 50, 3, "bfloat16")
    found = asked(
        ("node", "all"),
        timed,
        collectives=("all_reduce", "alltoall"),
        minbytes=1 << 20,
        iters=50,
        warmup_iters=3,
    )
    assert found == MultiHostOptions(
        ("all_reduce", "alltoall"), (1 << 20, 1 << 22), 50, 3, "bfloat16", "site"
    )
    assert asked(collectives=("all",)).collectives == COLLECTIVES
    assert asked(("node", "all"), Timing(("default", "net"))).leg == "default"


@pytest.mark.parametrize(
    ("chosen", "timed", "given", "problem"),
    [
        (
            ("node", "all"),
            {},
            {"engine": "nccl-tests"},
            "--engine nccl-tests: it times single nodes",
        ),
        (("all",), {}, {"only": "kernel"}, "--only: it is about single nodes"),
        (("all",), {}, {"skip": "kernel"}, "--skip: it is about single nodes"),
        (("all",), {"legs": ("net",)}, {}, "--legs net: a run over hosts takes one"),
        (
            ("node", "all"),
            {"legs": ("default", "site")},
            {},
            "--legs default,site: a run over hosts takes one",
        ),
        (("all",), {"iterations": 1001}, {"iters": 1001}, "--iters 1001: at most 1000"),
    ],
)
def test_what_has_no_effect_is_refused(
    chosen: tuple[str, ...], timed: dict[str, Any], given: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UsageError) as refusal:
        asked(chosen, Timing(**timed), **given)
    assert str(refusal.value).startswith(problem)
    assert "\n" not in str(refusal.value)


def test_the_command_refuses_it_too(alone: Path) -> None:
    inventory = ("validate", "--hosts", str(alone), "--scope", "all")
    done = hwcheck(alone.parent, *inventory, "--engine", "nccl-tests")
    assert done.returncode == 2
    assert done.stderr.startswith("hwcheck: --engine nccl-tests: it times single nodes")
    assert not (alone.parent / "runs").exists()


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """An inventory of one host, which is no group."""
    file = tmp_path / "cluster.yml"
    file.write_text(
        "all:\n  hosts:\n    node01:\n      ansible_connection: local\n"
        '      ansible_python_interpreter: "{{ ansible_playbook_python }}"\n'
    )
    return file


def test_one_host_is_not_proven_by_a_scope_over_several(alone: Path) -> None:
    folder = alone.parent
    done = hwcheck(folder, "validate", "--hosts", str(alone), "--scope", "pairs", "--json")
    assert done.returncode == 3, done.stderr
    summary = json.loads(done.stdout)
    assert summary["group"]["scopes"] == ["pairs"]
    assert "fewer than two hosts took part" in summary["host_results"][0]["reason"]
    record = read_multi_host(the_run(folder))
    assert record is not None
    assert (record.runs, record.finished) == ((), True)


def test_without_a_scope_there_is_no_group(alone: Path) -> None:
    folder = alone.parent
    done = hwcheck(folder, "validate", "--hosts", str(alone), "--only", "kernel", "--json")
    assert "group" not in json.loads(done.stdout)
    assert read_multi_host(the_run(folder)) is None


def test_a_damaged_group_ends_a_report_with_one_line(alone: Path) -> None:
    folder = alone.parent
    hwcheck(folder, "validate", "--hosts", str(alone), "--only", "kernel")
    run = the_run(folder)
    write_multi_host(run, MultiHostRecord(("all",), ("node01",)))
    assert hwcheck(folder, "report", str(run)).returncode == 3, "cut short, so not proven"
    (run / "group.json").write_text("{}")
    done = hwcheck(folder, "report", str(run))
    assert done.returncode == 2
    assert done.stderr.startswith("hwcheck: damaged run folder: ")
    assert "Traceback" not in done.stderr


def test_the_flag_is_in_the_help() -> None:
    program = Path(sys.executable).parent / "hwcheck"
    done = subprocess.run(
        [program, "--help", "validate"], capture_output=True, text=True, check=True
    )
    assert "--scope" in done.stdout
