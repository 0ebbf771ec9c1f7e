from __future__ import annotations

import math
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.connect.connector import Connector
from hwcheck.connect.deadlines import Deadlines
from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host


@pytest.fixture
def connector(tmp_path: Path) -> Connector:
    config = tmp_path / "ssh_config"
    config.write_text("")
    return Connector(Deadlines(), threading.Event(), ssh_config=config)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"connection": "docker"}, "ansible_connection: docker is not supported; use ssh or local"),
        ({"ssh_args": ("-o", "StrictHostKeyChecking=no")}, "use accept-new"),
        ({"become": True, "become_method": "doas"}, "ansible_become_method: doas"),
        ({"private_key_file": "/no/such/key"}, "cannot read private key /no/such/key"),
        ({"ssh_args": ("-J", "a;b")}, "ssh option ProxyJump=a;b: the shell of a Match exec or"),
        ({"ssh_args": ("-J", "a@@b")}, "n1: jump host b: |n1: ssh configuration: "),
        ({"connection": "local", "python": "it's"}, "ansible_python_interpreter"),
    ],
)
def test_prepare_refuses_before_anything_is_sent(
    connector: Connector, fields: dict[str, object], message: str
) -> None:
    host = Host("n1", "127.0.0.1", **fields)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=message) as caught:
        connector.prepare([host])
    assert str(caught.value).startswith("n1: ")
    assert "\n" not in str(caught.value)


def test_hosts_behind_one_route_share_its_gateways(connector: Connector) -> None:
    routes = {"n1": "a,b", "n2": "a,b", "n3": "a"}
    connector.prepare([Host(name, name, ssh_args=("-J", hops)) for name, hops in routes.items()])
    routes_made = sorted([jump.host for jump in hops] for hops in connector._gateways)
    assert routes_made == [["a"], ["a", "b"]]


def test_a_gateway_behind_another_is_reached_over_it(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("Host n1\n ProxyJump inner\nHost inner\n ProxyJump outer\n")
    connector = Connector(Deadlines(), threading.Event(), ssh_config=path)
    connector.prepare([Host("n1", "n1")])
    routes_made = sorted([jump.host for jump in hops] for hops in connector._gateways)
    assert routes_made == [["outer"], ["outer", "inner"]]


def test_a_local_host_needs_no_key(connector: Connector) -> None:
    host = Host("here", "127.0.0.1", connection="local", private_key_file="/no/such/key")
    connector.prepare([host])
    link = connector.start(host, ["-c", "print('here')"])
    out = b""
    while not link.ended():
        out += link.receive(5)[0]
    link.close()
    assert out == b"here\n"


def test_a_lasting_one_knows_the_hosts_and_has_no_end(connector: Connector) -> None:
    connector.prepare([Host("here", "here", connection="local")])
    connector.deadlines = replace(connector.deadlines, visit_s=5.0)
    lasting = connector.lasting()
    assert (lasting.deadlines.visit_s, connector.deadlines.visit_s) == (math.inf, 5.0)
    assert lasting.supervisor is connector.supervisor, "one stop ends both"


def test_who_logs_in_as_the_user_that_is_wanted_needs_no_sudo(connector: Connector) -> None:
    hosts = [
        Host("same", "192.0.2.1", user="root", become=True),
        Host("other", "192.0.2.2", user="ann", become=True),
        Host("both", "192.0.2.3", user="ann", become=True, become_user="ann"),
        Host("here", "here", connection="local", become=True),
    ]
    connector.prepare(hosts)
    become = {host.name: connector.as_reached(host).become for host in hosts}
    assert become == {"same": False, "other": True, "both": False, "here": os.getuid() != 0}


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    config = tmp_path / "ssh_config"
    config.write_text("Host odd\n HostName a;b\n")
    connector = Connector(Deadlines(), threading.Event(), ssh_config=config)
    hosts = [Host(f"n{n}", f"192.0.2.{n}", ssh_args=("-F", "x")) for n in (1, 2, 3)]
    hosts.append(Host("n4", "192.0.2.4", private_key_file="/no/such/key"))
    hosts += [Host(f"n{n}", f"192.0.2.{n}", ssh_args=("-J", "gate,odd")) for n in (5, 6)]
    hosts += [Host(f"n{n}", "192.0.2.7") for n in (7, 8, 9)]
    with pytest.raises(UsageError) as caught:
        connector.prepare(hosts)
    first, second, third, fourth = str(caught.value).splitlines()
    assert first.startswith("n[1-3]: ssh option -F: not supported")
    assert second.startswith("n4: cannot read private key /no/such/key")
    assert third.startswith("n[5-6]: jump host odd: ")
    assert fourth.startswith("n[8-9]: n7 is 192.0.2.7:22 too; remove one")
