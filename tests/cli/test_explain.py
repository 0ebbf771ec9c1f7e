"""``hwcheck explain`` as its user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from hwcheck.cli.root import call
from tests.explain.matrices import gpus, square, tabs
from tests.node.nccl_tests import logs
from tests.node.nccl_tests.logs import FOOTER, MIB, header, row, started

HWCHECK = Path(sys.executable).parent / "hwcheck"


def started_program(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HWCHECK, "explain", *words], cwd=folder, capture_output=True, text=True, check=False
    )


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run it in this process, which has loaded what the program imports."""
    argv = ["explain", *words]
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        code = call(argv)
    return subprocess.CompletedProcess(argv, code, out.getvalue(), err.getvalue())


def listed(folder: Path, *words: str) -> list[dict[str, Any]]:
    done = run(folder, *words, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [row(MIB << step, busbw=24.0) for step in range(5, 9)]
    off = "\n".join([started(high=256 * MIB), header(), *rows, FOOTER])
    (tmp_path / "on.txt").write_text(off.replace("24.00", "20.00"))
    (tmp_path / "hang.txt").write_text(started() + "\n" + header())
    (tmp_path / "off.txt").write_text(off)
    (tmp_path / "topo.txt").write_text(tabs(square(gpus(4), ["NODE"])))
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 64)
    return tmp_path


def test_one_file(folder: Path) -> None:
    (entry,) = listed(folder, "off.txt")
    assert (entry["file"], entry["kind"]) == ("off.txt", "nccl-tests")
    assert entry["runs"][0]["peak_busbw_gbps"] == 24.0


def test_a_folder(folder: Path) -> None:
    kinds = {Path(entry["file"]).name: entry["kind"] for entry in listed(folder, ".")}
    assert kinds == {
        "binary": "unknown",
        "hang.txt": "nccl-tests",
        "off.txt": "nccl-tests",
        "on.txt": "nccl-tests",
        "topo.txt": "topology",
    }


def test_legs_give_a_recommendation_at_the_end(folder: Path) -> None:
    *entries, last = listed(
        folder, "hang.txt", "--leg", "p2p_off=off.txt", "--topology", "topo.txt"
    )
    assert [entry["file"] for entry in entries] == ["hang.txt", "off.txt", "topo.txt"]
    assert last["recommendation"]["env"] == {"NCCL_P2P_DISABLE": "1"}
    assert last["recommendation"]["reasons"]


def test_several_legs(folder: Path) -> None:
    *_, last = listed(folder, "hang.txt", "--leg", "p2p_off=off.txt", "--leg=net=hang.txt")
    assert last["recommendation"]["env"] == {}
    assert "P2P is not shown to be the cause" in last["recommendation"]["reasons"][0]


def test_a_leg_may_be_a_folder_with_a_log_for_each_collective(folder: Path) -> None:
    for leg, busbw in (("on", 20.0), ("off", 24.0)):
        rows = [row(MIB << step, busbw=busbw, factor=0.75, n=4) for step in range(5, 9)]
        a2a = "\n".join([started("alltoall_perf", high=256 * MIB), header(), *rows, FOOTER])
        (folder / leg).mkdir()
        (folder / leg / "a2a.txt").write_text(a2a)
        (folder / leg / "reduce.txt").write_text((folder / f"{leg}.txt").read_text())
    topology = ("--topology", "topo.txt")
    *_, alone = listed(folder, "on.txt", "--leg", "p2p_off=off.txt", *topology)
    assert alone["recommendation"]["env"] == {}
    *_, last = listed(folder, "on", "--leg", "p2p_off=off", *topology)
    assert last["recommendation"]["env"] == {"NCCL_P2P_DISABLE": "1"}


def test_text_for_people(folder: Path) -> None:
    words = ("hang.txt", "--leg", "p2p_off=off.txt", "--topology", "topo.txt")
    done = started_program(folder, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert run(folder, *words).stdout == done.stdout
    assert "all_reduce on 4 ranks: hang" in done.stdout
    assert "NCCL: NCCL_P2P_DISABLE=1" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gone.txt",), "gone.txt: No such file or directory; name a log, or a folder"),
        (("off.txt", "--leg", "off.txt"), "--leg off.txt: it takes a leg and its log"),
        (
            ("off.txt", "--leg", "p2p_of=off.txt"),
            "--leg p2p_of: no such leg; did you mean p2p_off?",
        ),
        (("off.txt", "--leg", "default=off.txt"), "--leg default: no such leg"),
        (("off.txt", "--leg", "net=gone.txt"), "gone.txt: No such file"),
        (("off.txt", "--topology", "gone.txt"), "gone.txt: No such file"),
        (("",), "the path is empty; name a log, or a folder with logs"),
        ((" ",), "the path is empty"),
        (("off.txt", "--topology", ""), "--topology is empty; name a file, or leave --topology"),
        (("off.txt", "--leg", ""), "--leg : it takes a leg and its log"),
        (("off.txt", "--leg", "net="), "--leg net=: it takes a leg and its log"),
        (
            ("off.txt", "--leg", "net=off.txt", "--leg", "net=on.txt"),
            "--leg net is given twice",
        ),
    ],
)
def test_bad_words_are_one_line(folder: Path, words: tuple[str, ...], said: str) -> None:
    done = run(folder, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_program_ends_with_the_same_code(folder: Path) -> None:
    done, here = (start(folder, "gone.txt") for start in (started_program, run))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", here.stderr)


def test_a_log_with_nothing_in_it_is_no_error(folder: Path) -> None:
    (folder / "empty").write_text("")
    (entry,) = listed(folder, "empty")
    assert (entry["kind"], entry["notes"]) == ("unknown", ["it is empty"])


def test_our_own_log_is_explained_as_any(folder: Path) -> None:
    (folder / "log.txt").write_text(logs.log())
    (entry,) = listed(folder, "log.txt")
    assert entry["runs"][0]["state"] == "done"
