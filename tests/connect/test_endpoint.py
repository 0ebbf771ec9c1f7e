from __future__ import annotations

from pathlib import Path

import fabric
import pytest

from hwcheck.connect.endpoint import Resolver
from hwcheck.connect.ssh_options import Jump
from hwcheck.errors import UsageError
from hwcheck.inventory import Host
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
