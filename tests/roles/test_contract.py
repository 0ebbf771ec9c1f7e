"""What every role must have, and what every role's variables promise."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())
PARTS = ("README.md", "meta/main.yml", "meta/argument_specs.yml", "tasks/main.yml")
MODULES = re.compile(r"^\s+(?:- )?([a-z_]+\.[a-z_]+\.[a-z_]+):", re.MULTILINE)
NOT_IN_SITE = {"node_hardware", "nvidia_repository"}  # others depend on them


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) if path.exists() else {}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_whole(role: str) -> None:
    folder = ROOT / "roles" / role
    assert [part for part in PARTS if not (folder / part).exists()] == []
    assert read(folder / "meta/main.yml")["galaxy_info"]["role_name"] == role


@pytest.mark.parametrize("role", ROLES)
def test_defaults_and_specification_say_the_same(role: str) -> None:
    folder = ROOT / "roles" / role
    options = read(folder / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    defaults = read(folder / "defaults/main.yml") or {}
    assert {name: option["default"] for name, option in options.items()} == defaults
    assert [name for name in options if not name.startswith(f"{role}_")] == []


@pytest.mark.parametrize("role", ROLES)
def test_every_variable_is_explained_where_it_is_set(role: str) -> None:
    file = ROOT / "roles" / role / "defaults/main.yml"
    lines = file.read_text().splitlines() if file.exists() else []
    bare = [
        line
        for above, line in itertools.pairwise(lines)
        if re.match(r"[a-z]", line) and not above.startswith("#")
    ]
    assert bare == []


@pytest.mark.parametrize("role", ROLES)
def test_only_modules_that_ansible_core_brings_are_used(role: str) -> None:
    files = sorted((ROOT / "roles" / role).glob("[th]*/*.yml"))
    used = {name for file in files for name in MODULES.findall(file.read_text())}
    assert used
    assert {name for name in used if not name.startswith("ansible.builtin.")} == set()


@pytest.mark.parametrize("role", ROLES)
def test_where_the_families_differ_both_are_there(role: str) -> None:
    tasks = ROOT / "roles" / role / "tasks"
    found = {path.name for path in tasks.glob("*.yml")}
    for name in found:
        if "Debian" in name:
            assert name.replace("Debian", "RedHat") in found
    for text in (path.read_text() for path in (tasks.parent / "vars").glob("*.yml")):
        assert ("Debian:" in text) == ("RedHat:" in text)


def test_the_site_applies_every_role_under_its_own_tag() -> None:
    plays = [
        play
        for name in ("drivers", "tuning", "nccl", "site")
        for play in read(ROOT / "playbooks" / f"{name}.yml")
    ]
    applied = [entry for play in plays for entry in play.get("roles", ())]
    assert sorted(entry["role"] for entry in applied) == sorted(set(ROLES) - NOT_IN_SITE)
    assert all(entry["tags"] == [entry["role"]] for entry in applied)
