import pytest

from hwcheck.contract.busbw import busbw_factor
from hwcheck.explain.identity import ranks_of
from hwcheck.node.nccl_tests.records import (
    Table,
    TableRow,
    computed_ranks,
    listed_ranks,
    version_text,
)
from hwcheck.node.nccl_tests.text import read
from tests.node.nccl_tests.logs import MIB, device, header, row


@pytest.mark.parametrize(
    ("code", "text"),
    [(22703, "2.27.3"), (23007, "2.30.7"), (2804, "2.8.4"), (21005, "2.10.5")],
)
def test_versions_of_nccl(code, text):
    assert version_text(code) == text


def test_rows_that_move_no_data_are_not_timed():
    rows = [TableRow(size, size // 4, "float", "sum", -1, None, None) for size in (0, 4)]
    assert [row.size_bytes for row in Table(rows=rows).timed] == [4]
    assert rows[1].halves == []


def table(*lines):
    (found,) = read("\n".join(lines))
    return found


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 16, 96, 128])
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather"])
def test_the_ratio_of_one_large_row_holds_the_ranks(collective, ranks):
    factor = busbw_factor(collective, ranks)
    found = table("# all_x_perf", header(), row(64 * MIB, busbw=390.0, factor=factor))
    few, most = computed_ranks(found, collective)
    assert few <= ranks <= most
    assert most - few <= (0 if ranks <= 16 else 2)
    assert ranks_of(found, collective) == (ranks if few == most else None)


def test_one_rank_has_no_busbw():
    found = table("# all_reduce_perf", header(), row(MIB, busbw=0.0, factor=0.0))
    assert computed_ranks(found, "all_reduce") == (1, 1)


def test_a_factor_that_knows_no_ranks_tells_none():
    found = table("# broadcast_perf", header(), row(MIB, factor=1.0))
    assert computed_ranks(found, "broadcast") is None
    assert ranks_of(found, "broadcast") is None


def test_rows_that_contradict_each_other_tell_none():
    rows = (row(64 * MIB, factor=1.5), row(128 * MIB, factor=1.75))
    assert computed_ranks(table(header(), *rows), "all_reduce") is None


def test_the_last_rank_of_a_cut_list_counts():
    found = table(device(71), header(), row(64 * MIB, busbw=800.0, factor=2 * 71 / 72))
    assert listed_ranks(found) == 72
    assert ranks_of(found, "all_reduce") == 72


def test_arithmetic_wins_over_the_list_where_it_is_clear():
    found = table(device(3), header(), row(64 * MIB, busbw=300.0, factor=1.75))
    assert (listed_ranks(found), ranks_of(found, "all_reduce")) == (4, 8)
