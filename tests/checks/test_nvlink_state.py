"""NVLinks over the fleet: bridges that one node lacks as a whole, which no neighbor there shows."""

from __future__ import annotations

from hwcheck.advise.catalogue import shipped
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.judge.judge import judge
from hwcheck.results.run_folder import HostRecord
from tests.factories import gpu_facts, record, run

BOARD = "NVIDIA A40"


def bridged(host: str, links: int) -> HostRecord:
    """A host with two boards of which each has so many of four links up."""
    found = {
        "nvlink_unbridged": (False, ""),
        "nvlink_links_active": (links, "links"),
        "nvlink_links_of_peers": (links, "links"),
        "nvlink_links_inactive": (4 - links, "links"),
    }
    samples = tuple(
        Sample(metric, value, unit, f"gpu{index}")
        for index in range(2)
        for metric, (value, unit) in found.items()
    )
    facts = [fact | {"uuid": f"{host}-{fact['index']}"} for fact in gpu_facts(2, BOARD, links)]
    return record(host, [CheckResult("nvlink_state", "done", samples=samples)], gpus=facts)


def test_a_host_with_fewer_links_than_most_is_warned() -> None:
    hosts = (bridged("a", 4), bridged("b", 4), bridged("c", 2))
    found = judge(run(*hosts, checks=["nvlink_state"]), shipped()).findings
    warned = [(finding.host, finding.subject) for finding in found if finding.outcome == "warn"]
    assert warned == [("c", "gpu0"), ("c", "gpu1")]
    assert {finding.outcome for finding in found if finding.host != "c"} == {"pass"}
