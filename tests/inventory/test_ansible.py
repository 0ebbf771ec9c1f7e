"""ansible-core as a program: whatever is set around it, it prints JSON and nothing else."""

import sys
from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory.listing import list_hosts
from hwcheck.inventory.source import Source

pytestmark = pytest.mark.usefixtures("real_ansible")


@pytest.fixture(autouse=True)
def _in_a_folder_with_an_inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.yml").write_text("all: {hosts: {a: {x: 1}}}\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANSIBLE_VERBOSITY", "3"),
        ("ANSIBLE_DEBUG", "1"),
        ("ANSIBLE_FORCE_COLOR", "1"),
        ("LC_ALL", "C"),
        ("LC_ALL", "POSIX"),
        ("LC_ALL", "xx_YY.UTF-8"),
    ],
)
def test_the_callers_environment(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    listing = list_hosts(Source("one.yml"))
    assert listing.hosts == {"a": {"x": 1}}
    assert listing.warnings == ()


def test_verbosity_of_an_ansible_cfg() -> None:
    Path("ansible.cfg").write_text("[defaults]\nverbosity = 3\n")
    assert list(list_hosts(Source("one.yml")).hosts) == ["a"]


def test_output_that_is_no_json_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho hello\necho there\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(UsageError, match=r"^ansible-inventory printed no JSON: 'hello there'; see"):
        list_hosts(Source("one.yml"))


def test_a_list_of_hosts_that_no_program_can_be_given() -> None:
    with pytest.raises(UsageError, match=r"^cannot run ansible-inventory: Argument list too long"):
        list_hosts(Source("a," * 100_000))
