"""What launchers say when a run did not come to its end."""

from __future__ import annotations

import pytest

from hwcheck.explain.broken_off import messages, reduced_bytes, why_no_proof
from hwcheck.node.nccl_tests.records import Table
from hwcheck.node.nccl_tests.text import read
from tests.node.nccl_tests.logs import FOOTER, MIB, header, row, started
from tests.proportion import assert_in_proportion


@pytest.mark.parametrize(
    "said",
    [
        "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 9 (Killed).",
        "[n1:12345] *** Process received signal ***",
        "[n1:12345] Signal: Segmentation fault (11)",
        "bash: line 1: 4711 Killed                  ./all_reduce_perf",
        "Segmentation fault (core dumped)",
        "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***",
        "srun: error: n1: task 0: Out Of Memory",
        "n1: Test CUDA failure common.cu:291 'an illegal memory access was encountered'",
        " .. n1 pid 1234: Test failure common.cu:1126",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "command terminated with exit code 137",
        "^C",
        "KeyboardInterrupt",
    ],
)
def test_an_end_before_the_end(said: str) -> None:
    assert messages("\n".join([header(), row(MIB), said])) == (" ".join(said.split()),)
    assert messages("\n".join([said, header(), row(MIB)])) == (), "said before the table"
    assert messages(said) == (), "without a table"


@pytest.mark.parametrize(
    "said",
    [
        "",
        "n1:1:2 [0] NCCL INFO Bootstrap: Received signal 0, exit code 1",
        "# Out of bounds values : 0 OK",
        "warning: the load of this machine is high",
    ],
)
def test_other_words_are_no_end(said: str) -> None:
    assert messages("\n".join([header(), row(MIB), said])) == ()


def table(*lines: str) -> Table:
    (found,) = read("\n".join(lines))
    return found


@pytest.mark.parametrize(
    ("sizes", "announced", "cut"),
    [
        ((1, 2, 4), 8, True),
        ((1, 2, 4), 7, False),
        ((1, 4, 16), 32, False),
        ((1, 4, 16), 64, True),
        ((1, 2, 3), 4, True),
        ((1, 2, 3), 3, False),
        ((8,), 16, True),
        ((8,), 15, False),
        ((1, 2, 4), None, False),
    ],
)
def test_whether_another_size_should_have_come(
    sizes: tuple[int, ...], announced: int | None, cut: bool
) -> None:
    rows = [row(size * MIB) for size in sizes]
    most = announced * MIB if announced else None
    assert bool(why_no_proof(table(header(), *rows), (), most)) is cut
    assert why_no_proof(table(header(), *rows, FOOTER), ("Killed",), most) == ""


def test_a_table_without_a_row_is_told_by_its_state() -> None:
    assert why_no_proof(table(started(), header()), ("Killed",), 64 * MIB) == ""


def test_a_size_that_does_not_fit_was_not_left_out() -> None:
    text = "# Reducing maxBytes to 2097152 due to memory limitation"
    assert reduced_bytes(text) == 2 * MIB
    assert reduced_bytes("") is None


@pytest.mark.parametrize("text", ["Killed " * 50_000, "Killed\n" * 50_000, "\n" * 200_000])
def test_hostile_text_is_read_in_bounded_time(text: str) -> None:
    assert len(messages(header() + "\n" + text)) <= 1
    assert_in_proportion(lambda part: messages(header() + "\n" + part), text)
