"""From a node's answers to its links."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.contract.wire import CheckResult, Report, Sample
from hwcheck.judge.interconnect import links_of
from hwcheck.judge.prediction import PER_LINK_GBPS
from hwcheck.results.run_folder import HostRecord
from tests.judge.nodes import node, pcie, topology


def test_switches() -> None:
    links = links_of(node("n1", (), topology(), pcie()))
    assert links is not None
    assert (links.gpus, links.switched, links.fewest, links.link_gbps) == (8, True, 18, 26.5625)
    assert links.pcie["gpu7"] == (5, 16)


@pytest.mark.parametrize("link_gbps", PER_LINK_GBPS)
@pytest.mark.parametrize("count", [1, 2, 6, 18])
def test_the_speed_of_one_link_is_one_that_is_known(link_gbps: float, count: int) -> None:
    said = topology(2, f"NV{count}", switched=False, link_gbps=link_gbps)
    links = links_of(node("n1", (), said, pcie(2), gpus=2))
    assert links is not None
    assert links.link_gbps == link_gbps


def test_a_way_that_the_driver_refuses_is_none_between_peers() -> None:
    refusal = CheckResult(
        "p2p_status", "done", samples=(Sample("pcie_write", "CNS", "", "gpu1-gpu0"),)
    )
    links = links_of(node("n1", (), topology(3, "PIX"), refusal, gpus=3))
    assert links is not None
    assert {pair: hop.peer for pair, hop in links.hops.items()} == {
        (0, 1): False,
        (0, 2): True,
        (1, 2): True,
    }


def test_no_way_is_no_links() -> None:
    assert links_of(node("n1", (), pcie())) is None
    assert links_of(HostRecord("n1", "unreachable")) is None


def test_what_a_node_makes_up_is_left_out() -> None:
    answer = topology(2, "PIX")
    odd = (
        Sample("path", "PIX", "", "gpu0-gpu77"),
        Sample("path", "PIX", "", "gpu0-mlx5_0"),
        Sample("path", "PIX", "", "x" * 300),
        Sample("nvlink_gbps", "fast", "GB/s", "gpu0-gpu1"),
    )
    links = links_of(node("n1", (), replace(answer, samples=answer.samples + odd), gpus=2))
    assert links is not None
    assert list(links.hops) == [(0, 1)]
    assert links.link_gbps is None


def test_the_cpu_is_a_name_or_nothing() -> None:
    host = node("n1", (), topology(2, "SYS"), gpus=2)
    assert host.report is not None
    for said, cpu in (("AuthenticAMD", "AuthenticAMD"), (7, "")):
        report = Report({**host.report.facts, "cpu_vendor": said}, host.report.results)
        links = links_of(replace(host, report=report))
        assert links is not None
        assert links.cpu == cpu
