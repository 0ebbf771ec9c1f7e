from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch")

from hwcheck.contract.collective_spec import EVERY_NODE_LEGS, MIB, CollectiveSpec
from hwcheck.contract.reasons import GPU_EXCLUSIVE, NOT_OFFERED, OUT_OF_BUDGET, RANK_FAILED, Reason
from hwcheck.node.collective import conf_files
from hwcheck.node.collective.leg_run import Taken
from hwcheck.node.collective.operations import load
from hwcheck.node.collective.rank import LARGEST_MEASURED
from hwcheck.node.collective.ranks import code_of
from hwcheck.node.collective.unit import CollectiveUnit
from hwcheck.node.collective.watch import TimedSize

SPEC = CollectiveSpec(("all_gather",), 4, 4, 45.0, 1 << 34)
SHM = "x [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"
TOLD = "x NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n"


def unit(spec: CollectiveSpec = SPEC) -> CollectiveUnit:
    return CollectiveUnit(spec, load("all_gather"), EVERY_NODE_LEGS[1])


def timed(time_us: float, in_place: bool = False, wrong: int = 0) -> TimedSize:
    return TimedSize(MIB, MIB - 16, in_place, [time_us] * 20, wrong, 0.5)


def taken(*sizes: TimedSize, **changes: Any) -> Taken:
    made = Taken(
        "done", "", list(sizes), "NCCL 2.27.5", LARGEST_MEASURED, MIB, "", [], TOLD + SHM, 2.0
    )
    return replace(made, **changes)


def test_turns_become_one_record_with_both_halves() -> None:
    found = unit()
    found.add(taken(timed(100.0), timed(80.0, True)))
    found.compared = (MIB,)
    assert found.repeat_s() == 1.0
    found.add(taken(timed(120.0, wrong=1), timed(70.0, True, wrong=2), log=""))
    leg = found.leg(("a note",))
    (size,) = leg.sizes
    assert (size.size_bytes, size.passes, size.time_us, size.iterations) == (MIB - 16, 2, 110, 40)
    assert size.in_place is not None
    assert (size.in_place.time_us, size.all_wrong) == (75.0, 3)
    assert size.busbw_gbps == pytest.approx(size.algbw_gbps * 3 / 4)
    assert (leg.state, leg.notes, leg.duration_s) == ("done", ("a note",), 4.0)
    assert leg.transport["SHM"] == 1


@pytest.mark.parametrize(("gpus", "notes"), [(4, ("2.22.3 reads a file",)), (0, ())])
def test_a_leg_has_the_notes_of_its_nccl(
    monkeypatch: pytest.MonkeyPatch, gpus: int, notes: tuple[str, ...]
) -> None:
    monkeypatch.setattr(conf_files, "notes", lambda library: (f"{library[5:]} reads a file",))
    found = unit(replace(SPEC, gpus=gpus))
    found.add(taken(timed(100.0), library="NCCL 2.22.3"))
    assert found.leg(("of every leg",)).notes == ("of every leg", *notes)


def test_wrong_elements_are_those_of_the_worst_turn() -> None:
    found = unit()
    for wrong in (1, 4, 2):
        found.add(taken(timed(100.0, wrong=wrong)))
    (size,) = found.leg(()).sizes
    assert (size.passes, size.wrong) == (3, 4)


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (TOLD + SHM.replace("SHM/direct/direct", "P2P/IPC"), "NCCL used P2P"),
        (SHM, "NCCL_P2P_DISABLE=1 was set and NCCL does not say that it took it"),
        (TOLD, "NCCL names no connection between the ranks"),
    ],
)
def test_what_did_not_use_what_it_is_for_is_not_engaged(log: str, reason: str) -> None:
    found = unit()
    found.add(taken(timed(100.0), log=log))
    assert found.state != "done"
    assert (found.leg(()).state, found.leg(()).reason.text) == ("not_engaged", reason)


NVLS = "x NCCL INFO AllGather: 1048576 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}\n"
RING = NVLS.replace("NVLS", "RING")


def test_a_collective_is_proven_by_what_nccl_said_in_its_own_turn() -> None:
    found = unit()
    own = SHM.replace("SHM/direct/direct", "P2P/IPC") + RING
    found.add(taken(timed(100.0), log=TOLD + SHM + NVLS + own, turn_log=own))
    assert (found.state, found.leg(()).reason.text) == ("not_engaged", "NCCL used P2P")
    found = unit()
    found.add(taken(timed(100.0), log=TOLD + SHM + NVLS + RING, turn_log=RING))  # connected before
    leg = found.leg(())
    assert (leg.state, leg.transport["SHM"]) == ("done", 1)
    assert leg.transport["algorithms"] == "AllGather RING/SIMPLE"


def test_nvls_without_p2p_is_a_figure_with_a_note() -> None:
    found = unit()
    found.add(taken(timed(100.0), log=TOLD + NVLS, turn_log=TOLD + NVLS))
    assert found.leg(()).state == "done"
    assert "left NVLS on" in found.leg(()).notes[-1]


def test_a_turn_that_was_slow_keeps_what_it_timed_and_is_no_hang() -> None:
    found = unit()
    found.add(taken(timed(100.0), state="late", reason="data still moved after 9 s", stop=""))
    leg = found.leg(())
    assert (leg.state, leg.reason.text, len(leg.sizes)) == ("done", "", 1)
    assert "data still moved after 9 s" in leg.notes
    found = unit()
    found.add(taken(state="late", reason="data still moved after 9 s", stop=""))
    leg = found.leg(())
    assert (leg.state, leg.sizes) == ("not_run", ())
    assert leg.reason.text.startswith("data still moved after 9 s; take a smaller -b")


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        ("the smallest size, 1 MiB, does not fit in free memory", "does not fit in free memory"),
        (LARGEST_MEASURED, "every size has less than 16 bytes for each rank"),
    ],
)
def test_a_turn_that_timed_nothing_is_not_done(stop: str, words: str) -> None:
    found = unit()
    found.add(taken(stop=stop))
    assert found.leg(()).state == "not_run"
    assert words in found.leg(()).reason.text
    assert stop not in found.leg(()).notes


# What torch 2.1 said in these three cases.
@pytest.mark.parametrize(
    "words",
    [
        "no support for _allgather_base in Gloo process group",
        "Backend gloo does not support _reduce_scatter_base",
        "Invalid scalar type",
    ],
)
def test_what_gloo_cannot_is_not_the_nodes_failure(words: str) -> None:
    reason = f"rank 0: RuntimeError: {words}"
    code = code_of(RuntimeError(words))
    found = unit(replace(SPEC, gpus=0))
    found.add(taken(state="failed", reason=reason, code=code))
    assert (found.leg(()).state, found.leg(()).reason) == ("not_run", Reason(NOT_OFFERED, reason))
    found = unit()  # NCCL
    found.add(taken(state="failed", reason=reason, code=code))
    assert found.leg(()).state == "failed"


@pytest.mark.parametrize("changes", [{"gpus": 0}, {"ranks": 1, "gpus": 1}])
def test_gloo_and_one_rank_need_no_proof(changes: dict[str, int]) -> None:
    found = unit(replace(SPEC, **changes))
    found.add(taken(timed(100.0), log=""))
    assert found.leg(()).state == "done"


def test_a_hang_stays_one_whatever_nccl_says() -> None:
    found = unit()
    found.add(taken(state="hang", reason="killed", log="", tail="stacks", left_over=["rank 1"]))
    leg = found.leg(())
    assert (leg.state, leg.reason.text, leg.log_tail, leg.notes) == (
        "hang",
        "killed",
        "stacks",
        ("rank 1",),
    )
    assert leg.sizes == ()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RuntimeError("CUDA error: device(s) is/are busy or unavailable"), GPU_EXCLUSIVE),
        (RuntimeError("Backend gloo does not support reduce_scatter"), NOT_OFFERED),
        (RuntimeError("the wire is cut"), RANK_FAILED),
        (OSError(5, "x"), RANK_FAILED),
    ],
)
def test_an_error_of_a_library_has_a_code_where_it_is_caught(error: Exception, code: str) -> None:
    assert code_of(error) == code


def test_a_turn_for_which_there_was_no_time_says_so_by_its_code() -> None:
    found = unit()
    found.add(taken(state="late", reason="data still moved after 9 s", log=""))
    assert (found.leg(()).state, found.leg(()).reason.code) == ("not_run", OUT_OF_BUDGET)
