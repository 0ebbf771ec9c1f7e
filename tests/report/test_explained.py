"""What ``explain`` shows on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hwcheck.explain.explain import explain
from hwcheck.explain.recommendation import Recommendation
from hwcheck.explain.sources import LogFile
from hwcheck.report.explained import explained
from tests.explain.matrices import gpus, square, tabs
from tests.factories import HOSTILE
from tests.node.nccl_tests import logs

NICS = tabs(square([*gpus(2), "mlx5_0"], ["PIX", "SYS", "SYS"]))


def shown(*texts: str, told: Recommendation | None = None, width: int = 100) -> str:
    entries = [entry for text in texts for entry in explain(LogFile("log.txt", text))]
    paper = io.StringIO()
    Console(file=paper, width=width).print(explained(entries, told), crop=False)
    return paper.getvalue()


def test_a_run_with_its_figure_and_notes() -> None:
    text = shown(logs.log())
    assert "log.txt  nccl-tests" in text
    assert "all_reduce on 4 ranks: done, busbw 16 GB/s out of place at 64 MiB" in text
    assert "- busbw still rises" in text


def test_a_run_without_a_figure_shows_none() -> None:
    text = shown(logs.started() + "\n" + logs.header())
    assert "all_reduce on 4 ranks: hang\n" in text


def test_wrong_elements_stand_beside_the_figure() -> None:
    assert "at 1 MiB, 5 wrong elements" in shown(
        logs.header() + "\n" + logs.row(1 << 20, checks=("5", "0"))
    )


@pytest.mark.parametrize("width", [20, 80])
def test_a_matrix_is_whole_on_any_terminal(width: int) -> None:
    lines = shown(NICS, width=width).splitlines()
    assert "          GPU0  GPU1  mlx5_0" in lines
    assert "  GPU1    PIX   X     SYS" in lines


def test_a_wide_matrix_is_left_to_its_notes() -> None:
    text = shown(tabs(square(gpus(24), ["NV6"])))
    assert "GPU1  " not in text
    assert "every pair has NV6" in text


def test_the_recommendation_comes_last() -> None:
    text = shown(NICS, told=Recommendation({"NCCL_P2P_LEVEL": "NVL"}, ("because",)))
    assert text.endswith("NCCL: NCCL_P2P_LEVEL=NVL\n  - because\n")
    assert "NCCL: leave everything unset" in shown(NICS, told=Recommendation({}, ("why",)))


def test_a_file_that_is_not_known() -> None:
    assert "not known" in shown("no log")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_does_not_act(hostile: str) -> None:
    text = shown(
        f"mpirun was unable to run all_reduce_perf {hostile}",
        f"node7:1:2 [0] NCCL INFO NCCL_ALGO set by environment to {hostile}",
        f"node7:1:2 [0] NCCL WARN {hostile}",
        NICS.replace("mlx5_0", "mlx5_0").replace("GPU1\t", f"{hostile[:40]}\t", 1),
    )
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
