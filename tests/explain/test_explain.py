"""What kind of thing a file is."""

from __future__ import annotations

import json
import random

import pytest

from hwcheck.explain.explain import explain
from hwcheck.explain.records import Benchmarks
from hwcheck.explain.sources import LogFile
from tests.explain.matrices import blanks, gpus, square, tabs
from tests.node.nccl_tests import logs
from tests.node.nccl_tests.logs import MIB, header, row
from tests.proportion import assert_in_proportion

INFO = "node7:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct\n"
MATRIX = tabs(square(gpus(4), ["NV4"]))


def kinds(text: str) -> list[str]:
    return [entry.kind for entry in explain(LogFile("f", text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (logs.log(), ["nccl-tests"]),
        (MATRIX, ["topology"]),
        (blanks(square(gpus(2), ["GNS"])), ["p2p-status"]),
        (INFO, ["nccl-info"]),
        (INFO + logs.log(), ["nccl-tests"]),
        (MATRIX + "\n" + INFO + logs.log(), ["topology", "nccl-tests"]),
        ("GPU 0: Tesla\n", ["unknown"]),
        ("srun: error: node7: task 0: Exited with exit code 1\n", ["unknown"]),
        ("srun: error: node7: all_reduce_perf: Exited with exit code 1\n", ["nccl-tests"]),
        ("{}", ["unknown"]),
    ],
)
def test_kinds(text: str, expected: list[str]) -> None:
    assert kinds(text) == expected


def test_a_json_report_of_nccl_tests() -> None:
    half = {"time": 40.0, "alg_bw": 26.2144, "bus_bw": 39.3216, "nwrong": 0.0}
    row = {"size": 1048576, "count": 262144, "type": "float", "redop": "sum", "root": "-1"}
    report = {
        "args": ["./all_reduce_perf"],
        "config": {},
        "results": [{**row, "out_of_place": half, "in_place": half}],
    }
    (entry,) = explain(LogFile("r.json", json.dumps(report)))
    assert isinstance(entry, Benchmarks)
    assert (entry.runs[0].collective, entry.runs[0].ranks) == ("all_reduce", 4)
    assert entry.runs[0].peak_busbw_gbps == 39.3216


def test_what_nccl_said_between_the_rows_is_told_with_them() -> None:
    (entry,) = explain(LogFile("f", INFO * 3 + logs.log()))
    assert "data went by SHM x3" in entry.notes[0]


def test_a_setting_behind_the_program_is_no_setting() -> None:
    (entry,) = explain(LogFile("f", "$ ./all_reduce_perf -b 8 NCCL_P2P_DISABLE=1\n" + logs.log()))
    assert any("NCCL_P2P_DISABLE=1 stands after the program" in note for note in entry.notes)
    (entry,) = explain(LogFile("f", "$ NCCL_P2P_DISABLE=1 ./all_reduce_perf -b 8\n" + logs.log()))
    assert not any("stands after" in note for note in entry.notes)
    assert "its command sets NCCL_P2P_DISABLE=1" in entry.notes


def test_a_size_that_a_command_asks_for_is_missed() -> None:
    def reason(largest: str, *before: str) -> str:
        text = "\n".join([*before, f"$ ./all_reduce_perf -e {largest}", header(), row(MIB)])
        (entry,) = explain(LogFile("f", text))
        assert isinstance(entry, Benchmarks)
        return entry.runs[0].no_proof

    assert "the rows end at 1 MiB of 16 GiB" in reason("16G")
    assert reason("1M") == ""
    assert reason("16G", "# Reducing maxBytes to 1048576 due to memory limitation") == ""


def test_what_was_done_to_read_it_is_said() -> None:
    (entry,) = explain(LogFile("f", MATRIX, ("4 NUL characters left out",)))
    assert entry.notes[-1] == "4 NUL characters left out"
    (entry,) = explain(LogFile("f", problem="it is empty"))
    assert (entry.kind, entry.notes) == ("unknown", ("it is empty",))


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_file_gives_entries_and_no_error(seed: int) -> None:
    chance = random.Random(seed)
    text = list(MATRIX + INFO + logs.log() + '{"results": [')
    for _ in range(400):
        place = chance.randrange(len(text))
        text[place] = chance.choice(["", "\0", "\n", "9" * 40, "N/A", "\x1b[1m", "#", "|", " "])
    entries = explain(LogFile("f", "".join(text)))
    assert entries, "a file that is understood by nobody is an entry too"
    for entry in entries:
        said = json.loads(json.dumps(entry.to_dict(), allow_nan=False))
        assert (said["file"], bool(said["kind"])) == ("f", True)


@pytest.mark.parametrize(
    "text",
    [
        "#" * 400_000,
        " " * 400_000,
        "NCCL INFO " * 40_000,
        "all_reduce_perf " * 25_000,
        "\n" * 200_000,
        "GPU0\t" * 80_000,
        "[" * 200_000,
        '{"results":' * 30_000,
        "# Rank 0 " * 40_000,
        "_perf NCCL_" * 30_000,
    ],
)
def test_hostile_text_is_read_in_bounded_time(text: str) -> None:
    assert_in_proportion(lambda part: explain(LogFile("f", part)), text)
