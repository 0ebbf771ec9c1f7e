"""Two names for one node, after the ssh configuration."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.connect.connector import Connector
from hwcheck.connect.deadlines import Deadlines
from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host

CONFIG = """
Host alias
 HostName 10.0.0.1
Host tunnel
 HostName localhost
 Port 2201
Host gate
 HostName login
Host behind
 HostName 10.0.0.1
 ProxyJump gate
Host pa pb
 HostName 10.0.0.9
 ProxyCommand nc %h %p
"""


@pytest.fixture
def connector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Connector:
    config = tmp_path / "ssh_config"
    config.write_text(CONFIG)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: pytest.fail("a name was looked up"))
    return Connector(Deadlines(), threading.Event(), ssh_config=config)


def over(*hops: str) -> dict[str, object]:
    return {"ssh_args": ("-J", ",".join(hops))}


@pytest.mark.parametrize(
    ("one", "two", "where"),
    [
        (("alias", {}), ("10.0.0.1", {}), "10.0.0.1:22"),
        (("Node1", {}), ("node1", {}), "node1:22"),
        (("node1.", {}), ("node1", {"user": "other"}), "node1:22"),
        (("node1", {"ssh_args": ("-o", "ConnectTimeout=5")}), ("node1", {}), "node1:22"),
        (("node1", {"ssh_args": ("-p", "2222")}), ("node1", {"port": 2222}), "node1:2222"),
        (("tunnel", {}), ("127.0.0.1", {"port": 2201}), "localhost:2201"),
        (("localhost", {}), ("127.0.0.1", {}), "this machine"),
        (("127.0.1.1", {}), ("::1", {}), "this machine"),
        (("localhost", {}), ("x", {"connection": "local"}), "this machine"),
        (("x", {"connection": "local"}), ("127.0.0.1", {}), "this machine"),
        (("FE80:0::1", {}), ("fe80::1", {}), "fe80::1:22"),
        (("::ffff:10.0.0.1", {}), ("alias", {}), "10.0.0.1:22"),
        (("behind", {}), ("10.0.0.1", over("login")), "10.0.0.1:22"),
        (("10.0.0.1", over("a", "gate")), ("10.0.0.1", over("a", "Login")), "10.0.0.1:22"),
        (("pa", {}), ("pb", {}), "10.0.0.9:22"),
    ],
)
def test_two_names_for_one_node(
    connector: Connector,
    one: tuple[str, dict[str, object]],
    two: tuple[str, dict[str, object]],
    where: str,
) -> None:
    hosts = [Host(n, address, **f) for n, (address, f) in (("one", one), ("two", two))]  # type: ignore[arg-type]
    with pytest.raises(UsageError) as caught:
        connector.prepare(hosts)
    assert str(caught.value) == (f"two: one is {where} too; remove one or change its ansible_host")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (("127.0.0.1", {"port": 2201}), ("127.0.0.1", {"port": 2202})),
        (("127.0.0.2", {"port": 2201}), ("127.0.0.3", {"port": 2201})),
        (("tunnel", {}), ("x", {"connection": "local"})),
        (("10.0.0.1", {}), ("10.0.0.1", {"port": 2222})),
        (("10.0.0.1", over("a")), ("10.0.0.1", over("b"))),
        (("alias", {}), ("behind", {})),
        (("localhost", over("a")), ("x", {"connection": "local"})),
    ],
)
def test_two_nodes(
    connector: Connector, one: tuple[str, dict[str, object]], two: tuple[str, dict[str, object]]
) -> None:
    hosts = [Host(n, address, **f) for n, (address, f) in (("one", one), ("two", two))]  # type: ignore[arg-type]
    connector.prepare(hosts)
    with pytest.raises(UsageError, match=r"three: one is .* too; remove one"):
        connector.prepare([hosts[0], replace(hosts[0], name="three")])
