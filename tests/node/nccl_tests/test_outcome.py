"""From the end of a program and its table to a leg's state and figures."""

import pytest

from hwcheck.contract.collective_spec import MIB, CollectiveSpec
from hwcheck.node.nccl_tests.outcome import outcome, timing
from hwcheck.node.nccl_tests.process import ProgramResult
from hwcheck.node.nccl_tests.text import read
from tests.node.nccl_tests import logs
from tests.node.nccl_tests.logs import device, header, row

SPEC = CollectiveSpec(
    ("all_reduce",), ranks=4, gpus=4, budget_s=60.0, memory_available_bytes=1 << 34
)


def ended(code=0, why="", stuck=False):
    return ProgramResult(code, "", why, stuck, 1.0)


def one(*lines):
    (table,) = read("\n".join(lines))
    return table


def said(collective="all_reduce", table=None, **changes):
    return outcome(collective, SPEC, ended(**changes), table or one(logs.log()))


def test_a_clean_end():
    found = said()
    assert (found.state, found.reason, found.notes) == ("done", "", ())
    assert len(found.sizes) == 7
    assert found.sizes[-1].iterations == 25


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, "it ended with code 3 (an NCCL error), after 64 MiB was finished"),
        (42, "it ended with code 42 (not documented)"),
        (-9, "it was killed by SIGKILL"),
        (-63, "it was killed by signal 63"),
    ],
)
def test_an_end_that_is_none_is_a_failure(code, words):
    found = said(code=code)
    assert found.state == "failed"
    assert words in found.reason


def test_wrong_data_speaks_for_itself_whatever_the_code():
    table = one(header(), row(MIB, checks=("3", "0")), "# Out of bounds values : 1 FAILED")
    found = said(table=table, code=7)
    assert (found.state, found.sizes[0].all_wrong) == ("done", 3)


def test_a_program_that_does_not_die_is_noted():
    found = said(why="time", stuck=True)
    assert found.state == "hang"
    assert "the program does not die: it is stuck in the kernel" in found.notes


def test_a_list_of_other_ranks_is_another_measurement():
    table = one(device(7), header(), row(MIB, factor=1.0))
    found = said("broadcast", table)
    assert (found.state, found.reason) == ("failed", "it lists 8 ranks, not 4")
    assert said("broadcast", one(device(3), header(), row(MIB, factor=1.0))).state == "done"


def test_rows_left_out_are_noted():
    table = one(header(), row(MIB), row(2 * MIB)[:60] + "node7:1:2 [0] NCCL INFO x", logs.FOOTER)
    assert said(table=table).notes == ("rows left out: 1 (other output runs into them)",)


def test_a_deviation_is_no_check_of_the_engine():
    table = one(header(check="error"), row(MIB, checks=("0e+00", "0e+00")))
    assert "are not checked" in said(table=table).reason


def test_rates_follow_from_the_time():
    (found,) = one(header(), row(64 * MIB, busbw=30.0, inside=24.0)).rows
    timed = timing(found, 1.5, 20)
    assert timed.algbw_gbps == pytest.approx(64 * MIB / timed.time_us / 1e3)
    assert timed.busbw_gbps == pytest.approx(30.0, rel=0.001)
    assert timed.in_place.busbw_gbps == pytest.approx(24.0, rel=0.001)
    assert timed.spread == pytest.approx(0.25, rel=0.01)


def test_what_nobody_compared_is_none_unless_told_what_it_counts_as():
    (found,) = one(header(), row(MIB, checks=("N/A", "N/A"))).rows
    assert timing(found, 1.5, 20) is None
    assert timing(found, 1.5, 20, unchecked=0).wrong == 0


def test_sizes_that_leave_nothing_for_each_rank_are_not_run():
    table = one(header(), row(0, busbw=0.0), row(0, busbw=0.0), logs.FOOTER)
    found = said("all_gather", table)
    assert (found.state, found.sizes) == ("not_run", ())
    assert found.reason == "every size has less than 16 bytes for each rank"


def test_there_is_no_percentile_where_the_tool_tells_a_mean():
    (found,) = one(header(), row(64 * MIB, busbw=30.0)).rows
    assert timing(found, 1.5, 20).time_p95_us is None
