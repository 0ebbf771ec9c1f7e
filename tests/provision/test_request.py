"""What is asked of ansible-playbook, and what must not stand on its command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory.defaults import ConnectionFlags
from hwcheck.inventory.inventory import Cluster, Host
from hwcheck.provision.request import PlaybookRequest, find_playbook, roles_path
from hwcheck.provision.role_vars import defaults

CLUSTER = Cluster(
    (Host("n1", "n1", become_password="of-n1"), Host("n2", "n2", password="of-n2")), "cluster.yml"
)


def test_flags_are_ansibles_own() -> None:
    request = PlaybookRequest(
        Path("site.yml"),
        replace(CLUSTER, extra_vars=("-a=1", "@more.yml"), limit="-n3"),
        tags="nccl",
        check=True,
        diff=True,
        forks=4,
    )
    assert request.arguments() == [
        "--check",
        "--diff",
        "--limit=-n3",
        "--tags=nccl",
        "--forks=4",
        "--extra-vars=-a=1",
        "--extra-vars=@more.yml",
    ]
    assert request.hosts == ("n1", "n2")


def test_a_part_of_the_hosts() -> None:
    request = PlaybookRequest(Path("site.yml"), replace(CLUSTER, limit="all"), only=("n2",))
    assert "--limit=n2" in request.arguments()
    assert request.hosts == ("n2",)


def test_no_password_stands_on_the_command_line_or_in_what_is_kept() -> None:
    flags = ConnectionFlags("ops", "of-login", True, "admin", "typed")
    request = PlaybookRequest(Path("site.yml"), replace(CLUSTER, flags=flags))
    become = {"--become", "--ask-become-pass", "--become-user=admin"}
    assert {*become, "--user=ops", "--ask-pass"} <= set(request.arguments())
    for secret in ("typed", "of-login", "of-n1", "of-n2"):
        assert secret not in " ".join(request.arguments())
        assert secret not in repr(request)
        assert request.hide(f"it was {secret}!") == "it was ********!"


def test_playbooks_of_ours_are_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_playbook("site.yml").name == "site.yml"
    assert find_playbook("playbooks/tuning.yml").is_absolute()
    with pytest.raises(UsageError, match=r"no such playbook: nosuch\.yml; .*site\.yml"):
        find_playbook("nosuch.yml")
    (tmp_path / "site.yml").write_text("- hosts: all\n")
    assert find_playbook("site.yml") == (tmp_path / "site.yml").resolve()


def test_what_nobody_named_is_not_taken_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project of Ansible's has a ``site.yml`` as a rule, and a shared folder may have any."""
    monkeypatch.chdir(tmp_path)
    for planted in ("site.yml", "playbooks/site.yml", "playbooks/tuning.yml"):
        (tmp_path / planted).parent.mkdir(exist_ok=True)
        (tmp_path / planted).write_text("- hosts: all\n")
    assert not find_playbook().is_relative_to(tmp_path)
    assert not find_playbook("tuning.yml").is_relative_to(tmp_path)
    (tmp_path / "roles" / "nccl" / "defaults").mkdir(parents=True)
    (tmp_path / "roles" / "nccl" / "defaults" / "main.yml").write_text("nccl_conf: absent\n")
    assert defaults("nccl")["nccl_conf"] != "absent"
    assert not any(str(tmp_path) in folder for folder in roles_path().split(":"))


def test_roles_of_the_caller_come_before_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANSIBLE_ROLES_PATH", "/srv/roles")
    first, *brought = roles_path().split(":")
    assert first == "/srv/roles"
    assert any((Path(folder) / "nccl").is_dir() for folder in brought)
