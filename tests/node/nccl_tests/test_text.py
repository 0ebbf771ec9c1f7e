"""The reader of nccl-tests' text, on each layout and on what launchers make of it."""

import re
import subprocess
from itertools import pairwise

import pytest

from hwcheck.node.nccl_tests.text import read, row_size
from tests.node.nccl_tests import logs
from tests.node.nccl_tests.logs import FOOTER, MIB, header, row, started
from tests.node.nccl_tests.stand_in import VERSIONS, install, records
from tests.proportion import assert_in_proportion


def one(text):
    (table,) = read(text)
    return table


def test_a_whole_log():
    table = one(logs.log())
    assert table.program == "all_reduce_perf"
    assert (table.tests_version, table.library) == ("2.18.3", "2.28.9")
    assert (table.min_bytes, table.max_bytes) == (MIB, 64 * MIB)
    assert (table.iterations, table.validation) == (25, 1)
    assert [device.bus for device in table.devices.values()][:2] == ["0000:11:00", "0000:12:00"]
    assert [each.size_bytes for each in table.rows] == [MIB << n for n in range(7)]
    last = table.rows[-1]
    assert (last.redop, last.root, last.dtype) == ("sum", -1, "float")
    assert (last.out_of_place.busbw_gbps, last.out_of_place.wrong) == (16.0, 0)
    assert table.bounds_failed == 0
    assert table.ended
    assert table.damaged == 0


@pytest.mark.parametrize(
    ("lead", "values"),
    [
        (logs.NEW, ("sum", "-1")),
        (logs.OLD_REDUCE, ("sum",)),
        (logs.OLD_BROADCAST, ("0",)),
        (logs.OLD_GATHER, ()),
    ],
)
def test_columns_are_taken_by_name(lead, values):
    table = one("\n".join([header(lead), row(MIB, lead=values, busbw=12.5)]))
    assert table.rows[0].in_place.busbw_gbps == 12.5
    assert table.rows[0].redop == ("sum" if "redop" in lead else None)
    assert table.rows[0].root == ({"-1": -1, "0": 0}[values[-1]] if "root" in lead else None)


def test_the_column_error_is_a_deviation_and_no_count():
    table = one("\n".join([header(check="error"), row(MIB, checks=("5e-07", "1e-06"))]))
    assert (table.rows[0].out_of_place.wrong, table.rows[0].out_of_place.delta) == (None, 5e-07)
    assert table.rows[0].in_place.delta == 1e-06


def test_large_counts_are_printed_with_an_exponent():
    table = one("\n".join([header(), row(MIB, checks=("1.5e+06", "N/A"))]))
    assert table.rows[0].out_of_place.wrong == 1_500_000
    assert table.rows[0].in_place.wrong is None


def test_columns_behind_the_known_ones_change_nothing():
    table = one("\n".join([header(extra=("#iters",)), row(MIB) + "      20"]))
    assert table.rows[0].in_place.busbw_gbps == 20.0


def test_per_iteration_columns_stand_between_the_halves():
    half = "time algbw busbw #wrong i_min i_max i_p99 i_cv%"
    text = f"# size count type redop root {half} {half}\n 1048576 262144 float sum -1 "
    text += "100.0 10.49 15.73 0 90.0 120.0 119.0 3.10 102.0 10.28 15.42 2 91.0 121.0 120.0 3.20"
    table = one(
        text.replace("size count", "size         count").replace("count type", "count  type")
    )
    assert table.rows[0].out_of_place.busbw_gbps == 15.73
    assert (table.rows[0].in_place.busbw_gbps, table.rows[0].in_place.wrong) == (15.42, 2)


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", "0: ", "    ", "   [1,3]<stdout>:", "\t"])
def test_prefixes_of_launchers(prefix):
    text = "\n".join(prefix + line for line in logs.log().splitlines())
    table = one(text)
    assert len(table.rows) == 7
    assert len(table.devices) == 4
    assert table.ended


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n\n"])
def test_line_ends_of_terminals(end):
    assert len(one(end.join(logs.log().splitlines())).rows) == 7


def test_other_output_between_the_rows():
    noise = "node7:700:731 [2] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"
    text = "\n".join(
        line + "\n" + noise + "\nWarning: Permanently added 'x' (ECDSA)"
        for line in logs.log().split("\n")
    )
    table = one(text)
    assert (len(table.rows), table.damaged) == (7, 0)


def test_a_row_that_other_output_runs_into_is_left_out_and_counted():
    broken = row(2 * MIB)[:60] + "node7:700:731 [2] NCCL INFO Channel 00/0"
    table = one("\n".join([header(), row(MIB), broken, row(4 * MIB)]))
    assert [each.size_bytes for each in table.rows] == [MIB, 4 * MIB]
    assert table.damaged == 1


def torn(text, at, host="node7", message="INFO AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE"):
    """Break every row where the collectives run: NCCL's lines stand there."""
    lines = []
    for line in text.splitlines():
        if line[:1] == "#":
            lines.append(line)
            continue
        ends = [match.end() for match in re.finditer(r"\S+", line)]
        places = [0, *(ends[field] for field in at), len(line)]
        pieces = [line[one:other] for one, other in pairwise(places)]
        for piece in pieces[:-1]:
            lines += [f"{piece}{host}:700:731 [0] NCCL {message}"]
            lines += [f"{host}:700:731 [0] NCCL {message}"] * 2
        lines.append(pieces[-1])
    return "\n".join(lines)


PIECES = (4, 8)
"""The fields behind which a row is broken: the root, and the first ``#wrong``."""


@pytest.mark.parametrize("host", ["node7", "10-0-0-5", "7", "gpu-0.9"])
@pytest.mark.parametrize("prefix", ["", "[1,0]<stdout>:", "0: "])
def test_a_torn_row_is_put_together(host, prefix):
    log = logs.log()
    whole = one(log).rows
    text = torn(log, PIECES, host)
    clean = f"{host}:700:700 [0] NCCL INFO cudaDriverVersion 13000\n"
    text = "\n".join(prefix + line for line in (clean + text).splitlines())
    table = one(text)
    assert (table.rows, table.damaged) == (whole, 0)


def test_a_row_that_a_warning_ends_is_put_together():
    """A warning begins with a line end, and with the time of day."""
    warning = "[2026-01-02 03:04:05] node7:700:731 [0] enqueue.cc:7 (f) NCCL WARN slow"
    lines = [
        "\n".join([line[:45], warning, line[45:]]) if line[:1] != "#" else line
        for line in logs.log().splitlines()
    ]
    table = one("\n".join(lines))
    assert (table.rows, table.damaged) == (one(logs.log()).rows, 0)


def test_a_torn_row_without_its_end_is_left_out_and_counted():
    text = torn("\n".join([header(), row(MIB), row(2 * MIB)]), PIECES).splitlines()
    whole = one("\n".join([header(), row(MIB)])).rows
    assert one("\n".join(text[:-4])).rows == whole
    assert one("\n".join(text[:-4])).damaged == 1
    for end in ("# Out of bounds values : 0 OK", row(4 * MIB)):
        table = one("\n".join([*text[:-4], end]))
        assert table.damaged == 1
        assert table.rows[0] == whole[0]
    half = one("\n".join(text[:-1]))
    assert half.damaged == 0
    assert half.rows[1].in_place is None
    assert half.rows[1].out_of_place.busbw_gbps == 20.0


def test_the_rows_of_every_version_are_read_where_nccl_tears_them(tmp_path):
    for number, versions in enumerate(VERSIONS):
        without = {"default": {"ignores_debug_file": True}}
        folder = install(tmp_path / str(number), json_report=False, versions=versions, **without)
        sizes = ["-b", str(MIB), "-e", str(4 * MIB), "-f", "2"]
        options = [*sizes, "-g", "4", "-c", "1", "-n", "4", "-w", "1", "-d", "float"]
        done = subprocess.run(
            [folder / "all_gather_perf", *options], capture_output=True, text=True, check=True
        )
        table = one(done.stdout)
        assert [each.size_bytes for each in table.rows] == [MIB, 2 * MIB, 4 * MIB], versions
        assert table.damaged == 0
        times = [[half["us"] for half in each["halves"]] for each in records(folder, "rows")]
        assert [[half.time_us for half in each.halves] for each in table.rows] == times


def test_a_comment_that_other_output_runs_into_is_one():
    footer = "# Out of bounds values : 2 FAILEDnode7:700:731 [0] NCCL INFO x"
    assert one("\n".join([header(), row(MIB), footer])).bounds_failed == 2


def test_several_tables_are_told_apart():
    second = logs.log().replace("all_reduce", "all_gather")
    tables = read(logs.log() + "\n" + second)
    assert [table.program for table in tables] == ["all_reduce_perf", "all_gather_perf"]
    assert [len(table.rows) for table in tables] == [7, 7]
    assert [len(table.devices) for table in tables] == [4, 4]


def test_tables_with_nothing_but_a_header_between_them():
    tables = read("\n".join([header(), row(MIB), header(logs.OLD_GATHER), row(MIB, lead=())]))
    assert [len(table.rows) for table in tables] == [1, 1]


def test_a_header_without_rows_is_a_table_without_rows():
    table = one(started() + "\n" + header())
    assert table.columns
    assert (table.rows, table.ended) == ([], False)


def test_a_start_without_a_header_is_one_too():
    assert one(started()).announced


def test_a_missing_footer_is_no_end():
    table = one(logs.log().partition("# Out of bounds")[0])
    assert (len(table.rows), table.ended, table.bounds_failed) == (7, False, None)


@pytest.mark.parametrize(
    ("footer", "failed"),
    [("# Out of bounds values : 3 FAILED", 3), ("# Out of bounds values : 0 FAILED", 1)],
)
def test_failed_checks_of_the_footer(footer, failed):
    assert one("\n".join([header(), row(MIB), footer])).bounds_failed == failed


def test_an_average_that_failed():
    assert one("\n".join([header(), row(MIB), "# Avg bus bandwidth    : 0 FAILED"])).average_failed
    assert not one("\n".join([header(), row(MIB), FOOTER])).average_failed


def test_a_launcher_that_failed():
    table = one("There are not enough slots available in the system\n\n  /opt/all_reduce_perf\n")
    assert (table.program, table.columns, table.rows) == ("all_reduce_perf", [], [])
    assert "not enough slots" in table.failures[0]


def test_processes_that_print_at_once_give_one_table_with_copies():
    head = started(ranks=1) + "\n" + header()
    rows = [row(MIB << n, busbw=0.0, factor=0.0) for n in range(3) for _ in range(3)]
    table = one("\n".join([head, head, head, *rows]))
    assert (table.copies, len(table.rows)) == (3, 9)


def test_processes_whose_lines_the_launcher_marks_are_told_apart():
    lines = logs.log().splitlines()
    text = "\n".join(f"[1,{rank}]<stdout>:{line}" for line in lines for rank in range(2))
    assert [(table.stream, len(table.rows)) for table in read(text)] == [("1,0", 7), ("1,1", 7)]


def test_a_row_of_which_one_half_is_printed():
    half = "  ".join(row(MIB).split()[:9])
    table = one(header() + "\n" + half)
    assert table.rows[0].out_of_place.busbw_gbps == 20.0
    assert table.rows[0].in_place is None


def test_rows_without_a_header_are_read_where_only_one_layout_fits():
    assert one(started() + "\n" + row(MIB)).rows[0].out_of_place.busbw_gbps == 20.0
    assert one(started() + "\n" + row(MIB, lead=("sum",))).damaged == 1


def test_the_bounds_of_busbw_over_algbw_hold_the_true_ratio():
    for step, each in enumerate(one(logs.log()).rows):
        low, high = each.out_of_place.ratio
        assert low <= 1.5 <= high, step


@pytest.mark.parametrize("field", ["-1", "0.5", "18.35"])
def test_a_count_of_elements_that_cannot_be_one_damages_its_row(field):
    good = header() + "\n" + row(MIB) + "\n"
    (table,) = read(good)
    assert [each.in_place.wrong for each in table.rows] == [0]
    (table,) = read(header() + "\n" + row(MIB).rstrip()[:-1] + field + "\n")
    assert (table.rows, table.damaged) == ([], 1)


def test_row_size():
    assert row_size(row(MIB)) == MIB
    assert row_size("# size count type") == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0" * 10_000,
        "1 " * 100_000,
        header() + "\n" + "9" * 100_000 + " 1 float sum -1",
        header() + "\n1 1 float " + "9" * 3000,
        "#  size         count      type" + "   time" * 100_000 + " busbw",
        (header() + "\n") * 20_000,
        "\n".join([row(MIB)] * 21_000),
        "\n".join(f"[1,{n}]<stdout>:{header()}" for n in range(5000)),
        "# Rank " * 20_000,
        header() + "\n" + f"{row(MIB)[:45]}h:1:2 [0] NCCL INFO x\n" * 20_000,
        header() + "\n" + row(MIB)[:45] + "\n" + " 1.0\n" * 20_000,
        ("1:" * 1500 + "1 [0] NCCL INFO x\n") * 200,
        "".join(f"host{n}:1:2 [0] NCCL INFO x\n" for n in range(5000)),
        header() + "\n1048576 262144 float sum -1 nan inf -nan N/A 1e999 1 1 1\n",
    ],
)
def test_hostile_text_is_read_in_bounded_time(text):
    assert_in_proportion(read, text)
    tables = read(text)
    assert len(tables) <= 1000
    assert all(len(table.rows) <= 20_000 for table in tables)
