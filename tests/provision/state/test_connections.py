"""Who is connected to, how often, and how many at once."""

from __future__ import annotations

import sys

import pytest

from hwcheck.connect.deadlines import VisitError
from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Cluster, Host
from hwcheck.provision.state.connections import GATEWAY_LOGINS, Connections

HERE = Host("here", "here", connection="local", python=sys.executable)
AWAY = Host("away", "127.0.0.1", port=1, user="nobody")
BEHIND = Host("behind", "192.0.2.1", ssh_args=("-J", "login.example"))


def test_a_host_is_connected_to_once() -> None:
    connections = Connections(Cluster((HERE,), ""))
    first, again = connections.host(HERE), connections.host(HERE)
    pids = {first.run("echo $PPID").stdout, again.run("echo $PPID").stdout}
    assert len(pids) == 1
    connections.leave(HERE)
    assert connections.host(HERE).run("echo $PPID").stdout not in pids
    connections.leave(HERE)
    connections.close()


def test_a_host_that_cannot_be_reached_is_tried_once() -> None:
    connections = Connections(Cluster((AWAY,), ""))
    with pytest.raises(VisitError, match="refused") as first:
        connections.host(AWAY)
    with pytest.raises(VisitError) as second:
        connections.host(AWAY)
    assert second.value is first.value
    connections.leave(AWAY)


@pytest.mark.parametrize(("host", "most"), [(AWAY, 32), (BEHIND, GATEWAY_LOGINS)])
def test_a_jump_host_is_not_stormed(host: Host, most: int) -> None:
    connections = Connections(Cluster((host,), ""))
    assert connections.most_at_once(32) == most
    assert connections.most_at_once(2) == 2


def test_two_names_for_one_node_are_refused() -> None:
    other = Host("other", "127.0.0.1", port=1, user="nobody")
    with pytest.raises(UsageError, match=r"other: away is .* too; remove one"):
        Connections(Cluster((AWAY, other), ""))
