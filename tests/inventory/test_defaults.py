"""ansible.cfg and flags count where the inventory says nothing; what is not taken is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory import inventory
from hwcheck.inventory.defaults import ConnectionFlags, Defaults, read_defaults
from hwcheck.inventory.inventory import Host

CONFIG = """
[defaults]
inventory = hosts.ini
remote_user = ops
private_key_file = ~/.ssh/cluster
host_key_checking = False
[ssh_connection]
ssh_args = -C -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ForwardAgent=yes
ssh_common_args = -o ProxyJump=login
[privilege_escalation]
become = True
become_user = admin
become_ask_pass = True
"""
INVENTORY = """
n1
n2 ansible_ssh_user=cat ansible_become=false ansible_ssh_common_args=''
"""
FLAGS = ConnectionFlags(user="ann", password="{{ typed }}", become_password="sudo's")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ansible.cfg").write_text(CONFIG)
    (tmp_path / "hosts.ini").write_text(INVENTORY)
    return tmp_path


def read(*arguments: object, **options: object) -> dict[str, Host]:
    return {host.name: host for host in inventory.read(*arguments, **options).hosts}  # type: ignore[arg-type]


def test_ansible_cfg_decides_what_the_inventory_does_not(folder: Path) -> None:
    hosts = read(None)
    first, second = hosts["n1"], hosts["n2"]
    assert (first.user, first.become, first.become_user) == ("ops", True, "admin")
    assert (first.private_key_file or "").endswith("/.ssh/cluster")
    assert first.ssh_args == ("-C", "-o", "ForwardAgent=yes", "-o", "ProxyJump=login")
    assert (second.user, second.become) == ("cat", False)
    assert second.ssh_args == ("-C", "-o", "ForwardAgent=yes")


def test_what_is_not_taken_is_told(folder: Path) -> None:
    told = inventory.read(None).warnings
    assert told[0] == f"the inventory is {folder / 'hosts.ini'}, which ansible.cfg names"
    config = folder / "ansible.cfg"
    for setting in (
        "host_key_checking",
        "ssh_args: StrictHostKeyChecking=no",
        "ssh_args: UserKnownHostsFile=/dev/null",
    ):
        assert any(
            each.startswith(f"{config}: {setting} is not taken: host keys are verified; --accept-")
            for each in told
        ), setting
    assert f"{config}: default_become_ask_pass is not taken: say -K" in told
    assert len(told) == 5


def test_flags_come_before_ansible_cfg_and_behind_the_inventory(folder: Path) -> None:
    hosts = read(None, flags=FLAGS)
    assert [hosts[name].user for name in ("n1", "n2")] == ["ann", "cat"]
    assert hosts["n1"].password == "{{ typed }}", "a password is no template"
    assert hosts["n1"].become_password == "sudo's"
    assert "ansible_user" not in hosts["n1"].variables


def test_a_mistake_in_ansible_cfg_names_it_and_not_the_inventory(folder: Path) -> None:
    (folder / "ansible.cfg").write_text("[defaults]\nremote_port = 99999\n")
    with pytest.raises(UsageError) as caught:
        inventory.read("hosts.ini")
    assert str(caught.value) == (
        f"{folder / 'ansible.cfg'}: n[1-2]: ansible_port: 99999 is not a port from 1 to 65535"
    )


def test_several_inventories_are_one_too_many(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_INVENTORY", "hosts.ini,others.ini")
    with pytest.raises(UsageError, match="ANSIBLE_INVENTORY: it names 2 inventories; name one"):
        inventory.read(None)


def test_a_broken_ansible_cfg_is_one_line(folder: Path) -> None:
    (folder / "ansible.cfg").write_text("remote_user = ops\n")
    with pytest.raises(UsageError, match=r"^ansible-config: .*ansible\.cfg") as caught:
        read_defaults(ConnectionFlags())
    assert "\n" not in str(caught.value)


def test_without_a_configuration_nothing_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ansible.cfg").write_text("[defaults]\nroles_path = roles\nforks = 9\n")
    monkeypatch.setattr("hwcheck.inventory.ansible.run", lambda words: pytest.fail(words[0]))
    assert read_defaults(ConnectionFlags()) == Defaults()
    (tmp_path / "ansible.cfg").write_text("[defaults]\nremote_user = ops\n")
    with pytest.raises(pytest.fail.Exception):
        read_defaults(ConnectionFlags())
