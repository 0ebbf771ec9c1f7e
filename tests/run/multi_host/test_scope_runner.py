from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.reasons import Reason
from hwcheck.results.multi_host import (
    KINDS,
    MultiHostRecord,
    MultiHostRun,
    Transport,
    fabric_between,
    read_multi_host,
)
from hwcheck.run.multi_host.orders import GLOO, NCCL
from hwcheck.run.multi_host.scope_runner import LOOPBACK, NO_GPU, ScopeRunner
from tests.run.multi_host.fake_participants import FakeMembers
from tests.run.multi_host.planted import Fleet, names


def session(
    folder: Path, faults: dict[tuple[str, ...], str], hosts: int, *scopes: str, **members: Any
) -> tuple[MultiHostRecord, FakeMembers]:
    fake = FakeMembers(Fleet(faults), names(hosts), **members)
    record = ScopeRunner(fake, scopes, folder, lambda text: None).run()  # type: ignore[arg-type]
    assert read_multi_host(folder) == record, "what is kept is what came out"
    return record, fake


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scopes", [("pairs",), ("all",), ("pairs", "all")])
@pytest.mark.parametrize("hosts", [3, 4, 7, 8])
def test_a_bad_host_is_the_only_suspect(
    tmp_path: Path, hosts: int, scopes: tuple[str, ...], kind: str
) -> None:
    record, _ = session(tmp_path, {("n02",): kind}, hosts, *scopes)
    assert [(one.hosts, one.kind) for one in record.suspects] == [(("n02",), kind)]
    assert (record.unresolved, record.absent, record.finished) == ((), {}, True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scopes", [("pairs",), ("all",)])
def test_a_bad_link_is_the_only_suspect(tmp_path: Path, scopes: tuple[str, ...], kind: str) -> None:
    record, _ = session(tmp_path, {("n02", "n05"): kind}, 6, *scopes)
    assert [(sorted(one.hosts), one.kind) for one in record.suspects] == [(["n02", "n05"], kind)]


@pytest.mark.parametrize("scopes", [("pairs",), ("all",), ("pairs", "all")])
def test_a_healthy_fleet_has_no_suspect_and_costs_no_search(
    tmp_path: Path, scopes: tuple[str, ...]
) -> None:
    record, fake = session(tmp_path, {}, 5, *scopes)
    assert (record.suspects, record.unresolved, record.finished) == ((), (), True)
    assert {why for why, *_ in fake.asked} <= {"pairs", "all"}


def test_what_pairs_have_named_is_not_searched_again(tmp_path: Path) -> None:
    record, fake = session(tmp_path, {("n02",): "slow"}, 8, "pairs", "all")
    split = [hosts for why, hosts, *_ in fake.asked if why == "split"]
    assert split == [tuple(name for name in names(8) if name != "n02")], "the rest is fine"
    assert len(record.suspects) == 1


def test_a_host_that_stands_still_is_accused_at_once(tmp_path: Path) -> None:
    record, fake = session(tmp_path, {("n03",): "hang"}, 4, "all", stands_still="n03")
    (suspect,) = record.suspects
    assert (suspect.hosts, suspect.kind) == (("n03",), "hang")
    assert suspect.evidence == ("rank 0 on n03 is stopped",)
    assert not [why for why, *_ in fake.asked if why == "split"]


def test_a_rank_that_stood_still_once_accuses_its_host_and_no_link(tmp_path: Path) -> None:
    class Once(FakeMembers):
        def _one(self, why: str, round_: int, hosts: tuple[str, ...]) -> MultiHostRun:
            first = "n03" in hosts and sum("n03" in met for _, met, *_ in self.asked) == 1
            self.fleet = Fleet({("n03",): "hang"} if first else {})
            return super()._one(why, round_, hosts)

    fake = Once(Fleet({}), names(4), stands_still="n03")
    record = ScopeRunner(fake, ("pairs",), tmp_path, lambda text: None).run()  # type: ignore[arg-type]
    assert [(one.hosts, one.kind) for one in record.suspects] == [(("n03",), "hang")]
    assert record.unresolved == ()
    assert {why for why, *_ in fake.asked} == {"pairs"}, "no second look is wanted"


@pytest.mark.parametrize("goes_at", [1, 4, 7])
@pytest.mark.parametrize("scopes", [("pairs",), ("all",), ("pairs", "all")])
def test_a_host_that_goes_is_accused_and_not_asked_again(
    tmp_path: Path, scopes: tuple[str, ...], goes_at: int
) -> None:
    record, fake = session(tmp_path, {}, 4, *scopes, goes_at=("n03", goes_at))
    if not fake.absent:
        assert len(fake.asked) < goes_at, "it had no run left to go in"
        return
    assert record.absent == {"n03": Reason("silent", "no sign of life")}
    assert [one.hosts for one in record.suspects] == [("n03",)]


def test_a_host_that_goes_during_the_second_look_leaves_it_open(tmp_path: Path) -> None:
    record, _ = session(tmp_path, {("n02",): "slow"}, 4, "pairs", goes_at=("n02", 7))
    assert [one.hosts for one in record.suspects] == [("n02",)]
    assert record.suspects[0].kind == "hang"


def test_a_stop_leaves_what_was_measured(tmp_path: Path) -> None:
    record, _ = session(tmp_path, {("n02",): "slow"}, 4, "pairs", "all", stops_at=3)
    assert not record.finished
    assert record.notes == ("the run was stopped",)
    assert len(record.runs) == 2, "one round before it"


@pytest.mark.parametrize("scope", ["pairs", "all", "rails"])
def test_one_host_is_no_group(tmp_path: Path, scope: str) -> None:
    record, fake = session(tmp_path, {}, 1, scope)
    assert fake.asked == []
    assert record.finished


def test_the_largest_size_of_the_backend(tmp_path: Path) -> None:
    _, fake = session(tmp_path, {}, 2, "all")
    assert fake.asked[-1][2] == GLOO.whole_sizes
    _, fake = session(tmp_path, {}, 2, "all", gpus={"n01": 8, "n02": 8})
    assert fake.asked[-1][2] == NCCL.whole_sizes


def test_a_host_without_gpus_among_others_takes_no_part(tmp_path: Path) -> None:
    record, fake = session(tmp_path, {}, 3, "pairs", gpus={"n01": 8, "n02": 8})
    assert record.absent == {"n03": NO_GPU}
    assert {hosts for _, hosts, *_ in fake.asked} == {("n01", "n02")}


def test_a_host_that_only_itself_can_reach_takes_no_part(tmp_path: Path) -> None:
    fake = FakeMembers(Fleet({}), names(3))
    fake.ready["n02"] = replace(fake.ready["n02"], address="127.0.0.1")
    record = ScopeRunner(fake, ("all",), tmp_path, lambda text: None).run()  # type: ignore[arg-type]
    assert record.absent == {"n02": LOOPBACK}
    assert {name for run in record.runs for name in run.hosts} == {"n01", "n03"}


def test_rails_run_each_gpu_over_all_hosts(tmp_path: Path) -> None:
    gpus = dict.fromkeys(names(4), 2)
    record, fake = session(tmp_path, {}, 4, "rails", gpus=gpus)
    assert [(why, device) for why, _, _, device in fake.asked] == [("rail 0", 0), ("rail 1", 1)]
    assert record.suspects == ()


def test_a_slow_rail_names_the_host_whose_gpu_it_is(tmp_path: Path) -> None:
    fleets = {0: Fleet({}), 1: Fleet({("n04",): "slow"})}

    class Rails(FakeMembers):
        def run(self, why, round_, groups, sizes, sizing, device=None):  # type: ignore[no-untyped-def]
            self.fleet = fleets[device]
            return super().run(why, round_, groups, sizes, sizing, device)

    fake = Rails(fleets[0], names(4), gpus=dict.fromkeys(names(4), 2))
    record = ScopeRunner(fake, ("rails",), tmp_path, lambda text: None).run()  # type: ignore[arg-type]
    (suspect,) = record.suspects
    assert (suspect.hosts, suspect.kind) == (("n04",), "slow")
    assert all(line.startswith("rail 1: ") for line in suspect.evidence)


def test_rails_of_hosts_without_gpus_are_none(tmp_path: Path) -> None:
    record, fake = session(tmp_path, {}, 3, "rails")
    assert fake.asked == []
    assert record.notes == ("rails: there are no GPUs",)


def in_racks(
    folder: Path, sides: tuple[tuple[str, ...], ...], kind: str, *scopes: str
) -> MultiHostRecord:
    hosts = sorted(name for side in sides for name in side)
    fake = FakeMembers(Fleet({}, racks=sides, between=kind), hosts)
    return ScopeRunner(fake, scopes, folder, lambda text: None).run()  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scopes", [("pairs",), ("all",), ("pairs", "all")])
@pytest.mark.parametrize("first", [2, 4, 5])
def test_the_fabric_between_racks_accuses_no_host(
    tmp_path: Path, first: int, scopes: tuple[str, ...], kind: str
) -> None:
    sides = (tuple(names(8)[:first]), tuple(names(8)[first:]))
    record = in_racks(tmp_path, sides, kind, *scopes)
    assert record.suspects == ()
    assert record.unresolved == (fabric_between(sides, kind),)


@pytest.mark.parametrize("kind", KINDS)
def test_racks_whose_names_alternate_are_told_by_their_pairs(tmp_path: Path, kind: str) -> None:
    sides = (tuple(names(8)[::2]), tuple(names(8)[1::2]))
    record = in_racks(tmp_path, sides, kind, "pairs", "all")
    assert record.suspects == ()
    assert record.unresolved == (fabric_between(sides, kind),)


def test_a_bad_host_beside_a_bad_fabric_is_named(tmp_path: Path) -> None:
    sides = (tuple(names(8)[:4]), tuple(names(8)[4:]))
    fake = FakeMembers(Fleet({("n06",): "slow"}, racks=sides, between="slow"), names(8))
    record = ScopeRunner(fake, ("pairs",), tmp_path, lambda text: None).run()  # type: ignore[arg-type]
    assert [one.hosts for one in record.suspects] == [("n06",)]
    assert record.unresolved == (fabric_between((sides[0], ("n05", "n07", "n08")), "slow"),)


def test_the_ports_that_nccl_names_say_which_rails(tmp_path: Path) -> None:
    class Named(FakeMembers):
        def _one(self, why: str, round_: int, hosts: tuple[str, ...]) -> MultiHostRun:
            way = Transport(hosts, {"network": "IB mlx5_0:1/IB mlx5_1:1/IB"})
            return replace(super()._one(why, round_, hosts), transport=(way,))

    sides = (tuple(names(4)[:2]), tuple(names(4)[2:]))
    fake = Named(Fleet({}, racks=sides, between="slow"), names(4))
    record = ScopeRunner(fake, ("all",), tmp_path, lambda text: None).run()  # type: ignore[arg-type]
    assert record.unresolved == (
        Reason(
            "fabric_between",
            f"{fabric_between(sides, 'slow')}; NCCL went over IB mlx5_0:1/IB mlx5_1:1/IB",
        ),
    )


def test_a_rail_between_racks_is_named(tmp_path: Path) -> None:
    sides = (tuple(names(4)[:2]), tuple(names(4)[2:]))
    fleets = {0: Fleet({}), 1: Fleet({}, racks=sides, between="slow")}

    class Rails(FakeMembers):
        def run(self, why, round_, groups, sizes, sizing, device=None):  # type: ignore[no-untyped-def]
            self.fleet = fleets[device]
            return super().run(why, round_, groups, sizes, sizing, device)

    fake = Rails(fleets[0], names(4), gpus=dict.fromkeys(names(4), 2))
    record = ScopeRunner(fake, ("rails",), tmp_path, lambda text: None).run()  # type: ignore[arg-type]
    assert record.suspects == ()
    assert record.unresolved == (
        Reason("fabric_between", f"rail 1: {fabric_between(sides, 'slow')}"),
    )
