"""Every strategy computes what one process does; the one that is wrong on purpose does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from hwcheck.contract.model_shape import MODELS
from hwcheck.node.collective.ranks import wait_until
from hwcheck.node.training import strategies
from hwcheck.node.training.strategy import Degrees, Strategy
from hwcheck.results.training import TOLERANCES
from tests.node.training.serving import GONE_S, answers, children, losses, order

TINY = MODELS["tiny"]


def runs_here(name: str) -> bool:
    """Whether this torch has it, by what the strategy says."""
    version = pytest.importorskip("torch").__version__.split(".")
    return not strategies.load(name).refuses_torch((int(version[0]), int(version[1])), cuda=False)


def trained(ranks: int) -> list[str]:
    """The strategies that fit on so many ranks of a CPU, and that this torch has."""
    names = [name for name in strategies.NAMES if name != "single" and runs_here(name)]
    return [n for n in names if not strategies.load(n).refuses(TINY, ranks, 1, cuda=False)]


def compare(ranks: int, among: Iterable[str]) -> None:
    names = [name for name in (*among, *strategies.CONTROLS) if runs_here(name)]
    alone = order("single", 1, sequences=ranks, launch="alone")
    first, *others = answers([alone, *(order(name, ranks) for name in names)])
    expected = losses(first)
    assert len(expected) == 2
    assert expected[1] < expected[0]
    for name, answer in zip(names, others, strict=True):
        assert answer["state"] == "done", answer["reason"] + answer["log_tail"]
        assert [len(each["times_s"]) for each in answer["repeats"]] == [1]
        assert len(answer["peak_bytes"]) == ranks
        same = losses(answer) == pytest.approx(expected, rel=TOLERANCES["fp32"])
        assert same == (name not in strategies.CONTROLS), (name, losses(answer), expected)


@pytest.mark.timeout(300)
def test_one_of_each_family() -> None:
    others = children()
    compare(2, ("ddp", "zero1", "zero3", "tp", "pp_1f1b"))
    assert wait_until(lambda: children() <= others, GONE_S)


@pytest.mark.wide
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("ranks", "also"), [(2, "tp_sp"), (4, "tp_pp"), (8, "zero1_3d")])
def test_all_that_fit(ranks: int, also: str) -> None:
    assert (also in trained(ranks)) == runs_here(also)
    compare(ranks, trained(ranks))


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_what_this_torch_is_refused_for_does_not_run() -> None:
    """With an older torch; the one that is pinned has them all."""
    refused = [name for name in strategies.NAMES if not runs_here(name)]
    if not refused:
        pytest.skip("this torch has all strategies")
    asked = []
    for name in refused:
        fits = [n for n in (4, 8, 2) if not strategies.load(name).refuses(TINY, n, 1, cuda=False)]
        asked.append(order(name, fits[0], launch=name, start_s=40.0))
    states = {name: each["state"] for name, each in zip(refused, answers(asked), strict=True)}
    assert set(states.values()) <= {"failed", "hang"}, states


def all_strategies() -> Iterator[Strategy]:
    yield from map(strategies.load, (*strategies.NAMES, *strategies.CONTROLS))


@pytest.mark.parametrize("strategy", all_strategies(), ids=lambda strategy: strategy.name)
def test_every_file_says_its_groups(strategy: Strategy) -> None:
    for hosts in (1, 2):
        if not strategy.refuses(TINY, 8, hosts, cuda=True) and strategy.name != "single":
            assert strategy.degrees(8, hosts).ranks == 8
    assert strategies.load(strategy.name) is strategy
    assert strategies.label_of(strategy.name) == strategy.label


@pytest.mark.parametrize(
    ("name", "ranks", "hosts", "reason"),
    [
        ("ddp", 1, 1, "DDP takes 2 ranks or more"),
        ("tp", 8, 1, "4 heads cannot be split by TP 8"),
        ("pp_gpipe", 8, 1, "4 layers cannot be split into 8 stages"),
        ("pp_interleaved", 4, 1, "4 layers cannot be split into 8 stages"),
        ("dp_tp", 5, 1, "5 ranks cannot be split into DP 2 x TP 2"),
        ("dp", 2, 1, "nn.DataParallel does nothing without CUDA devices"),
        ("3d", 4, 1, "3D takes 8 ranks or more"),
    ],
)
def test_what_cannot_be_split_is_refused(name: str, ranks: int, hosts: int, reason: str) -> None:
    assert strategies.load(name).refuses(TINY, ranks, hosts, cuda=False) == reason


def test_data_parallel_is_of_one_host() -> None:
    dp = strategies.load("dp")
    assert not dp.refuses(TINY, 2, 1, cuda=True)
    assert dp.refuses(TINY, 2, 2, cuda=True) == "nn.DataParallel is one process, of one host"


@pytest.mark.parametrize(
    ("name", "version", "cuda", "refused"),
    [
        ("ddp", (2, 0), False, False),
        ("zero3", (2, 6), False, True),
        ("zero3", (2, 6), True, False),
        ("zero3", (2, 7), False, False),
        ("pp_1f1b", (2, 7), False, True),
        ("pp_1f1b", (2, 8), False, False),
        ("pp_naive", (2, 6), True, False),
        ("pp_naive", (2, 7), True, True),
        ("pp_naive", (2, 10), False, True),
        ("pp_naive", (2, 11), False, False),
        ("3d", (2, 13), False, False),
    ],
)
def test_an_old_torch_is_refused(
    name: str, version: tuple[int, int], cuda: bool, refused: bool
) -> None:
    reason = strategies.load(name).refuses_torch(version, cuda=cuda)
    assert bool(reason) == refused
    assert not reason or f"torch {version[0]}.{version[1]}" in reason


def test_groups_across_hosts_follow_them() -> None:
    assert strategies.load("hsdp").degrees(16, 2) == Degrees(replicate=2, shard=8)
    assert strategies.load("dp_tp").degrees(16, 2) == Degrees(replicate=2, tensor=8)
    assert strategies.load("dp_pp").degrees(16, 4) == Degrees(pipeline=4, replicate=4)
    assert strategies.load("tp_pp").degrees(16, 2) == Degrees(pipeline=2, tensor=8)


@pytest.mark.parametrize("name", ["hsdp", "dp_tp", "dp_pp", "tp_pp"])
def test_hosts_with_a_rank_each_are_grouped_as_one_host_is(name: str) -> None:
    strategy = strategies.load(name)
    for hosts in (4, 8):
        assert strategy.degrees(hosts, hosts) == strategy.degrees(hosts, 1)
        assert str(strategy.degrees(hosts, hosts)).count(" x ") == 1, "two ways, each of several"


def test_a_name_that_is_none_is_not_imported() -> None:
    with pytest.raises(KeyError):
        strategies.load("os")
    assert strategies.label_of("new_one") == "new_one"
