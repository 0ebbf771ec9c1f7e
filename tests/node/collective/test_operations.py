from __future__ import annotations

import os
import signal

import pytest

torch = pytest.importorskip("torch")

from hwcheck.node.collective.operations import (  # noqa: E402
    Operation,
    all_gather,
    all_reduce,
    alltoall,
    broadcast,
    damage_one_element,
    load,
    reduce_scatter,
    sabotaged,
    sendrecv,
    stop_this_process,
)
from hwcheck.node.collective.pattern import CODE_SHIFT, MAX_RANKS, PERIODS  # noqa: E402
from tests.node.collective.simulated import COUNT, Ranks, summed  # noqa: E402


def test_a_collective_is_found_by_its_name() -> None:
    operation = load("all_reduce")
    assert isinstance(operation, Operation)
    assert operation.name == "all_reduce"


@pytest.mark.parametrize("name", ["rank", "no_such", "..launch", "os.path", ""])
def test_anything_else_is_refused(name: str) -> None:
    with pytest.raises((ValueError, ModuleNotFoundError)):
        load(name)


def all_reduce_total(ranks: Ranks, round_: int):
    return summed([ranks.sent(rank, round_)[0] for rank in range(ranks.of.ranks)])


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
@pytest.mark.parametrize("count", [1, 2, 8, 16, MAX_RANKS])
def test_the_sum_of_all_ranks_is_exactly_what_is_expected(count: int, dtype: str) -> None:
    ranks = Ranks(all_reduce, count, dtype)
    assert all_reduce_total(ranks, 5).max() < {"float": 2**24, "bfloat16": 256}[dtype]
    assert ranks.wrong(0, [all_reduce_total(ranks, 5)], 5) == 0


def test_all_reduce_every_way_of_being_wrong_is_counted() -> None:
    ranks = Ranks(all_reduce, 4)
    good = all_reduce_total(ranks, 1)
    one_off = good.clone()
    one_off[4321] += 1
    assert ranks.wrong(0, [one_off], 1) == 1
    nan = good.clone()
    nan[-1] = float("nan")
    assert ranks.wrong(0, [nan], 1) == 1
    missing_rank = good - ranks.sent(3, 1)[0]
    assert ranks.wrong(0, [missing_rank], 1) == COUNT
    assert ranks.wrong(0, [all_reduce_total(ranks, 0)], 1) == COUNT  # an earlier round's
    assert ranks.wrong(0, [good.roll(1024)], 1) == COUNT
    swapped = good - ranks.sent(2, 1)[0] + ranks.sent(1, 1)[0]
    assert ranks.wrong(0, [swapped], 1) == COUNT


def test_a_missing_rank_shows_in_its_share_of_bf16() -> None:
    ranks = Ranks(all_reduce, 4, "bfloat16")
    good = all_reduce_total(ranks, 1)
    assert ranks.wrong(0, [good - ranks.sent(3, 1)[0]], 1) == COUNT
    swapped = good - ranks.sent(2, 1)[0] + ranks.sent(1, 1)[0]
    assert ranks.wrong(0, [swapped], 1) > COUNT / 3  # that of both ranks, less the zeros
    assert ranks.wrong(0, [all_reduce_total(ranks, 0)], 1) == COUNT
    assert ranks.wrong(0, [good.roll(1024)], 1) == COUNT


def got(ranks: Ranks, rank: int, round_: int):
    return [ranks.sent(sender, round_)[rank] for sender in range(ranks.of.ranks)]


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_every_rank_ends_with_the_chunk_that_each_has_for_it(count: int, dtype: str) -> None:
    ranks = Ranks(alltoall, count, dtype)
    assert [ranks.wrong(rank, got(ranks, rank, 3), 3) for rank in range(count)] == [0] * count


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
def test_only_sums_are_bound_to_63_ranks(dtype: str) -> None:
    for operation in (all_reduce, reduce_scatter):
        assert operation.refuses(63, dtype) == ""
        assert "up to 63 ranks" in operation.refuses(64, dtype)
    for operation in (all_gather, broadcast, sendrecv):
        assert operation.refuses(72, dtype) == ""
    assert alltoall.refuses(72, "float") == ""


@pytest.mark.parametrize(("dtype", "most"), [("float", 255), ("bfloat16", 15)])
def test_so_many_pairs_have_data_that_begins_at_places_of_its_own(dtype: str, most: int) -> None:
    assert alltoall.refuses(most, dtype) == ""
    assert f"up to {most} ranks" in alltoall.refuses(most + 1, dtype)
    assert len({CODE_SHIFT * code % PERIODS[dtype] for code in range(most**2)}) == most**2


@pytest.mark.parametrize(("dtype", "most"), [("float", 72), ("bfloat16", 15)])
def test_no_two_pairs_have_the_same_data(dtype: str, most: int) -> None:
    ranks = Ranks(alltoall, most, dtype)
    first = {
        tuple(period[:2].tolist())
        for rank in range(most)
        for period in alltoall.sends(ranks.of, rank, 0)
    }
    assert len(first) == most * most


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
def test_a_chunk_for_or_from_another_rank_is_wrong(dtype: str) -> None:
    ranks = Ranks(alltoall, 4, dtype)
    right = got(ranks, 2, 3)
    assert ranks.wrong(2, [ranks.sent(0, 3)[1], *right[1:]], 3) == COUNT
    assert ranks.wrong(2, right[::-1], 3) == 4 * COUNT
    assert ranks.wrong(2, got(ranks, 2, 2), 3) == 4 * COUNT


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
@pytest.mark.parametrize("count", [1, 3, 8, 72])
def test_every_rank_ends_with_all_chunks_in_their_order(count: int, dtype: str) -> None:
    # Chunks of many ranks are short: how they repeat is seen where there are few.
    ranks = Ranks(all_gather, count, dtype, COUNT if count < 72 else COUNT // 10)
    gathered = [ranks.sent(rank, 3)[0] for rank in range(count)]
    assert [ranks.wrong(rank, gathered, 3) for rank in range(count)] == [0] * count


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
def test_all_gather_every_way_of_being_wrong_is_counted(dtype: str) -> None:
    ranks = Ranks(all_gather, 4, dtype)
    first, second, *rest = (ranks.sent(rank, 3)[0] for rank in range(4))
    assert ranks.wrong(0, [second, first, *rest], 3) == 2 * COUNT
    assert ranks.wrong(0, [ranks.sent(0, 2)[0], second, *rest], 3) == COUNT
    assert ranks.wrong(0, [first.roll(256), second, *rest], 3) == COUNT
    first[7] += 1
    assert ranks.wrong(0, [first, second, *rest], 3) == 1


def reduce_scatter_total(ranks: Ranks, chunk: int, round_: int):
    return summed([ranks.sent(rank, round_)[chunk] for rank in range(ranks.of.ranks)])


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_every_rank_ends_with_its_chunk_of_the_sum(count: int, dtype: str) -> None:
    ranks = Ranks(reduce_scatter, count, dtype)
    assert [
        ranks.wrong(rank, [reduce_scatter_total(ranks, rank, 3)], 3) for rank in range(count)
    ] == [0] * count


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
def test_another_ranks_chunk_and_an_earlier_rounds_are_wrong(dtype: str) -> None:
    ranks = Ranks(reduce_scatter, 4, dtype)
    assert ranks.wrong(1, [reduce_scatter_total(ranks, 2, 3)], 3) == COUNT
    assert ranks.wrong(1, [reduce_scatter_total(ranks, 1, 2)], 3) == COUNT
    assert ranks.wrong(1, [reduce_scatter_total(ranks, 1, 3) - ranks.sent(0, 3)[1]], 3) == COUNT


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
def test_every_rank_ends_with_rank_0s_data_and_not_with_its_own(dtype: str) -> None:
    ranks = Ranks(broadcast, 4, dtype)
    assert [ranks.wrong(rank, ranks.sent(0, 3), 3) for rank in range(4)] == [0] * 4
    own = [ranks.wrong(rank, ranks.sent(rank, 3), 3) for rank in range(4)]
    assert own == [0, COUNT, COUNT, COUNT]
    assert ranks.wrong(1, ranks.sent(0, 2), 3) == COUNT


def test_one_rank_has_nobody_to_send_to() -> None:
    assert sendrecv.refuses(1, "float") == "sendrecv needs another rank to send to"
    assert sendrecv.refuses(2, "float") == ""


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
def test_every_rank_ends_with_the_data_of_the_one_before(dtype: str) -> None:
    ranks = Ranks(sendrecv, 4, dtype)
    right = [ranks.wrong(rank, ranks.sent((rank - 1) % 4, 3), 3) for rank in range(4)]
    assert right == [0] * 4
    assert ranks.wrong(1, ranks.sent(2, 3), 3) == COUNT  # the ring the other way round
    assert ranks.wrong(1, ranks.sent(1, 3), 3) == COUNT


def test_only_the_last_rank_does_harm_and_after_the_run() -> None:
    done: list[object] = []
    harmless = load("all_reduce")
    made = sabotaged(
        harmless.__class__(**(vars(harmless) | {"run": lambda *given: done.append(given[2])})),
        "prove_x",
        lambda target: done.append(target),
    )
    made.run(None, "target", 0, 2)
    assert done == [0]
    made.run(None, "target", 1, 2)
    assert done == [0, 1, "target"]
    assert made.name == "prove_x"


def test_one_element_is_damaged() -> None:
    data = torch.arange(5.0)
    damage_one_element(data)
    assert data.tolist() == [1.0, 1.0, 2.0, 3.0, 4.0]


def test_a_stopped_process_neither_ends_nor_goes_on() -> None:
    pid = os.fork()
    if pid == 0:
        stop_this_process(None)
        os._exit(0)
    _, status = os.waitpid(pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.parametrize("name", ["prove_wrong", "prove_hang"])
def test_a_broken_collective_is_all_reduce_but_for_its_run(name: str) -> None:
    broken, whole = load(name), load("all_reduce")
    assert broken.name == name
    assert broken.run is not whole.run
    assert (broken.sends, broken.holds, broken.placement) == (
        whole.sends,
        whole.holds,
        whole.placement,
    )
