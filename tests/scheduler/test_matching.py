"""Which node a host is: by name, short name or address; never a guess."""

from __future__ import annotations

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory.expectations import HostSettings
from hwcheck.inventory.inventory import Host
from hwcheck.scheduler.matching import match
from hwcheck.scheduler.records import IDLE, UNKNOWN, NodeState


def node(name: str, *names: str) -> NodeState:
    return NodeState(node=name, state=IDLE, names=(name, *names))


NODES = (
    node("gpu1", "10.0.0.1", "gpu1.cluster"),
    node("gpu2", "10.0.0.2"),
    node("b-17.example.com", "10.0.0.3"),
    node("here", "127.0.0.1", "localhost"),
)


@pytest.mark.parametrize(
    ("name", "address", "wanted"),
    [
        ("gpu1", "gpu1", "gpu1"),
        ("GPU1", "GPU1", "gpu1"),
        ("gpu1.example.com", "10.9.9.9", "gpu1"),
        ("left", "10.0.0.2", "gpu2"),
        ("left", "gpu2.example.com", "gpu2"),
        ("b-17", "b-17", "b-17.example.com"),
        ("b-17.other.org", "b-17.other.org", ""),
        ("10.0.0.2", "10.0.0.2", "gpu2"),
        ("10.0.0.9", "10.0.0.9", ""),  # its short form is no 10
        ("gpu3", "127.0.0.1", ""),
        ("gpu2", "127.0.0.1", "gpu2"),
        ("localhost", "localhost", ""),
    ],
)
def test_the_node_of_a_host(name: str, address: str, wanted: str) -> None:
    found = match("slurm", [Host(name, address)], NODES)[name]
    assert found.node == wanted
    assert (found.state == UNKNOWN) == (not wanted)


def test_a_name_and_an_address_of_two_nodes_are_refused() -> None:
    with pytest.raises(UsageError, match="gpu1 may be the node gpu1 or gpu2 of slurm; say which"):
        match("slurm", [Host("gpu1", "10.0.0.2")], NODES)


def test_two_hosts_that_are_one_node_are_refused() -> None:
    hosts = [Host("gpu1", "gpu1"), Host("left", "10.0.0.1")]
    with pytest.raises(UsageError, match="gpu1 and left are both the node gpu1 of slurm"):
        match("slurm", hosts, NODES)


def test_the_variable_decides_and_must_name_a_node() -> None:
    settled = Host("gpu1", "10.0.0.2", settings=HostSettings(scheduler_node="gpu2"))
    assert match("slurm", [settled], NODES)["gpu1"].node == "gpu2"
    wrong = Host("gpu1", "10.0.0.1", settings=HostSettings(scheduler_node="gpu9"))
    with pytest.raises(UsageError, match="gpu1: hwcheck_scheduler_node: slurm has no node gpu9"):
        match("slurm", [wrong], NODES)
