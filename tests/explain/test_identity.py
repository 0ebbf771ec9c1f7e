"""Which collective a table is of."""

import pytest

from hwcheck.explain.identity import collective_of
from hwcheck.node.nccl_tests.text import read
from tests.node.nccl_tests import logs
from tests.node.nccl_tests.logs import MIB, header, row


def table(*lines):
    (found,) = read("\n".join(lines))
    return found


@pytest.mark.parametrize("lead", [logs.NEW, logs.OLD_REDUCE])
@pytest.mark.parametrize(("n", "name"), [(1, "all_reduce"), (4, "reduce_scatter")])
def test_a_reduction_is_told_by_its_count(lead, n, name):
    values = ("sum", "-1")[: len(lead)]
    assert collective_of(table(header(lead), row(MIB, lead=values, n=n))) == name


@pytest.mark.parametrize(
    ("lead", "values", "n", "checks", "name"),
    [
        (logs.NEW, ("none", "-1"), 4, ("0", "0"), "all_gather"),
        (logs.NEW, ("none", "-1"), 4, ("0", "N/A"), "alltoall"),
        (logs.NEW, ("none", "-1"), 4, ("N/A", "N/A"), ""),
        (logs.NEW, ("none", "-1"), 1, ("0", "0"), ""),
        (logs.NEW, ("none", "0"), 1, ("0", "0"), "broadcast"),
        (logs.NEW, ("sum", "0"), 1, ("0", "0"), "reduce"),
        (logs.NEW, ("none", "0"), 4, ("0", "0"), ""),
        (logs.OLD_GATHER, (), 4, ("N/A", "N/A"), "all_gather"),
        (logs.OLD_BROADCAST, ("0",), 1, ("N/A", "N/A"), "broadcast"),
    ],
)
def test_what_only_one_collective_can_print(lead, values, n, checks, name):
    assert collective_of(table(header(lead), row(MIB, lead=values, n=n, checks=checks))) == name


@pytest.mark.parametrize("program", ["all_reduce_perf", "all_reduce_perf_mpi"])
def test_the_name_of_the_program_decides(program):
    text = f"# Collective test starting: {program}"
    assert collective_of(table(text, header(), row(MIB, n=4))) == "all_reduce"
