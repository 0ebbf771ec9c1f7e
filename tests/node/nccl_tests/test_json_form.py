"""The reader of nccl-tests' JSON report."""

import json

import pytest

from hwcheck.explain.identity import collective_of, ranks_of
from hwcheck.node.nccl_tests.json_form import read
from hwcheck.node.nccl_tests.records import computed_ranks, listed_ranks


def half(busbw, nwrong=0.0, time="time"):
    return {
        time: 1048576 / busbw * 1.5e-3,
        "alg_bw": busbw / 1.5,
        "bus_bw": busbw,
        "nwrong": nwrong,
    }


def result(size=1048576, **changes):
    base = {
        "size": size,
        "count": size // 4,
        "type": "float",
        "redop": "sum",
        "root": "    -1",
        "out_of_place": half(12.25),
        "in_place": half(12.5),
        "actual_iterations": 20,
        "experiment_name": "AllReduce",
    }
    return base | changes


def report(**changes):
    base = {
        "version": 3,
        "args": ["/opt/nccl-tests/build/all_reduce_perf", "-g", "4"],
        "env": ["SECRET=hunter2"],
        "nccl_version": 22703,
        "config": {
            "ngpus": 4,
            "minimum_bytes": 1048576,
            "maximum_bytes": 2097152,
            "iterations": 20,
            "validation": 1,
            "devices": [
                {
                    "rank": 3,
                    "device": 3,
                    "hostname": "n",
                    "device_hex": "0000:1a:00",
                    "device_info": "X",
                }
            ],
        },
        "results": [result(), result(2097152)],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 12.3, "okay": "unchecked"},
        "errors": [],
        "end_time": "2026-01-01 00:00:00",
    }
    return json.dumps(base | changes)


def test_a_whole_report():
    table = read(report())
    assert (table.program, table.library) == ("all_reduce_perf", "2.27.3")
    assert collective_of(table) == "all_reduce"
    assert (table.min_bytes, table.max_bytes, table.iterations) == (1048576, 2097152, 20)
    assert [row.size_bytes for row in table.rows] == [1048576, 2097152]
    assert table.rows[0].root == -1
    assert (table.rows[0].in_place.busbw_gbps, table.rows[0].in_place.wrong) == (12.5, 0)
    assert computed_ranks(table, "all_reduce") == (4, 4)
    assert ranks_of(table, "all_reduce") == 4
    assert table.bounds_failed == 0
    assert table.ended
    assert not table.average_failed


@pytest.mark.parametrize(
    ("threads", "gpus", "listed", "ranks"),
    [
        (1, 4, [0], 4),  # one process with four GPUs
        (2, 2, [0], 4),
        (1, 4, [0, 4], 8),  # two such processes
        (1, 1, [0, 1, 2, 3], 4),  # four processes with one GPU each
        (1, 4, [0, 1, 2, 3], 4),  # every rank listed
    ],
)
def test_the_first_device_of_a_process_stands_for_all_of_it(threads, gpus, listed, ranks):
    devices = [{"rank": rank, "device": rank, "hostname": "n"} for rank in listed]
    config = {"nthreads": threads, "ngpus": gpus, "devices": devices}
    assert listed_ranks(read(report(config=config))) == ranks


def test_nothing_of_the_environment_is_kept():
    assert "hunter2" not in repr(read(report()))


def test_unchecked_data_and_halves_that_are_not_there():
    changed = result(out_of_place=half(12.0, None), in_place=None)
    row = read(report(results=[changed])).rows[0]
    assert (row.out_of_place.wrong, row.in_place) == (None, None)


def test_a_time_of_the_cpu_is_a_time():
    row = read(report(results=[result(out_of_place=half(12.0, time="cpu_time"))])).rows[0]
    assert row.out_of_place.time_us > 0


@pytest.mark.parametrize("value", ["nan", None, True, 10**40, "12"])
def test_what_is_no_number_is_none(value):
    changed = result(out_of_place={**half(12.0), "bus_bw": value})
    row = read(report(results=[changed])).rows[0]
    assert row.out_of_place.busbw_gbps is None


def test_wrong_data():
    table = read(report(out_of_bounds={"count": 0, "okay": "false"}))
    assert table.bounds_failed == 1
    table = read(report(results=[result(out_of_place=half(12.0, 17.0))]))
    assert table.rows[0].out_of_place.wrong == 17


def test_errors_are_kept_short():
    table = read(report(errors=["a\nb" * 1000, 7, " "]))
    assert len(table.failures) == 1
    assert len(table.failures[0]) == 200


def test_a_report_without_an_end_has_no_footer():
    cut = json.loads(report())
    del cut["out_of_bounds"], cut["average_bus_bandwidth"], cut["end_time"]
    assert not read(json.dumps(cut)).ended


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"results": 3}', "[" * 100_000, report()[:-200], '"results"', "\0"],
)
def test_what_is_no_report_is_none(text):
    assert read(text) is None


@pytest.mark.parametrize(
    "row",
    [3, None, {}, {"size": -1}, {"size": 10**30, "count": 1}, {"size": 4, "count": 1}],
)
def test_a_row_that_is_none_is_counted(row):
    table = read(report(results=[result(), row]))
    assert (len(table.rows), table.damaged) == (1, 1)
