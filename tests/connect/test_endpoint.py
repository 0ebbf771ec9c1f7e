from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import paramiko
import pytest

from hwcheck.connect.endpoint import Endpoint, Resolver
from hwcheck.connect.login import Login
from hwcheck.connect.ssh_config import Jump, SshConfig
from hwcheck.errors import Complaints, UsageError
from hwcheck.inventory.inventory import Host
from tests.connect.ssh_agent import running_agent
from tests.lab.lab import make_key

NO_KEY = "Host *\n IdentityFile none\n"


def resolver(tmp_path: Path, text: str = "") -> Resolver:
    path = tmp_path / "ssh_config"
    path.write_text(text)
    return Resolver(SshConfig(path), accept_new=False)


def resolved(resolve: Resolver, hosts: Sequence[Host]) -> dict[str, Endpoint]:
    complaints = Complaints()
    endpoints = resolve.hosts(hosts, complaints)
    complaints.refuse()
    return endpoints


def endpoint(tmp_path: Path, host: Host, text: str = "") -> Endpoint:
    return resolved(resolver(tmp_path, text), [host])[host.name]


def test_the_inventory_comes_before_the_ssh_configuration(tmp_path: Path) -> None:
    text = "Host n1\n ProxyJump gate\n StrictHostKeyChecking accept-new\n ConnectTimeout 3\n"
    plain = endpoint(tmp_path, Host("n1", "n1"), text)
    assert (plain.jumps, plain.accept_new, plain.settings.connect_s) == ((Jump("gate"),), True, 3.0)
    words = ("-J", "other", "-o", "ConnectTimeout=9", "-o", "StrictHostKeyChecking=yes")
    ours = endpoint(tmp_path, Host("n1", "n1", ssh_args=words), text)
    assert (ours.jumps, ours.accept_new, ours.settings.connect_s) == ((Jump("other"),), False, 9.0)


def test_user_and_port_of_the_inventory_come_before_those_of_ssh_arguments(tmp_path: Path) -> None:
    host = Host("n1", "n1", port=1, user="ann", ssh_args=("-p", "2", "-l", "bob"))
    settings = endpoint(tmp_path, host, "User carl\nPort 3\n").settings
    assert (settings.user, settings.port) == ("ann", 1)


def test_a_jump_is_not_given_the_hosts_options(tmp_path: Path) -> None:
    text = "Host gate\n User bob\n HostKeyAlias alias\n"
    host = Host("n1", "n1", user="ann", ssh_args=("-J", "gate:2222", "-o", "ConnectTimeout=9"))
    resolve = resolver(tmp_path, text)
    (jump,) = resolved(resolve, [host])["n1"].jumps
    settings = resolve.hop(jump).settings
    assert (settings.user, settings.port, settings.host_key_alias) == ("bob", 2222, "alias")
    assert settings.connect_s is None


def test_ssh_is_asked_about_a_jump_host_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    text = f'Match originalhost gate exec "echo x >> {log}"\n Port 7\n'
    hosts = [Host(name, name, ssh_args=("-J", "gate")) for name in ("n1", "n2", "n3")]
    assert len(resolved(resolver(tmp_path, text), hosts)) == 3
    assert log.read_text() == "x\n"


def test_hosts_are_in_their_order_and_their_errors_too(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(40)]
    hosts = [Host(name, name) for name in names]
    assert list(resolved(resolver(tmp_path), hosts)) == names
    with pytest.raises(UsageError, match=r"^n\[7,30-39\]: not a host name or an address: 'a;b'"):
        resolved(resolver(tmp_path, "Host n3? n7\n HostName a;b\n"), hosts)


def test_a_refused_argument_comes_before_any_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    hosts = [Host("n1", "n1"), Host("n2", "n2", ssh_args=("-F", "x"))]
    with pytest.raises(UsageError, match=r"^n2: ssh option -F: not supported"):
        resolved(resolver(tmp_path), hosts)


def test_a_user_in_an_address_is_told_of_ansible_user(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"n1: .*'ann@n1'; name the user as ansible_user in an inv"
    ):
        endpoint(tmp_path, Host("n1", "ann@n1"))


def test_ssh_names_what_of_the_inventory_it_does_not_take(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"n1: ssh configuration: ansible_ssh_\*args: .*'many'"):
        endpoint(tmp_path, Host("n1", "n1", ssh_args=("-o", "Port=many")))


def test_a_key_that_cannot_be_read_names_the_host(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    with pytest.raises(UsageError, match=f"n1: cannot read private key {missing}: No such file"):
        endpoint(tmp_path, Host("n1", "n1", private_key_file=str(missing)))


def test_tokens_in_a_key_file_of_the_inventory(tmp_path: Path) -> None:
    make_key(tmp_path / "ann-real")
    host = Host("n1", "n1", user="ann", private_key_file=f"{tmp_path}/%r-%h")
    assert endpoint(tmp_path, host, "HostName real\n").login.text == f"key {tmp_path}/ann-real"
    with pytest.raises(UsageError, match="n1: IdentityFile %z: %z cannot be expanded"):
        endpoint(tmp_path, Host("n1", "n1", private_key_file="%z"))


def test_a_key_of_the_configuration_is_used(tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    text = f"Host n1\n IdentityFile {key}\n IdentitiesOnly yes\n"
    login = endpoint(tmp_path, Host("n1", "n1"), text).login
    assert login.text == str(key)
    assert login.arguments["allow_agent"] is False


@pytest.fixture
def socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the socket of an agent with a key; SSH_AUTH_SOCK leads to nobody."""
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "nobody"))
    path = tmp_path / "agent"
    with running_agent(path):
        environment = {"SSH_AUTH_SOCK": str(path)}
        key = make_key(tmp_path / "agents_key")
        subprocess.run(["ssh-add", "-q", key], check=True, timeout=20, env=environment)
        yield path


def with_agent(tmp_path: Path, name: str, *, option: bool) -> Login:
    """Return the login of a host whose ssh arguments, or else configuration, name the agent."""
    words = ("-o", f"IdentityAgent={name}") if option else ()
    text = NO_KEY if option else f"{NO_KEY} IdentityAgent {name}\n"
    return endpoint(tmp_path, Host("n1", "n1", ssh_args=words), text).login


@pytest.mark.parametrize("option", [True, False])
@pytest.mark.parametrize("name", ["{}", "${{FOLDER}}/agent", "$NAMED"])
def test_another_agent_than_the_usual_one_is_asked(
    tmp_path: Path, socket: Path, monkeypatch: pytest.MonkeyPatch, name: str, option: bool
) -> None:
    monkeypatch.setenv("NAMED", str(socket))
    monkeypatch.setenv("FOLDER", str(tmp_path))
    login = with_agent(tmp_path, name.format(socket), option=option)
    assert (login.text, login.agent_socket) == ("the agent's keys", str(socket))
    assert with_agent(tmp_path, "SSH_AUTH_SOCK", option=option).text == "no key", "the control"


def test_the_agent_of_the_inventory_comes_before_that_of_the_ssh_configuration(
    tmp_path: Path, socket: Path
) -> None:
    host = Host("n1", "n1", ssh_args=("-o", "IdentityAgent=none"))
    text = f"{NO_KEY} IdentityAgent {socket}\n"
    assert endpoint(tmp_path, host, text).login.text == "no key"


@pytest.mark.parametrize("option", [True, False])
@pytest.mark.parametrize("name", ["none", "nobody", "$NOBODY"])
def test_an_agent_that_is_none_is_not_asked(
    tmp_path: Path, socket: Path, monkeypatch: pytest.MonkeyPatch, name: str, option: bool
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    login = with_agent(tmp_path, name, option=option)
    assert (login.text, login.arguments["allow_agent"]) == ("no key", False)


def test_an_agent_is_not_asked_where_a_key_is_named(tmp_path: Path, socket: Path) -> None:
    key = make_key(tmp_path / "key")
    text = f"{NO_KEY} IdentityAgent {socket}\nHost n2\n IdentitiesOnly yes\n"
    login = endpoint(tmp_path, Host("n1", "n1", private_key_file=str(key)), text).login
    assert (login.text, login.agent_socket) == (f"key {key}", "")
    assert endpoint(tmp_path, Host("n2", "n2"), text).login.text == "no key"


def test_each_host_has_its_own_known_hosts_file(tmp_path: Path) -> None:
    text = "Host n*\n HostName real\n Port 2222\nHost n2\n HostKeyAlias alias\n"
    words = ("-o", f"UserKnownHostsFile={tmp_path}/%r-%h-%p-%k")
    known_hosts = endpoint(
        tmp_path, Host("gpu7", "n2", user="ann", ssh_args=words), text
    ).known_hosts
    key = paramiko.PKey.from_path(make_key(tmp_path / "key"))
    known_hosts.append("n2", key)
    assert (tmp_path / "ann-real-2222-alias").read_text().startswith("n2 ssh-ed25519 ")


def test_hosts_share_the_files_that_they_have_in_common(tmp_path: Path) -> None:
    text = f"Host n3\n UserKnownHostsFile {tmp_path}/other\n"
    hosts = [Host(name, name) for name in ("n1", "n2", "n3")]
    endpoints = resolved(resolver(tmp_path, text), hosts)
    n1, n2, n3 = (endpoint.known_hosts for endpoint in endpoints.values())
    assert n1 is n2
    assert n1 is not n3


def test_a_jump_host_behind_another_is_reached_over_it(tmp_path: Path) -> None:
    text = "Host inner\n ProxyJump ann@middle\nHost middle\n ProxyJump outer,next\n"
    way = endpoint(tmp_path, Host("n1", "n1", ssh_args=("-J", "inner,last")), text).jumps
    assert [jump.host for jump in way] == ["outer", "next", "middle", "inner", "last"]
    way = endpoint(tmp_path, Host("n1", "n1", ssh_args=("-J", "other,inner")), text).jumps
    assert way == (Jump("other"), Jump("inner")), "the way that is named is the one that is gone"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Host *\n ProxyJump gate\n", "n1: jump host gate: ssh configuration: jumphost loop via"),
        (
            "Host n1 b\n ProxyJump a\nHost a\n ProxyJump b\n",
            "n1: ssh configuration: ProxyJump leads in a circle: a, b, a",
        ),
        ("Host n1\n ProxyJump a;b\n", "n1: ssh configuration: .*[iI]nvalid|n1: jump host a;b: not"),
    ],
)
def test_jumps_that_lead_nowhere(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        endpoint(tmp_path, Host("n1", "n1"), text)
