"""A prediction from links; the figures themselves are held against others in test_published.py."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from hwcheck.judge.interconnect import Hop, Links
from hwcheck.judge.prediction import Prediction, pcie_gbps, predict

NCCL = "NCCL 2.27.5"


def links(gpus: int, hop: Hop, **changes: object) -> Links:
    """Return a node on which every hop is alike."""
    hops = {
        (a, b): replace(hop, ends=(f"gpu{a}", f"gpu{b}")) for a, b in combinations(range(gpus), 2)
    }
    pcie = {f"gpu{gpu}": (4, 16) for gpu in range(gpus)}
    return replace(Links(gpus, hops, pcie=pcie), **changes)


NODE, PIX, SYS = Hop(("", ""), "NODE"), Hop(("", ""), "PIX", peer=True), Hop(("", ""), "SYS")
NV18 = Hop(("", ""), "NV18", 18)


def peak(node: Links, collective: str = "all_reduce", library: str = NCCL) -> float:
    found = predict(node, collective, library)
    assert isinstance(found, Prediction), found
    return found.peak_gbps


@pytest.mark.parametrize(
    ("hop", "cpu", "expected"),
    [
        (PIX, "", 22.08),
        (NODE, "", 15.6),
        (SYS, "AuthenticAMD", 15.6),
        (SYS, "GenuineIntel", 10.0),
        (SYS, "", 10.0),
    ],
)
def test_pcie_its_switches_host_memory_and_sockets(hop: Hop, cpu: str, expected: float) -> None:
    assert peak(links(4, hop, cpu=cpu)) == pytest.approx(expected)


def test_a_newer_intel_has_a_faster_way_between_its_sockets() -> None:
    gen5 = {f"gpu{gpu}": (5, 16) for gpu in range(4)}
    assert peak(links(4, SYS, cpu="GenuineIntel", pcie=gen5)) == 22.0


def test_the_worst_hop_that_no_ring_avoids_decides() -> None:
    node = links(4, PIX)
    hops = dict(node.hops)
    for pair in ((0, 2), (0, 3), (1, 2), (1, 3)):
        hops[pair] = replace(hops[pair], path="NODE", peer=False)
    assert peak(replace(node, hops=hops)) == pytest.approx(15.6)
    hops[0, 2] = replace(hops[0, 2], path="PXB", peer=True)
    assert peak(replace(node, hops=hops)) == pytest.approx(22.08)


def test_a_narrow_slot_is_as_it_was_built() -> None:
    narrow = {f"gpu{gpu}": (4, 8 if gpu == 1 else 16) for gpu in range(2)}
    assert peak(links(2, PIX, pcie=narrow)) == pytest.approx(11.04)


def test_switches_add_up_for_all_reduce_from_nccl_2_17_on() -> None:
    node = links(8, NV18, switched=True, link_gbps=26.5625)
    ring = peak(node, "all_gather")
    assert peak(node) > 1.2 * ring
    assert peak(node, library="NCCL 2.16.2") == peak(node, library="") == ring
    assert peak(links(8, NV18, switched=True, link_gbps=25.0)) == pytest.approx(356.6, rel=0.01)


def test_the_fewest_links_of_any_pair_count() -> None:
    node = links(8, NV18, switched=True, link_gbps=26.5625)
    short = dict(node.hops) | {(0, 1): replace(node.hops[0, 1], path="NV17", nvlinks=17)}
    assert peak(replace(node, hops=short)) == pytest.approx(peak(node) * 17 / 18)


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (links(1, PIX), "one GPU"),
        (links(8, NV18, switched=True), "NVLink of unknown speed"),
        (links(2, NV18, link_gbps=99.0), "NVLink of 99 GB/s"),
        (links(4, PIX, pcie={"gpu0": (4, 16)}), "the PCIe link of gpu0 or"),
        (links(2, PIX, pcie={"gpu0": (9, 16), "gpu1": (9, 16)}), "the PCIe link of gpu0 or"),
        (Links(4, {(0, 1): PIX}, pcie={"": (4, 16)}), "not every way"),
    ],
)
def test_no_prediction_says_why(node: Links, why: str) -> None:
    found = predict(node, "all_reduce", NCCL)
    assert isinstance(found, str)
    assert why in found


def test_a_small_message_reaches_less() -> None:
    found = predict(links(8, NV18, switched=True, link_gbps=53.125), "all_reduce", NCCL)
    assert isinstance(found, Prediction)
    assert found.at(64 * 2**20) < 0.5 * found.peak_gbps < 0.99 * found.at(16 * 2**30)


@pytest.mark.parametrize(
    ("generation", "lanes", "gbps"),
    [(3, 16, 12), (4, 8, 12), (5, 16, 48), (7, 16, None), (3, 0, None)],
)
def test_pcie(generation: int, lanes: int, gbps: float | None) -> None:
    assert pcie_gbps(generation, lanes) == gbps
