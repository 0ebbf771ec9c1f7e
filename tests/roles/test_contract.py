"""What every role must have, and what every role's variables promise."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment, nodes

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())
PARTS = ("README.md", "meta/main.yml", "meta/argument_specs.yml", "tasks/main.yml")
MODULES = re.compile(r"^\s+(?:- )?([a-z_]+\.[a-z_]+\.[a-z_]+):", re.MULTILINE)
CONDITIONS = {"when", "that", "failed_when", "changed_when", "until"}
FILTER_OF = {"bool": "bool", "int": "int"}
"""What makes a text the type that the specification names; Ansible itself converts nothing."""
NOT_IN_SITE = {"node_hardware", "node_service", "nvidia_repository", "refusals"}  # others use them


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) if path.exists() else {}


def expressions(content: Any, *, condition: bool = False) -> Iterator[str]:
    """Yield the templates of a YAML file; a condition is one without braces."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from expressions(value, condition=key in CONDITIONS)
    elif isinstance(content, list):
        for value in content:
            yield from expressions(value, condition=condition)
    elif isinstance(content, str):
        yield f"{{{{ {content} }}}}" if condition else content


def templates(role: str) -> list[nodes.Template]:
    """Return every template of a role, parsed."""
    folder = ROOT / "roles" / role
    files = [
        path for part in ("tasks", "vars", "handlers") for path in folder.glob(f"{part}/*.yml")
    ]
    texts = [text for path in files for text in expressions(read(path))]
    texts += [path.read_text() for path in folder.glob("templates/*")]
    environment = Environment(autoescape=True)
    return [environment.parse(text) for text in texts]


def unfiltered(template: nodes.Node, filters: Mapping[str, str]) -> list[str]:
    """Return the variables that stand somewhere without their filter."""
    filtered = {
        id(node.node)
        for node in template.find_all(nodes.Filter)
        if isinstance(node.node, nodes.Name) and filters.get(node.node.name) == node.name
    }
    names = [node for node in template.find_all(nodes.Name) if node.name in filters]
    return [node.name for node in names if id(node) not in filtered]


def typed() -> dict[str, str]:
    """Return the filter of each variable of each role whose text is not its value."""
    specified = [read(ROOT / "roles" / role / "meta/argument_specs.yml") for role in ROLES]
    options = [each["argument_specs"]["main"].get("options", {}) for each in specified]
    return {
        name: FILTER_OF[option["type"]]
        for each in options
        for name, option in each.items()
        if option["type"] in FILTER_OF
    }


@pytest.mark.parametrize("role", ROLES)
def test_a_variable_that_is_text_counts_as_what_it_says(role: str) -> None:
    filters = typed()
    assert "node_reboot_allowed" in filters
    assert [name for each in templates(role) for name in unfiltered(each, filters)] == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{{ not yes }}", ["yes"]),
        ("{% if yes | bool and yes %}{% endif %}", ["yes"]),
        ("{{ yes | default(true) | bool }}", ["yes"]),
        ("{{ 'a' if yes | bool else 'b' }}", []),
    ],
)
def test_a_variable_without_its_filter_is_found(text: str, wrong: list[str]) -> None:
    assert unfiltered(Environment(autoescape=True).parse(text), {"yes": "bool"}) == wrong


def changes(template: nodes.Template) -> list[str]:
    """Return what is asked of a change of this run, other than to predict in check mode."""
    predicted = {
        id(test)
        for both in template.find_all(nodes.And)
        if any(name.name == "ansible_check_mode" for name in both.find_all(nodes.Name))
        for test in both.find_all(nodes.Test)
    }
    tests = [test for test in template.find_all(nodes.Test) if test.name == "changed"]
    return [test.node.name for test in tests if id(test) not in predicted]


@pytest.mark.parametrize("role", ROLES)
def test_no_task_waits_for_a_change_of_the_same_run(role: str) -> None:
    """A run that breaks off after the change would leave it undone for ever."""
    folder = ROOT / "roles" / role
    assert not (folder / "handlers").exists()
    assert [path.name for path in folder.glob("tasks/*.yml") if "notify:" in path.read_text()] == []
    assert [name for each in templates(role) for name in changes(each)] == []


def test_a_task_that_waits_for_a_change_is_found() -> None:
    environment = Environment(autoescape=True)
    assert changes(environment.parse("{{ ansible_check_mode and (a is changed or b) }}")) == []
    assert changes(environment.parse("{{ ansible_check_mode or a is changed }}")) == ["a"]


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
