"""The records of a table."""

import pytest

from hwcheck.node.nccl_tests.records import Row, Table, version_text


@pytest.mark.parametrize(
    ("code", "text"),
    [(22703, "2.27.3"), (23007, "2.30.7"), (2804, "2.8.4"), (21005, "2.10.5")],
)
def test_versions_of_nccl(code, text):
    assert version_text(code) == text


def test_rows_that_move_no_data_are_not_timed():
    rows = [Row(size, size // 4, "float", "sum", -1, None, None) for size in (0, 4)]
    assert [row.size_bytes for row in Table(rows=rows).timed] == [4]
    assert rows[1].halves == []
