"""The engine, with a program that stands in for nccl-tests, through the payload."""

import contextlib
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.collective_spec import EVERY_NODE_LEGS, MIB
from hwcheck.contract.wire import CheckResult, Request, to_dict
from hwcheck.judge.legs import leg_problem, planned_env, start_hang
from hwcheck.node.collective.ranks import wait_until
from hwcheck.node.nccl_tests import engine
from hwcheck.node.together import launch
from hwcheck.results.schema_check import schema_problem
from tests.node.nccl_tests.engines import PAYLOAD, run, spec
from tests.node.nccl_tests.stand_in import install, measuring, records


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "nccl-tests"


def calls(folder):
    return records(folder, "calls")


def only(folder, **changes):
    legs, _ = run(folder, legs=EVERY_NODE_LEGS[:1], **changes)
    (leg,) = legs
    return leg


def living(group):
    """Return the processes of a group that are more than an entry that nobody has collected."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, pgid = stat.read_text().rpartition(")")[2].split()[:3]
            if int(pgid) == group and state != "Z":
                found.append(stat.parent.name)
    return found


def test_three_legs_give_the_records_of_our_own_engine(folder):
    legs, said = run(install(folder))
    assert [leg.leg for leg in legs] == ["default", "p2p_off", "net"]
    assert {leg.state for leg in legs} == {"done"}, [leg.reason for leg in legs]
    for leg, busbw in zip(legs, (41.0, 29.5, 3.4), strict=True):
        assert (leg.collective, leg.backend, leg.ranks) == ("all_reduce", "nccl", 4)
        assert leg.library == "NCCL 2.30.7"
        assert leg.log_tail == ""
        assert [size.size_bytes for size in leg.sizes] == [MIB << n for n in range(7)]
        last = leg.sizes[-1]
        assert last.busbw_gbps == pytest.approx(busbw, rel=0.03)
        assert last.busbw_gbps == pytest.approx(last.algbw_gbps * 1.5)
        assert last.algbw_gbps == pytest.approx(last.size_bytes / last.time_us / 1e3)
        assert (last.iterations, last.wrong, last.in_place.wrong) == (60, 0, 0)
        assert (last.passes, last.in_place.passes, last.time_p95_us) == (3, 3, None)
        assert leg.notes[0].endswith(": means, out of place; the spread is to in place")
        assert last.in_place.busbw_gbps < last.busbw_gbps
    assert legs[0].transport["P2P/CUMEM"] == 4
    assert legs[1].transport["SHM"] == 4
    assert legs[2].transport["NET/Socket"] == 4
    assert "all_reduce p2p_off 64 MiB" in said


def test_the_flags_are_those_of_nccl_tests(folder):
    run(install(folder), iterations=30, warmups=3)
    for call in measuring(folder):
        options = dict(zip(call["argv"][::2], call["argv"][1::2], strict=True))
        assert options.pop("-J").endswith(".json")
        assert options == {
            "-b": str(MIB),
            "-e": str(64 * MIB),
            "-f": "2",
            "-g": "4",
            "-c": "1",
            "-n": "30",
            "-w": "3",
            "-N": "3",
            "-d": "float",
        }


def test_the_environment_is_that_of_a_leg(folder, monkeypatch):
    monkeypatch.setenv("NCCL_P2P_LEVEL", "LOC")
    monkeypatch.setenv("NCCL_TESTS_DEVICE", "0")
    monkeypatch.setenv("NCCL_DEBUG_FILE", "/dev/full")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    run(install(folder))
    for call, plan in zip(measuring(folder), EVERY_NODE_LEGS, strict=True):
        env = call["env"]
        assert not {"NCCL_P2P_LEVEL", "NCCL_TESTS_DEVICE", "CUDA_VISIBLE_DEVICES"} & env.keys()
        assert env["NCCL_DEBUG"] == "INFO"
        assert env["NCCL_DEBUG_FILE"].endswith("/nccl.log")
        assert {key: env[key] for key in plan.env} == plan.env
        assert call["pgid"] == call["pid"]


def test_without_a_json_report_the_text_is_read(folder):
    leg = only(install(folder, json_report=False))
    assert leg.state == "done"
    assert "-J" not in measuring(folder)[0]["argv"]
    assert leg.sizes[-1].busbw_gbps == pytest.approx(41.0, rel=0.03)


def test_a_report_that_was_cut_short_gives_way_to_the_text(folder):
    leg = only(install(folder, default={"half_json": True}))
    assert (leg.state, len(leg.sizes)) == ("done", 7)


def test_wrong_elements_are_counted_where_they_were(folder):
    leg = only(install(folder, default={"wrong": {str(8 * MIB): 5}}), turns=1)
    assert leg.state == "done"
    assert [size.all_wrong for size in leg.sizes] == [0, 0, 0, 10, 0, 0, 0]


def test_a_footer_that_counts_what_no_row_shows_is_no_clean_leg(folder):
    leg = only(install(folder, default={"bounds": 2}), turns=1)
    assert leg.state == "done"
    assert [size.all_wrong for size in leg.sizes] == [0, 0, 0, 0, 0, 0, 1]
    assert "the footer counts 2 failed checks" in leg.notes[-1]


@pytest.mark.parametrize(
    ("at", "said", "sizes"),
    [
        ("start", "before the first size was finished", 0),
        (16 * MIB, "after 16 MiB was finished", 5),
        ("end", "after 64 MiB was finished", 7),
    ],
)
def test_a_leg_that_does_not_end_is_killed_with_all_that_it_started(folder, at, said, sizes):
    leg = only(install(folder, default={"hang_at": at, "deaf": True}), budget_s=1.0, grace_s=1.0)
    assert leg.state == "hang"
    assert said in leg.reason.text
    assert len(leg.sizes) == sizes
    group = measuring(folder)[0]["pgid"]
    assert wait_until(lambda: not living(group), 5)


def test_the_other_legs_still_run_after_a_hang(folder):
    legs, _ = run(install(folder, default={"hang_at": "start"}), budget_s=3.0, grace_s=0.5)
    assert [leg.state for leg in legs] == ["hang", "done", "done"]
    assert "NCCL INFO" in legs[0].log_tail
    assert legs[0].driver == "answers"


def test_after_a_hang_the_driver_is_asked_and_the_leg_not_tried_again(folder):
    install(folder, default={"hang_at": "start"})
    orders = spec(collectives=("all_reduce", "alltoall"), budget_s=6.0, grace_s=0.5)
    for problem, states in (
        ("", ["hang", "done", "done", "not_run", "done", "done"]),
        ("gpu1: GPU is lost", ["hang", *["not_run"] * 5]),
    ):
        arguments = (orders, str(folder), PAYLOAD, lambda text: None, lambda said=problem: said)
        legs = list(engine.run_legs(*arguments))
        assert [leg.state for leg in legs] == states
        assert legs[0].driver == (problem or "answers")
        said = problem and f"after leg default of all_reduce was killed, {problem}: reboot the node"
        assert legs[3].reason.text == (
            said or "leg default hung in all_reduce: not tried again in this visit"
        )


def test_a_leg_that_is_slow_ends_before_the_size_that_does_not_fit(folder):
    legs, _ = run(install(folder, default={"slow_s": 0.4}), budget_s=3.0)
    assert legs[0].state == "done"
    assert 2 <= len(legs[0].sizes) < 7
    assert any("does not fit in the time" in note for note in legs[0].notes)
    largest = legs[0].sizes[-1].size_bytes
    assert [leg.sizes[-1].size_bytes for leg in legs[1:]] == [largest] * 2
    assert "the largest size of leg default" in legs[1].notes[-1]


def test_a_leg_that_was_stopped_is_timed_again_where_it_is_compared(folder):
    legs, _ = run(install(folder, default={"slow_s": 0.4}), budget_s=3.0)
    largest = legs[0].sizes[-1].size_bytes
    second = [call for call in measuring(folder) if call["leg"] == "default"][1]["argv"]
    assert second[:4] == ["-b", str(largest), "-e", str(largest)]
    assert "-N" not in second
    assert [size.passes for size in legs[0].sizes] == [1] * (len(legs[0].sizes) - 1) + [2]


def test_a_program_that_was_stopped_by_us_is_no_failure(folder):
    leg = only(install(folder, default={"slow_s": 0.2}), budget_s=2.0, max_bytes=8 * MIB)
    assert (leg.state, leg.log_tail) == ("done", "")
    assert [size.size_bytes for size in leg.sizes] == [MIB, 2 * MIB, 4 * MIB, 8 * MIB]
    assert {size.passes for size in leg.sizes} == {2}
    assert "timed 2 times and not 3: another time does not fit in the time" in leg.notes


def test_a_communicator_that_does_not_come_is_judged_beside_the_other_legs(folder):
    install(folder, default={"start_s": 60})
    orders = {"start_s": 1.5, "grace_s": 2.0, "max_bytes": MIB, "warmups": 0}
    legs, _ = run(folder, collectives=("all_reduce", "alltoall"), **orders)
    never, off, net, refused = legs[:4]
    assert [leg.state for leg in (never, off, net)] == ["not_started", "done", "done"]
    assert never.reason.text.startswith("no communicator after 4 s, before the first size")
    assert (never.driver, round(never.start_s)) == ("answers", 4)
    assert off.start_s < never.start_s / 2
    assert "leg default did not start in all_reduce: not tried again" in refused.reason.text
    assert start_hang(never, legs).startswith("it hangs at start: no communicator after 4 s")
    assert [start_hang(leg, [leg]) for leg in legs[:3]] == [""] * 3


def test_a_program_that_hangs_at_its_first_collective_has_started(folder):
    leg = only(install(folder, default={"hang_at": "start"}), budget_s=1.0, grace_s=0.5)
    assert (leg.state, leg.start_s < leg.duration_s) == ("hang", True)


def test_a_communicator_counts_where_nccl_cannot_open_its_file(folder):
    silent = {"ignores_debug_file": True, "hang_at": "start"}
    leg = only(install(folder, default=silent), start_s=30.0, budget_s=1.0, grace_s=0.5)
    assert leg.state == "hang"
    assert leg.duration_s < 10


def test_a_network_leg_that_failed_has_a_second_try_over_sockets(folder):
    legs, _ = run(install(folder, net={"exit_before_without": "NCCL_NET", "exit_before": 3}))
    net = legs[2]
    assert (net.state, [leg.first_failure for leg in legs[:2]]) == ("done", ["", ""])
    assert net.first_failure.startswith("it ended with code 3 (an NCCL error), before the first")
    assert net.env == {**EVERY_NODE_LEGS[2].env, "NCCL_NET": "Socket"}
    assert leg_problem(net, planned_env("net")) == ""
    assert [call["leg"] for call in measuring(folder)] == ["default", "p2p_off", "net", "net"]


def test_a_network_leg_that_fails_over_sockets_too_is_a_failure(folder):
    legs, _ = run(install(folder, default={"exit_before": 3}, net={"exit_before": 3}))
    assert [leg.state for leg in legs] == ["failed", "done", "failed"]
    assert legs[2].first_failure
    assert [call["leg"] for call in measuring(folder)] == ["default", "p2p_off", "net", "net"]


def test_a_hang_after_the_first_row_takes_its_time_from_the_budget(folder):
    install(folder, default={"hang_at": MIB})
    orders = spec(budget_s=1.0, grace_s=0.5, turns=1)
    program = engine.NcclTestsProgram(
        engine.ProgramFolder(str(folder), PAYLOAD),
        "all_reduce",
        PAYLOAD,
        orders,
        lambda text: None,
        engine.Hangs(),
    )
    spent_s = engine.ProgramLeg(program, EVERY_NODE_LEGS[0]).first(1.0, 64 * MIB, "")
    assert 1.4 < spent_s < 5.0


def test_a_program_that_repeats_less_than_it_was_told_to_is_noted(folder):
    note = "timed 1 times and not 3: the program ended by itself"
    legs, _ = run(install(folder, default={"cycles": 1}), max_bytes=2 * MIB)
    assert [leg.state for leg in legs] == ["done"] * 3
    assert [note in leg.notes for leg in legs] == [True, False, False]
    assert legs[0].sizes[-1].passes == 1


def test_a_slow_start_takes_nothing_from_the_time_of_the_leg(folder):
    leg = only(install(folder, default={"start_s": 2.5}), budget_s=1.0, grace_s=0.5)
    assert leg.state == "done", leg.reason
    assert [size.size_bytes for size in leg.sizes] == [MIB << n for n in range(7)]
    assert not any("does not fit" in note for note in leg.notes)


def test_legs_are_compared_at_a_size_that_was_rounded_down_to_whole_chunks(folder):
    chunks = {name: {"chunk": 48} for name in ("p2p_off", "net")}
    legs, _ = run(install(folder, default={"slow_s": 0.4, "chunk": 48}, **chunks), budget_s=3.0)
    largest = [leg.sizes[-1].size_bytes for leg in legs]
    assert any("does not fit in the time" in note for note in legs[0].notes)
    assert largest[0] % 48 == 0
    assert largest == [largest[0]] * 3


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"exit_before": 3}, "it ended with code 3 (an NCCL error), before the first size"),
        ({"exit_before": 3}, "Test NCCL failure common.cu:958"),
        ({"exit": 4}, "it ended with code 4 (its own timeout), after 64 MiB"),
        ({"die_at": 2 * MIB}, "it was killed by SIGSEGV, after 2 MiB was finished"),
        ({"ranks": 1}, "it measured 1 ranks, not 4"),
        ({"unchecked": True}, "are not checked"),
    ],
)
def test_a_failure_says_how_it_ended(folder, fault, reason):
    leg = only(install(folder, default=fault))
    assert leg.state == "failed"
    assert reason in leg.reason.text


def test_a_program_that_ends_with_0_and_measures_nothing_is_no_measurement(folder):
    install(folder)
    (folder / "all_reduce_perf").write_text("#!/bin/sh\necho unknown option\n")
    leg = only(folder)
    assert (leg.state, leg.reason.text) == ("failed", "it ended with code 0 and printed no table")


def test_a_leg_that_took_another_way_has_no_figure(folder):
    legs, _ = run(install(folder, p2p_off={"via": "P2P/IPC"}, net={"ignores_env": True}))
    assert [leg.state for leg in legs] == ["done", "not_engaged", "not_engaged"]
    assert legs[1].reason.code == "other_way"
    assert legs[2].reason.code == "unproven"


def test_a_table_without_a_footer_is_kept_and_noted(folder):
    leg = only(install(folder, json_report=False, default={"no_footer": True}))
    assert leg.state == "done"
    assert "no footer follows the table" in leg.notes


def test_alltoall_is_not_checked_in_place(folder):
    leg = only(install(folder), collectives=("alltoall",))
    assert leg.state == "done", leg.reason
    assert leg.sizes[-1].in_place is None
    assert leg.sizes[-1].busbw_gbps == pytest.approx(leg.sizes[-1].algbw_gbps * 0.75)


def test_a_missing_program_is_named_for_each_leg(folder):
    install(folder)
    (folder / "alltoall_perf").unlink()
    legs, _ = run(folder, collectives=("all_reduce", "alltoall"))
    assert [leg.state for leg in legs] == ["done"] * 3 + ["not_run"] * 3
    assert f"{folder}/alltoall_perf is no program on this node" in legs[-1].reason.text


def test_no_gpu_is_nothing_to_measure(folder):
    with pytest.raises(CouldNotMeasure, match="--engine torch"):
        run(install(folder), gpus=0)


def test_a_program_that_floods_is_ended(folder, monkeypatch):
    install(folder)
    (folder / "all_reduce_perf").write_text("#!/bin/sh\nyes 0123456789012345678901234567890\n")
    monkeypatch.setattr(engine.process, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(engine, "HELP_S", 1.0)
    start = time.monotonic()
    leg = only(folder)
    assert leg.state == "failed"
    assert "wrote more than" in leg.reason.text
    assert time.monotonic() - start < 10


def test_a_leg_that_cannot_differ_here_is_not_run(folder):
    plan = replace(EVERY_NODE_LEGS[1], absent="there are no two GPUs to tell it by")
    legs, _ = run(install(folder), legs=(EVERY_NODE_LEGS[0], plan))
    assert [leg.state for leg in legs] == ["done", "not_run"]
    assert legs[1].reason.text == "there are no two GPUs to tell it by"


def test_the_node_hands_its_request_to_the_engine(folder):
    request = Request("t", ("all_reduce",), nccl_tests_dir=str(install(folder)))
    legs = list(
        launch.run_legs(request, PAYLOAD, 2, 1 << 34, lambda text: None, EVERY_NODE_LEGS[:1])
    )
    assert [(leg.state, leg.ranks) for leg in legs] == [("done", 2)]
    assert "nccl-tests 2.19.6" in legs[0].notes[0]


def test_a_leg_has_no_more_cycles_than_the_budget_has_time_for(folder):
    legs, _ = run(install(folder, net={"slow_s": 1.0}), budget_s=4.0, max_bytes=2 * MIB)
    assert [call["leg"] for call in measuring(folder)] == ["default", "p2p_off", "net"]
    assert {leg.state for leg in legs} == {"done"}
    assert [leg.sizes[-1].passes for leg in legs[:2]] == [3, 3]
    assert legs[2].sizes[-1].passes < 3


def test_a_first_size_that_takes_longer_than_its_share_is_no_hang(folder):
    slow = {"budget_s": 0.5, "grace_s": 0.5, "turns": 1}
    install(folder, default={"slow_s": 2.0})
    large = only(folder, min_bytes=64 * MIB, warmups=50, **slow)  # 27 s at the floor of bandwidth
    assert (large.state, len(large.sizes)) == ("done", 1)
    small = only(folder, min_bytes=MIB, max_bytes=MIB, warmups=0, **slow)
    assert small.state == "hang"


def test_a_record_of_the_engine_is_one_of_the_schema(folder):
    legs, _ = run(install(folder), turns=1)
    result = CheckResult("all_reduce", "done", legs=tuple(legs))
    assert schema_problem(to_dict(result), "result") == ""
    assert {size.time_p95_us for leg in legs for size in leg.sizes} == {None}


def test_nvls_in_a_leg_without_p2p_is_told(folder):
    default, off, _ = run(install(folder, p2p_off={"algo": "NVLS"}), turns=1)[0]
    assert (default.state, off.state) == ("done", "done")
    assert any("left NVLS on" in note for note in off.notes)
    assert not any("NVLS" in note for note in default.notes)
