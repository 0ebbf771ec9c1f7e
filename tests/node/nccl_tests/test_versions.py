"""The engine against programs that speak as each version of nccl-tests and of NCCL."""

import pytest

from hwcheck.contract.collective_spec import EVERY_NODE_LEGS, MIB
from hwcheck.contract.wire import COLLECTIVES
from hwcheck.node.nccl_tests.text import read
from tests.node.nccl_tests.engines import run
from tests.node.nccl_tests.stand_in import VERSIONS, install, measuring, records

STARTS_BEFORE = 60
"""Of six collectives under three legs in three turns, with one question for each collective's
options: as many programs were started by the engine that started one for each turn."""

CYCLES = 3


@pytest.mark.parametrize("versions", VERSIONS, ids=" ".join)
def test_every_leg_has_the_rows_of_its_program_and_its_proof(tmp_path, versions):
    folder = install(tmp_path / "nccl-tests", versions=versions)
    legs, _ = run(folder, collectives=("all_gather",), max_bytes=4 * MIB)
    assert len(legs) == len(EVERY_NODE_LEGS)
    assert {(leg.state, leg.reason.text) for leg in legs} == {("done", "")}
    for leg in legs:
        assert leg.library == f"NCCL {versions[1]}"
        kind = {"default": "P2P/CUMEM", "p2p_off": "SHM", "net": "NET/Socket"}[leg.leg]
        assert leg.transport[kind] == 4
        assert [size.size_bytes for size in leg.sizes] == [MIB, 2 * MIB, 4 * MIB]
        for size in leg.sizes:
            rows = [
                row["halves"]
                for row in records(folder, "rows")
                if (row["leg"], row["size"]) == (leg.leg, size.size_bytes)
                and row["name"] == f"{leg.collective}_perf"
            ]
            assert size.passes == len(rows)
            for half, place in ((size, 0), (size.in_place, 1)):
                figures = [each for row in rows for each in (row[place]["time"], row[place]["us"])]
                assert half.time_us in figures
            assert size.all_wrong == 0


@pytest.mark.parametrize(
    "versions",
    [VERSIONS[0], pytest.param(VERSIONS[1], marks=pytest.mark.wide), VERSIONS[-1]],
    ids=" ".join,
)
def test_one_program_is_started_for_a_collective_under_a_leg(tmp_path, versions):
    folder = install(tmp_path / "nccl-tests", versions=versions)
    legs, _ = run(folder, collectives=tuple(COLLECTIVES), max_bytes=2 * MIB)
    assert {(leg.state, leg.reason.text) for leg in legs} == {("done", "")}
    assert len(measuring(folder)) == len(legs)
    assert len(records(folder, "calls")) == len(legs) + 1, "the options are asked for once"
    assert len(records(folder, "calls")) <= STARTS_BEFORE / 3
    passes = {size.passes for leg in legs for size in leg.sizes}
    assert passes == ({1} if versions == VERSIONS[0] else {CYCLES})


def test_nccl_writes_everything_into_a_file_of_its_own(tmp_path, capfd):
    run(install(tmp_path / "nccl-tests", versions=("2.16.2", "2.20.5")), max_bytes=2 * MIB)
    log = capfd.readouterr().err
    assert "NCCL INFO 1048576 Bytes -> Algo 1 proto 2" in log
    assert [len(table.rows) for table in read(log)] == [2 * CYCLES] * 3
    assert {table.damaged for table in read(log)} == {0}


@pytest.mark.parametrize("versions", [VERSIONS[3], VERSIONS[-1]], ids=" ".join)
def test_what_lands_in_stdout_all_the_same_costs_no_row_and_no_proof(tmp_path, versions):
    """A plugin may give NCCL another NCCL_DEBUG_FILE, or none, than its environment has."""
    without = {name: {"ignores_debug_file": True} for name in ("default", "p2p_off", "net")}
    legs, _ = run(install(tmp_path / "nccl-tests", json_report=False, versions=versions, **without))
    assert [(leg.state, leg.reason.text) for leg in legs] == [("done", "")] * 3
    assert [leg.transport["channels"] for leg in legs] == [8] * 3
    for leg in legs:
        assert [size.size_bytes for size in leg.sizes] == [MIB << step for step in range(7)]
        assert not any("left out" in note for note in leg.notes)


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        (VERSIONS[0], "this figure may be of NVLink"),
        (VERSIONS[1], "this figure may be of NVLink"),
        (VERSIONS[2], "this figure is of NVLink"),
        (VERSIONS[4], "this figure is of NVLink"),
        (VERSIONS[-1], "this figure is of NVLink"),
    ],
    ids=str,
)
def test_nvls_in_a_leg_without_p2p_is_told_by_every_nccl(tmp_path, versions, words):
    nvls = {"p2p_off": {"nvls": True, "algo": "NVLS"}}
    folder = install(tmp_path / "nccl-tests", versions=versions, **nvls)
    (leg,), _ = run(folder, legs=EVERY_NODE_LEGS[1:2], max_bytes=MIB)
    assert (leg.state, leg.transport["nvls"]) == ("done", True)
    assert words in leg.notes[-1]


def test_a_program_killed_in_the_middle_of_a_row_has_the_rows_before(tmp_path):
    folder = install(tmp_path / "nccl-tests", default={"die_in": 8 * MIB})
    (leg,), _ = run(folder, legs=EVERY_NODE_LEGS[:1])
    assert (leg.state, leg.reason.text) == (
        "failed",
        "it was killed by SIGKILL, after 4 MiB was finished",
    )
    assert [size.size_bytes for size in leg.sizes] == [MIB, 2 * MIB, 4 * MIB]
