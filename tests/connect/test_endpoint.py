from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import fabric
import pytest

from hwcheck.connect.endpoint import Resolver
from hwcheck.connect.private_keys import Login
from hwcheck.connect.ssh_options import Jump
from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host
from tests.connect.ssh_agent import running_agent
from tests.lab.lab import make_key


def resolver(tmp_path: Path, text: str = "") -> Resolver:
    path = tmp_path / "ssh_config"
    path.write_text(text)
    return Resolver(fabric.Config(runtime_ssh_path=str(path)), accept_new=False)


def test_the_inventory_comes_before_the_ssh_configuration(tmp_path: Path) -> None:
    text = "Host n1\n ProxyJump gate\n StrictHostKeyChecking accept-new\n ConnectTimeout 3\n"
    resolve = resolver(tmp_path, text)
    found = resolve.host(Host("n1", "n1"))
    assert (found.jumps, found.accept_new, found.connect_s) == ((Jump("gate"),), True, 3.0)
    arguments = ("-J", "other", "-o", "ConnectTimeout=9")
    found = resolve.host(Host("n1", "n1", ssh_args=arguments))
    assert (found.jumps, found.connect_s) == ((Jump("other"),), 9.0)


def test_user_and_port_of_the_inventory_come_before_those_of_ssh_arguments(tmp_path: Path) -> None:
    host = Host("n1", "n1", port=1, user="ann", ssh_args=("-p", "2", "-l", "bob"))
    found = resolver(tmp_path).host(host)
    assert (found.user, found.port) == ("ann", 1)


def test_a_jump_is_not_given_the_hosts_options(tmp_path: Path) -> None:
    text = "Host gate\n User bob\n HostKeyAlias alias\n"
    found = resolver(tmp_path, text).jump(Jump("gate", None, 2222))
    assert (found.user, found.port, found.alias, found.jumps) == (None, 2222, "alias", ())


def test_strict_host_key_checking_no_of_the_configuration_accepts_nothing(tmp_path: Path) -> None:
    text = "Host *\n StrictHostKeyChecking no\n"
    assert not resolver(tmp_path, text).host(Host("n1", "n1")).accept_new


@pytest.mark.parametrize("address", ["a@b", "a:22", "-oProxyCommand=x", "a b", "a;b", "$(id)", ""])
def test_what_is_no_address(tmp_path: Path, address: str) -> None:
    with pytest.raises(UsageError, match="n1: not a host name or an address: "):
        resolver(tmp_path).host(Host("n1", address))


def test_a_user_in_an_address_is_told_of_ansible_user(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'ann@n1'; name the user as ansible_user in an inv"):
        resolver(tmp_path).host(Host("ann@n1", "ann@n1"))


@pytest.mark.parametrize("address", ["n1", "10.0.0.1", "fe80::1%eth0", "::1", "a.b-c_d"])
def test_what_is_an_address(tmp_path: Path, address: str) -> None:
    assert resolver(tmp_path).host(Host("n1", address)).address == address


def test_a_key_that_cannot_be_read_names_the_host(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    with pytest.raises(UsageError, match=f"n1: cannot read private key {missing}: No such file"):
        resolver(tmp_path).host(Host("n1", "n1", private_key_file=str(missing)))


def test_a_key_of_the_configuration_is_used(tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    text = f"Host n1\n IdentityFile {key}\n IdentitiesOnly yes\n"
    login = resolver(tmp_path, text).host(Host("n1", "n1")).login
    assert login.text == str(key)
    assert login.arguments["allow_agent"] is False


@pytest.fixture
def socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the socket of an agent with a key; SSH_AUTH_SOCK leads to nobody."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "nobody"))
    path = tmp_path / "agent"
    with running_agent(path):
        environment = {"SSH_AUTH_SOCK": str(path)}
        key = make_key(tmp_path / "agents_key")
        subprocess.run(["ssh-add", "-q", key], check=True, timeout=20, env=environment)
        yield path


def with_agent(tmp_path: Path, name: str, *, option: bool) -> Login:
    """Return the login of a host whose ssh arguments, or else configuration, name the agent."""
    if option:
        host = Host("n1", "n1", ssh_args=("-o", f"IdentityAgent={name}"))
        return resolver(tmp_path).host(host).login
    return resolver(tmp_path, f"Host n1\n IdentityAgent {name}\n").host(Host("n1", "n1")).login


@pytest.mark.parametrize("option", [True, False])
@pytest.mark.parametrize("name", ["{}", "~/agent", "${{HOME}}/agent", "$NAMED"])
def test_another_agent_than_the_usual_one_is_refused(
    tmp_path: Path, socket: Path, monkeypatch: pytest.MonkeyPatch, name: str, option: bool
) -> None:
    monkeypatch.setenv("NAMED", str(socket))
    with pytest.raises(UsageError, match=f"IdentityAgent .*; set SSH_AUTH_SOCK={socket}$"):
        with_agent(tmp_path, name.format(socket), option=option)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    for same in (name.format(socket), "SSH_AUTH_SOCK"):
        assert with_agent(tmp_path, same, option=option).text == "the agent's keys"


def test_the_agent_of_the_inventory_comes_before_that_of_the_ssh_configuration(
    tmp_path: Path, socket: Path
) -> None:
    resolve = resolver(tmp_path, f"Host *\n IdentityAgent {socket}\n")
    host = Host("n1", "n1", ssh_args=("-o", "IdentityAgent=none"))
    assert resolve.host(host).login.text == "no key"


@pytest.mark.parametrize("option", [True, False])
@pytest.mark.parametrize("name", ["none", "nobody", "$NOBODY"])
def test_an_agent_that_is_none_is_not_asked(
    tmp_path: Path, socket: Path, monkeypatch: pytest.MonkeyPatch, name: str, option: bool
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    login = with_agent(tmp_path, name, option=option)
    assert (login.text, login.arguments["allow_agent"]) == ("no key", False)


def test_an_agent_that_nothing_is_asked_of_may_be_any(tmp_path: Path, socket: Path) -> None:
    key = make_key(tmp_path / "key")
    text = f"Host n1 n2\n IdentityAgent {socket}\nHost n2\n IdentitiesOnly yes\n"
    resolve = resolver(tmp_path, text)
    login = resolve.host(Host("n1", "n1", private_key_file=str(key))).login
    assert login.text == f"key {key}"
    assert resolve.host(Host("n2", "n2")).login.text == "no key"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none", "IdentityAgent none leads to no agent with a key$"),
        ("agent", "; set SSH_AUTH_SOCK"),
    ],
)
def test_a_locked_key_whose_agent_may_not_be_asked(
    tmp_path: Path, socket: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    key = make_key(tmp_path / "key")
    change = ["ssh-keygen", "-q", "-p", "-f", key, "-N", "secret"]
    subprocess.run(change, check=True, timeout=20, stdout=subprocess.DEVNULL)
    usual = tmp_path / "usual"
    usual.symlink_to(socket)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(usual))
    value = str(socket) if name == "agent" else name
    resolve = resolver(tmp_path, f"Host n1\n IdentityAgent {value}\n")
    with pytest.raises(UsageError, match=said):
        resolve.host(Host("n1", "n1", private_key_file=str(key)))


def test_an_agent_whose_name_cannot_be_expanded(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="n1: ssh configuration: IdentityAgent %z: %z cannot be"):
        resolver(tmp_path, "Host n1\n IdentityAgent %z\n").host(Host("n1", "n1"))


def test_a_proxy_command_of_the_configuration_with_an_open_quote(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="n1: ssh configuration: ProxyCommand sh -c 'nc: No clo"):
        resolver(tmp_path, "Host n1\n ProxyCommand sh -c 'nc\n").host(Host("n1", "n1"))


def test_a_jump_host_behind_another_is_reached_over_it(tmp_path: Path) -> None:
    text = "Host inner\n ProxyJump ann@middle\nHost middle\n ProxyJump outer,next\n"
    way = resolver(tmp_path, text).way((Jump("inner"), Jump("last")))
    assert [jump.host for jump in way] == ["outer", "next", "middle", "inner", "last"]
    assert resolver(tmp_path, text).way((Jump("other"), Jump("inner"))) == (
        Jump("other"),
        Jump("inner"),
    ), "the way that is named is the one that is gone"


def test_a_jump_host_is_not_behind_itself(tmp_path: Path) -> None:
    gate = resolver(tmp_path, "Host *\n ProxyJump bob@gate\n")
    assert gate.way((Jump("gate"),)) == (Jump("gate"),)
    circle = resolver(tmp_path, "Host a\n ProxyJump b\nHost b\n ProxyJump a\n")
    assert circle.way((Jump("a"),)) == (Jump("b"), Jump("a"))


def test_a_malformed_jump_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="n1: ssh configuration: ProxyJump: not"):
        resolver(tmp_path, "Host n1\n ProxyJump a b\n").host(Host("n1", "n1"))
