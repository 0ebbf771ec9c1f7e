"""What the docs answer is what hwcheck does: its messages, checks, profiles and words are ours."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from hwcheck import checks
from hwcheck.contract.wire import LEG_NAMES
from hwcheck.run.plan import PROFILES

ROOT = Path(__file__).parents[1]
OF_OTHERS = {"sudo: a password is required", "python3: not found"}
"""Messages that programs of the node write."""
BETWEEN = re.compile(r"; |: (?!gloo)")


def rows(page: str) -> list[list[str]]:
    """Return the cells of each row of the page's tables, less their heads."""
    lines = (ROOT / "docs" / page).read_text("utf-8").splitlines()
    cells = [[each.strip() for each in line.strip("|").split("|")] for line in lines if "|" in line]
    return [row for row in cells if not set(row[0]) <= {"-"} and row[0]]


def messages() -> list[str]:
    return [
        match[1]
        for row in rows("troubleshooting.md")
        if (match := re.match("`([^`]+)`", row[0])) and match[1] not in OF_OTHERS
    ]


@cache
def texts_of_the_code() -> str:
    """Return every text that stands in the code, what is filled in left out."""
    files = (ROOT / "hwcheck").rglob("*.py")
    trees = [ast.walk(ast.parse(file.read_text("utf-8"))) for file in files]
    return "\0".join(
        node.value
        for tree in trees
        for node in tree
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def is_ours(message: str) -> bool:
    """Whether each clause of a message is a text of the code; several are put together there."""
    return all(clause in texts_of_the_code() for clause in BETWEEN.split(message))


@pytest.mark.parametrize("message", messages())
def test_a_message_that_is_explained_is_one_of_ours(message: str) -> None:
    assert is_ours(message)


def test_the_control_a_message_that_nobody_writes() -> None:
    assert len(messages()) > 10
    assert not is_ours("an exercise, no GPU")


def test_what_is_lost_without_privileges_are_checks() -> None:
    lost = [row[1] for row in rows("running.md") if row[1:] and row[1].startswith("`")]
    names = {name for cell in lost for name in re.findall("`([a-z0-9_]+)`", cell)}
    assert len(names) > 4
    assert names <= set(checks.listing())


def test_how_long_it_takes_is_said_of_each_profile() -> None:
    profiles = {
        match for row in rows("running.md") for match in re.findall(r"--profile (\w+)", row[0])
    }
    assert profiles == set(PROFILES)


def test_the_glossary_has_each_leg() -> None:
    (legs,) = [row[1] for row in rows("glossary.md") if row[0] == "leg"]
    assert set(re.findall("`([a-z0-9_]+)`", legs)) == set(LEG_NAMES)


@pytest.mark.parametrize(
    "page", ["install", "running", "reading-the-report", "troubleshooting", "glossary"]
)
def test_the_readme_leads_to_each_answer(page: str) -> None:
    assert f"(docs/{page}.md)" in (ROOT / "README.md").read_text("utf-8")
