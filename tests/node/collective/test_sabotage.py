from __future__ import annotations

import os
import signal

import pytest

torch = pytest.importorskip("torch")

from hwcheck.node.collective import sabotage  # noqa: E402
from hwcheck.node.collective.operation import load  # noqa: E402


def test_only_the_last_rank_does_harm_and_after_the_run() -> None:
    done: list[object] = []
    harmless = load("all_reduce")
    made = sabotage.sabotaged(
        harmless.__class__(**(vars(harmless) | {"run": lambda *given: done.append(given[2])})),
        "prove_x",
        lambda target: done.append(target),
    )
    made.run(None, "target", 0, 2)
    assert done == [0]
    made.run(None, "target", 1, 2)
    assert done == [0, 1, "target"]
    assert made.name == "prove_x"


def test_one_element_is_damaged() -> None:
    data = torch.arange(5.0)
    sabotage.damage_one_element(data)
    assert data.tolist() == [1.0, 1.0, 2.0, 3.0, 4.0]


def test_a_stopped_process_neither_ends_nor_goes_on() -> None:
    pid = os.fork()
    if pid == 0:
        sabotage.stop_this_process(None)
        os._exit(0)
    _, status = os.waitpid(pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.parametrize("name", ["prove_wrong", "prove_hang"])
def test_a_broken_collective_is_all_reduce_but_for_its_run(name: str) -> None:
    broken, whole = load(name), load("all_reduce")
    assert broken.name == name
    assert broken.run is not whole.run
    assert (broken.sends, broken.holds, broken.placement) == (
        whole.sends,
        whole.holds,
        whole.placement,
    )
