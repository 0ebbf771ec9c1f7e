from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.results.multi_host import MultiHostOutcome, MultiHostRecord
from hwcheck.run.multi_host.reference import Reference
from hwcheck.run.multi_host.scope_runner import ScopeRunner
from tests.run.multi_host.fake_participants import FakeMembers
from tests.run.multi_host.planted import names


class NicFleet:
    """The busbw of a ring over hosts is that of the host with the fewest NICs at work."""

    def __init__(self, nics: dict[str, int], slow: dict[str, float] | None = None) -> None:
        self.nics, self.slow = nics, slow or {}

    def measure(self, hosts: tuple[str, ...]) -> MultiHostOutcome:
        gbps = min(48.0 * self.nics[name] * self.slow.get(name, 1.0) for name in hosts)
        return MultiHostOutcome("ok", gbps, gbps)


def session(folder: Path, fleet: NicFleet, *scopes: str, told: bool = True) -> MultiHostRecord:
    members = FakeMembers(fleet, list(fleet.nics), gpus=dict.fromkeys(fleet.nics, 8))  # type: ignore[arg-type]
    for name, ready in members.ready.items():
        if told:
            members.ready[name] = replace(ready, model="H100", rdma_ports=fleet.nics[name])
    return ScopeRunner(members, scopes, folder, lambda text: None).run()  # type: ignore[arg-type]


MIXED = {**dict.fromkeys(names(4), 8), "odd": 4}


@pytest.mark.parametrize("scopes", [("pairs",), ("all",), ("pairs", "all"), ("rails",)])
def test_a_host_with_fewer_nics_is_not_slow(tmp_path: Path, scopes: tuple[str, ...]) -> None:
    record = session(tmp_path, NicFleet(MIXED), *scopes)
    assert record.suspects == ()
    if scopes == ("pairs",):
        assert record.unresolved == ()
        assert record.not_compared == {
            "odd": "up to 192 GB/s where others reach 384, and unlike them "
            "(8 x H100, 4 RDMA ports): nothing to compare with"
        }


def test_the_same_figures_of_a_host_that_is_alike_are_slow(tmp_path: Path) -> None:
    """The control: nothing was told that makes it another kind."""
    record = session(tmp_path, NicFleet(MIXED), "pairs", "all", told=False)
    assert [(one.hosts, one.kind) for one in record.suspects] == [(("odd",), "slow")]


@pytest.mark.parametrize("scopes", [("pairs",), ("all",)])
@pytest.mark.parametrize("culprit", ["n02", "s2"])
def test_a_slow_host_is_found_among_its_like(
    tmp_path: Path, culprit: str, scopes: tuple[str, ...]
) -> None:
    nics = {**dict.fromkeys(names(4), 8), **dict.fromkeys(("s1", "s2", "s3", "s4"), 4)}
    record = session(tmp_path, NicFleet(nics, {culprit: 0.2}), *scopes)
    assert [(one.hosts, one.kind) for one in record.suspects] == [((culprit,), "slow")]


def test_a_port_that_is_down_leaves_a_host_alike(tmp_path: Path) -> None:
    fleet = NicFleet(dict.fromkeys(names(4), 8), {"n03": 0.5})
    record = session(tmp_path, fleet, "pairs")
    assert [one.hosts for one in record.suspects] == [("n03",)]


def test_of_one_kind_it_is_the_upper_median_and_of_several_the_best_of_each() -> None:
    pairs = {
        ("a", "b"): MultiHostOutcome("ok", 10.0, 10.0),
        ("a", "c"): MultiHostOutcome("ok", 4.0, 4.0),
        ("b", "c"): MultiHostOutcome("hang"),
    }
    assert Reference(pairs).best_gbps == 10.0
    mixed = Reference(pairs, {"a": "x", "b": "x", "c": "y"})
    assert (mixed.of(["a", "b"]), mixed.of(["a", "c"]), mixed.of("abc")) == (10.0, 4.0, 4.0)
    assert mixed.share(["a", "c"]) == 0.4
    assert mixed.of(["stranger"]) == mixed.best_gbps
    assert Reference({}).of(["a"]) == 0.0
    assert Reference({}).share(["a"]) == 1.0
