"""Host keys, gateways and authentication against real sshd."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.connect.connector import Connector
from hwcheck.connect.deadlines import Deadlines
from hwcheck.inventory.inventory import Host
from hwcheck.results.run_folder import HostRecord
from tests.connect.ssh_agent import running_agent
from tests.lab.lab import Lab, Node, make_key
from tests.lab.visits import visit_all

pytestmark = pytest.mark.usefixtures("namespaces")


@pytest.fixture(scope="module")
def lab(namespaces: None) -> Iterator[Lab]:
    """Nodes of which n3 has a host certificate and also listens at port 2222."""
    extra = {"n3": "Port 22\nPort 2222\n"}

    def sign(node: Node) -> dict[str, object]:
        if node.name == "n3":
            authority, key = make_key(node.folder / "authority"), node.folder / "host_key.pub"
            words = ["-s", authority, "-I", "n3", "-h", "-n", node.address, key]
            subprocess.run(["ssh-keygen", "-q", *words], check=True)
            extra["n3"] += f"HostCertificate {node.folder}/host_key-cert.pub\n"
        return {}

    with Lab(["gate", "n1", "n2", "n3"], extra, prepare=sign) as lab:
        yield lab


@pytest.fixture
def hosts(lab: Lab) -> dict[str, Host]:
    return {host.name: host for host in lab.hosts()}


def visit(host: Host, out: Path, **options: Any) -> HostRecord:
    return visit_all([host], out, **options)[host.name]


def config(lab: Lab, path: Path, extra: str = "") -> Path:
    """Write an ssh configuration that knows the lab, for what the inventory leaves to it."""
    text = f"Host *\n IdentityFile {lab.key}\n UserKnownHostsFile {lab.known_hosts}\n User root\n"
    path.write_text(extra + text)
    return path


def connections(lab: Lab, name: str) -> list[str]:
    """Return the addresses that logged in at a node."""
    log = (lab.nodes[name].folder / "sshd.log").read_text()
    lines = [line for line in log.splitlines() if line.startswith("Accepted ")]
    return [line.split(" from ")[1].split()[0] for line in lines]


def test_an_unknown_host_is_refused_and_accepted_on_request(
    hosts: dict[str, Host], tmp_path: Path
) -> None:
    known = tmp_path / "known_hosts"
    arguments = ("-o", f"UserKnownHostsFile={known}")
    host = replace(hosts["n1"], ssh_args=arguments)
    record = visit(host, tmp_path / "runs1")
    assert (record.state, record.phase) == ("unreachable", "host key")
    assert "unknown" in record.reason.text
    assert not known.exists()
    record = visit(host, tmp_path / "runs2", accept_new_host_keys=True)
    assert record.state == "reported"
    assert known.read_text().startswith(f"{host.address} ssh-ed25519 ")
    assert visit(host, tmp_path / "runs3").state == "reported", "it is known from now on"
    text = known.read_text()
    new = (*arguments, "-o", "StrictHostKeyChecking=accept-new")
    assert visit(replace(host, ssh_args=new), tmp_path / "runs4").state == "reported"
    assert known.read_text() == text


def test_hosts_behind_a_gateway_share_one_connection(
    lab: Lab, hosts: dict[str, Host], tmp_path: Path
) -> None:
    before = len(connections(lab, "gate"))
    gate = lab.nodes["gate"].address
    jump = ("-J", f"root@{gate}")
    behind = [
        replace(hosts[name], ssh_args=(*hosts[name].ssh_args, *jump)) for name in ("n1", "n2", "n3")
    ]
    records = visit_all(behind, tmp_path / "runs", ssh_config=config(lab, tmp_path / "config"))
    assert [records[host.name].state for host in behind] == ["reported"] * 3
    assert len(connections(lab, "gate")) - before == 1
    assert connections(lab, "n2")[-1] == gate


def test_a_gateways_host_key_is_verified_too(
    lab: Lab, hosts: dict[str, Host], tmp_path: Path
) -> None:
    gate = lab.nodes["gate"].address
    path = tmp_path / "config"
    path.write_text(f"Host *\n IdentityFile {lab.key}\n UserKnownHostsFile {tmp_path}/none\n")
    host = replace(hosts["n1"], ssh_args=(*hosts["n1"].ssh_args, "-J", f"root@{gate}"))
    record = visit(host, tmp_path / "runs", ssh_config=path)
    assert (record.phase, record.state) == ("jump host", "unreachable")
    assert record.reason.text.startswith(f"jump host {gate}: host key: unknown")


def test_the_jump_of_the_ssh_configuration_is_verified_too(
    lab: Lab, hosts: dict[str, Host], tmp_path: Path
) -> None:
    gate, inner = lab.nodes["gate"].address, lab.nodes["n1"].address
    extra = f"Host {inner}\n ProxyJump root@{gate}\nHost {gate}\n UserKnownHostsFile /none\n"
    path = config(lab, tmp_path / "config", extra)
    record = visit(hosts["n1"], tmp_path / "runs1", ssh_config=path)
    assert "host key: unknown" in record.reason.text
    path = config(lab, tmp_path / "config", f"Host {inner}\n ProxyJump root@{gate}\n")
    assert visit(hosts["n1"], tmp_path / "runs2", ssh_config=path).state == "reported"
    assert connections(lab, "n1")[-1] == gate


def test_a_gateway_that_cannot_reach_the_host(
    lab: Lab, hosts: dict[str, Host], tmp_path: Path
) -> None:
    gate = lab.nodes["gate"].address
    host = replace(hosts["n1"], port=1, ssh_args=(*hosts["n1"].ssh_args, "-J", f"root@{gate}"))
    record = visit(host, tmp_path / "runs", ssh_config=config(lab, tmp_path / "config"))
    assert record.phase == "connect"
    assert record.reason.text.startswith(f"the jump host cannot reach {host.address}:1: ")


def test_a_dead_gateway_costs_all_hosts_behind_it_one_wait(
    lab: Lab, hosts: dict[str, Host], tmp_path: Path
) -> None:
    nowhere = lab.nodes["gate"].address.rsplit(".", 1)[0] + ".99"
    behind = [
        replace(hosts[name], ssh_args=(*hosts[name].ssh_args, "-J", nowhere))
        for name in ("n1", "n2", "n3")
    ]
    records = visit_all(behind, tmp_path / "runs", deadlines=Deadlines(connect_s=1))
    for record in records.values():
        assert record.reason.text.startswith(f"jump host {nowhere}: connect: ")
        assert record.duration_s < 2.5, "three waits would be three seconds"


def test_a_proxy_command(lab: Lab, hosts: dict[str, Host], tmp_path: Path) -> None:
    gate = lab.nodes["gate"].address
    ssh = f"ssh -F {config(lab, tmp_path / 'config')} -W %h:%p root@{gate}"
    arguments = (*hosts["n2"].ssh_args, "-o", f"ProxyCommand={ssh}")
    assert visit(replace(hosts["n2"], ssh_args=arguments), tmp_path / "runs").state == "reported"
    assert connections(lab, "n2")[-1] == gate


def test_the_ssh_configuration_is_honored(lab: Lab, tmp_path: Path) -> None:
    extra = f"Host alias\n HostName {lab.nodes['n3'].address}\n"
    path = config(lab, tmp_path / "config", extra)
    assert visit(Host("n3", "alias"), tmp_path / "runs", ssh_config=path).state == "reported"


def test_include_and_match_of_the_ssh_configuration(lab: Lab, tmp_path: Path) -> None:
    more = config(lab, tmp_path / "more", f"HostName {lab.nodes['n2'].address}\n")
    path = tmp_path / "config"
    path.write_text(f'Match originalhost alias exec "test %n = alias"\n Include {more}\n')
    assert visit(Host("n2", "alias"), tmp_path / "runs", ssh_config=path).state == "reported"
    path.write_text(f'Match originalhost alias exec "test %n = other"\n Include {more}\n')
    record = visit(Host("n2", "alias"), tmp_path / "runs", ssh_config=path)
    assert record.phase == "name lookup"
    assert record.reason.text.startswith("cannot resolve alias: "), "the control"


def test_the_agent_that_the_configuration_names(lab: Lab, tmp_path: Path) -> None:
    path, socket = tmp_path / "config", tmp_path / "agent"
    address = lab.nodes["n1"].address
    text = f"UserKnownHostsFile {lab.known_hosts}\nIdentityFile none\nUser root\n"
    with running_agent(socket):
        environment = {"SSH_AUTH_SOCK": str(socket)}
        subprocess.run(["ssh-add", "-q", lab.key], check=True, timeout=20, env=environment)
        path.write_text(f"{text}IdentityAgent {socket}\n")
        record = visit(Host("n1", address), tmp_path / "runs", ssh_config=path)
        path.write_text(f"{text}IdentityAgent none\n")
        without = visit(Host("n1", address), tmp_path / "runs", ssh_config=path)
    assert record.state == "reported"
    assert without.phase == "authentication"


@pytest.mark.parametrize("name", ["{0}", "[{0}]:2222", "alias"])
@pytest.mark.parametrize("hashed", [False, True])
def test_names_in_known_hosts_files(
    lab: Lab, hosts: dict[str, Host], tmp_path: Path, name: str, hashed: bool
) -> None:
    path, address = tmp_path / "known_hosts", hosts["n3"].address
    key = (lab.nodes["n3"].folder / "host_key.pub").read_text()
    path.write_text(f"{name.format(address)} {key}")
    if hashed:
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", path], check=True, capture_output=True)
        assert path.read_text().startswith("|1|")
    alias = ("-o", "HostKeyAlias=alias") if name == "alias" else ()
    words = ("-o", f"UserKnownHostsFile={path}", *alias)
    host = replace(hosts["n3"], ssh_args=words, port=2222 if "2222" in name else None)
    assert visit(host, tmp_path / "runs").state == "reported"
    elsewhere = replace(hosts["n2"], ssh_args=words, port=None)
    reason = visit(elsewhere, tmp_path / "runs").reason.text
    assert reason.startswith("changed: " if name == "alias" else "unknown: ")


def test_a_host_certificate_is_refused_with_what_to_do(
    lab: Lab, hosts: dict[str, Host], tmp_path: Path
) -> None:
    path, node = tmp_path / "known_hosts", lab.nodes["n3"]
    authority = (node.folder / "authority.pub").read_text()
    path.write_text(f"@cert-authority {node.address} {authority}")
    known_hosts = ("-o", f"UserKnownHostsFile={path}")
    ssh = ["ssh", "-F", config(lab, tmp_path / "config"), *known_hosts, "-oBatchMode=yes"]
    done = subprocess.run([*ssh, node.address, "true"], check=False, timeout=20)
    assert done.returncode == 0, "the control: ssh verifies the certificate"
    host = replace(hosts["n3"], ssh_args=known_hosts)
    for accept_new in (False, True):
        record = visit(host, tmp_path / "runs", accept_new_host_keys=accept_new)
        assert (record.state, record.phase) == ("unreachable", "host key")
        assert record.reason.text == (
            f"only vouched for by @cert-authority in {path}:1, and hwcheck verifies no host "
            f"certificates: add the host's own ssh-ed25519 key, as {node.address}, to known_hosts"
        )
    key = (node.folder / "host_key.pub").read_text()
    with path.open("a") as stream:
        stream.write(f"{node.address} {key}")
    assert visit(host, tmp_path / "runs").state == "reported"
    with path.open("a") as stream:
        stream.write(f"@revoked * {key}")
    assert visit(host, tmp_path / "runs").reason.text == f"revoked by {path}:3"


def test_a_refused_key(lab: Lab, hosts: dict[str, Host], tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    record = visit(replace(hosts["n1"], private_key_file=str(other)), tmp_path / "runs")
    assert (record.state, record.phase) == ("unreachable", "authentication")
    assert record.reason.text == f"refused for user root with key {other}"


def test_a_password_that_the_server_does_not_take(hosts: dict[str, Host], tmp_path: Path) -> None:
    record = visit(replace(hosts["n1"], user="nobody", password="s3cret"), tmp_path / "runs")
    assert record.phase == "authentication"
    assert "refused for user nobody with key" in record.reason.text
    assert "s3cret" not in record.reason.text


@pytest.mark.wide
def test_many_connections_are_built_and_opened_at_once(lab: Lab, tmp_path: Path) -> None:
    """Fabric's configuration is shared by all of them: see ssh_session._Connection."""
    node = lab.nodes["n1"]
    network = node.address.rsplit(".", 1)[0]
    node.ask(["ip", "route", "add", "local", f"{network}.128/26", "dev", "lo"])
    key = (node.folder / "host_key.pub").read_text()
    known = tmp_path / "known_hosts"
    addresses = [f"{network}.{128 + number}" for number in range(64)]
    known.write_text("".join(f"{address} {key}" for address in addresses))
    host = node.host(lab.key, known)
    hosts = [replace(host, name=address, address=address) for address in addresses]
    records = visit_all(hosts, tmp_path / "runs")
    assert {record.state for record in records.values()} == {"reported"}
    assert len(records) == 64


def test_close_leaves_no_thread_of_a_gateway(
    lab: Lab, hosts: dict[str, Host], tmp_path: Path
) -> None:
    gate = lab.nodes["gate"].address
    host = replace(hosts["n1"], ssh_args=(*hosts["n1"].ssh_args, "-J", f"root@{gate}"))
    connector = Connector(
        Deadlines(), threading.Event(), ssh_config=config(lab, tmp_path / "config")
    )
    connector.prepare([host])
    before = set(threading.enumerate())
    link = connector.start(host, ["-c", "print(1)"])
    link.close()
    gateway = [thread for thread in threading.enumerate() if thread not in before]
    assert gateway, "the control: the gateway's transport lives until close"
    connector.close()
    for thread in gateway:
        thread.join(10)
        assert not thread.is_alive()
