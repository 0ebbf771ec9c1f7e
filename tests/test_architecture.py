"""``docs/architecture.md`` is true: its rooms, floors, functions, records and files."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
PACKAGE = ROOT / "hwcheck"


def section(title: str) -> str:
    """Return the text below a heading, up to the next one."""
    match = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert match, title
    return match[1]


def layers() -> list[list[str]]:
    """Return the floors that import-linter holds, from the top, without the leaves below a room."""
    contract = (
        (ROOT / "pyproject.toml").read_text("utf-8").split("[[tool.importlinter.contracts]]")[1]
    )
    listed = re.search(r"^layers = \[(.*?)^\]", contract, re.DOTALL | re.MULTILINE)
    assert listed
    return [re.findall(r"hwcheck\.(\w+)", line) for line in listed[1].strip().splitlines()]


ROOMS = re.findall(r"^\| `(\w+)/` \|", section("The rooms"), re.MULTILINE)


def test_the_rooms_are_the_folders_of_the_package() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert set(ROOMS) == folders


def test_the_leaves_are_the_modules_beside_them() -> None:
    leaves = section("The rooms").partition("Leaves:")[2]
    modules = {path.stem for path in PACKAGE.glob("*.py") if path.stem != "__init__"}
    assert set(re.findall(r"`(\w+)`", leaves)) == modules


def test_no_room_is_listed_above_one_that_it_must_not_stand_on() -> None:
    floors = {name: floor for floor, names in enumerate(layers()) for name in names}
    assert [floors[room] for room in ROOMS] == sorted(floors[room] for room in ROOMS)
    assert set(floors) == {*ROOMS, *(path.stem for path in PACKAGE.glob("[!_]*.py"))}


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(hwcheck(?:\.\w+)+)`", PAGE))))
def test_what_it_names_can_be_imported(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    try:
        there = hasattr(importlib.import_module(module), attribute)
    except ImportError:
        there = False
    if not there:
        importlib.import_module(name)


@pytest.mark.parametrize(
    "path",
    sorted(
        set(re.findall(r"`((?:hwcheck|tests|docs|roles)/[\w/.]*)`", PAGE))
        | {f"docs/{name}" for name in re.findall(r"\]\(([\w-]+\.md)\)", PAGE)}
    ),
)
def test_the_files_that_it_names_are_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_what_is_not_there_would_be_noticed() -> None:
    with pytest.raises(ImportError):
        test_what_it_names_can_be_imported("hwcheck.judge.nothing.at_all")
    with pytest.raises(AssertionError):
        test_the_files_that_it_names_are_there("hwcheck/nothing.py")


def classes(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the modules in which a class of each name is made."""
    modules: dict[str, list[str]] = {}
    for module, source in sources.items():
        for name in re.findall(r"^ *class (\w+)\b.*:$", source, re.MULTILINE):
            modules.setdefault(name, []).append(module)
    return modules


def several(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names that several classes have."""
    return {name: modules for name, modules in classes(sources).items() if len(modules) > 1}


def test_no_two_classes_have_one_name() -> None:
    paths = PACKAGE.rglob("*.py")
    assert several({str(path.relative_to(ROOT)): path.read_text("utf-8") for path in paths}) == {}


def test_two_classes_of_one_name_would_be_noticed() -> None:
    assert several({"a": "class Job:\n", "b": "    class Job(Work):\n", "c": "class Turn:\n"}) == {
        "Job": ["a", "b"]
    }


NO_NOUNS = re.compile(
    r"^ *(?:self\.)?_?(found|known|said|told|own|again|twins|hello|keeper)(?:: [^=\n]+)? [|&+]?= ",
    re.MULTILINE,
)
"""A variable that is called by a verb, or by a word that holds no thing of the field."""


def test_names_are_nouns_of_the_field() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert NO_NOUNS.findall(path.read_text("utf-8")) == [], path


def test_a_verb_that_is_made_a_name_would_be_noticed() -> None:
    assert NO_NOUNS.findall("    found: list[str] = []\nwords = 2\n") == ["found"]


STATE = {
    "hwcheck/node/descendants.py": ("_ended_first",),
    "hwcheck/node/threads.py": ("_idle",),
    "hwcheck/contract/wire.py": ("_TUPLES",),
    "hwcheck/cli/dataset.py": ("OPEN",),
}
"""What a process has once: its children, threads at rest, equal samples as one, what it closes."""


def swapped(module: str, source: str) -> list[str]:
    """Return what others could change beneath a function that is handed all else.

    That is what a function of the module assigns to it, what it sets in another module of ours, and
    a container that begins empty, so that somebody fills it.
    """
    tree = ast.parse(source)
    ours = {
        alias.asname or alias.name
        for statement in ast.walk(tree)
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("hwcheck")
        for alias in statement.names
    }
    changes = [
        name
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Global)
        for name in statement.names
    ]
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            changes += [
                ast.unparse(target)
                for target in targets
                if isinstance(target, ast.Attribute | ast.Subscript)
                and isinstance(target.value, ast.Name)
                and target.value.id in ours
            ]
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            empty = ast.unparse(statement.value) in ("{}", "[]", "set()", "dict()", "list()")
            if empty and ast.unparse(target) not in STATE.get(module, ()):
                changes.append(ast.unparse(target))
    return changes


def test_nothing_that_judges_or_shows_can_be_swapped_beneath_it() -> None:
    for path in PACKAGE.rglob("*.py"):
        module = str(path.relative_to(ROOT))
        assert swapped(module, path.read_text("utf-8")) == [], module


def test_what_can_be_swapped_would_be_noticed() -> None:
    source = (
        "from hwcheck import checks\nSITE: dict[str, Check] = {}\nKINDS = {'a': 1}\n"
        "def use(added):\n    global _current\n    checks.SITE = added\n    checks.BY_ID['x'] = 1\n"
    )
    assert swapped("hwcheck/site/x.py", source) == ["_current", "checks.SITE", "SITE"]
    by_subscript = source.replace("checks.BY_ID", "checks")
    assert "checks['x']" in swapped("hwcheck/site/x.py", by_subscript)
    for module, names in STATE.items():
        assert set(names) <= set(swapped("", (ROOT / module).read_text("utf-8"))), module


WORDED = {
    "hwcheck/fleet/sweep/draining.py": 2,
    "hwcheck/scheduler/actions.py": 1,
    "hwcheck/report/decision.py": 2,
    "hwcheck/report/training.py": 1,
    "hwcheck/testing/cases.py": 1,
}
"""How often a module looks at the words of a reason, and may: where Slurm or Kubernetes keeps it,
whose drains have a prefix by which they are ours; where a report leaves out what it has said, or
folds what is the same; where a case of a check names a part of a reason."""
LOOKS = (
    "startswith",
    "endswith",
    "removeprefix",
    "removesuffix",
    "find",
    "index",
    "count",
    "split",
)
LOOKS += ("partition", "rpartition", "search", "match", "fullmatch", "findall", "finditer")


def is_worded(node: ast.AST) -> bool:
    """Whether an expression is the text of a reason, or a limit in words; its code is not."""
    if not isinstance(node, ast.Attribute):
        return False
    if node.attr == "text":
        owner = node.value
        name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        return name == "reason"
    return node.attr in ("reason", "limit")


def words_in(node: ast.AST) -> bool:
    """Whether an expression holds such a text anywhere, and not only to ask for its code."""
    if isinstance(node, ast.Attribute) and not is_worded(node) and not hasattr(str, node.attr):
        return not is_worded(node.value) and words_in(node.value)
    return is_worded(node) or any(words_in(part) for part in ast.iter_child_nodes(node))


def decisions_by_words(source: str) -> list[str]:
    """Return where a module compares words of a reason or of a limit, or looks for some in them."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            looks = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in LOOKS:
            looks = [node.func.value, *node.args]  # type: ignore[attr-defined]
        else:
            continue
        if any(words_in(part) for part in looks):
            found.append(ast.unparse(node))
    return found


def test_no_decision_is_made_by_the_words_of_a_reason() -> None:
    amounts = {}
    for path in PACKAGE.rglob("*.py"):
        module = str(path.relative_to(ROOT))
        decisions = decisions_by_words(path.read_text("utf-8"))
        if len(decisions) != WORDED.get(module, 0):
            amounts[module] = decisions
    assert amounts == {}


@pytest.mark.parametrize(
    "source",
    [
        "'torch' in finding.reason.text",
        "finding.reason.text.startswith('x')",
        "PATTERN.search(finding.limit)",
        "re.search('x', f'{finding.value} {finding.limit}')",
        "reason.text.lower() == 'x'",
        "record.reason == 'interrupted'",
        "str(finding.reason).partition(':')",
    ],
)
def test_a_decision_by_words_would_be_noticed(source: str) -> None:
    assert len(decisions_by_words(source)) >= 1


def test_what_asks_for_a_code_is_no_decision_by_words() -> None:
    assert decisions_by_words("finding.reason.code == HANG or XFS.match(message.text)") == []
