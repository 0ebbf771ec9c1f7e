"""What remedies tell people to type is there: our commands and their flags."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from hwcheck.advise import visits
from hwcheck.advise.catalogue import shipped
from hwcheck.advise.multi_host import BETWEEN, FABRIC_FIX, REMEDIES
from hwcheck.advise.remedies import REMEDY_OF
from hwcheck.cli.command import Actions, Command
from hwcheck.cli.root import COMMANDS, load

CALL = re.compile(r"\b(?:hwcheck|fab) ([a-z]+)((?: --?[a-z][a-z-]*(?: [\w,]+)?)*)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def flags(command: Command) -> set[str]:
    """Return the flags of a command and of its actions."""
    actions = command.commands.values() if isinstance(command, Actions) else ()
    return {
        flag
        for part in (command, *actions)
        for param in part.params
        for flag in (*param.opts, *param.secondary_opts)
    }


FLAGS = {name: flags(load(name)) for name in COMMANDS}
ALL_FLAGS = set[str]().union(*FLAGS.values())


def fixes() -> Iterator[str]:
    """Yield what to do by remedies whose flags are all our own."""
    yield from (code.fix for code in REMEDY_OF.values())
    yield from (hint.fix for hint in (*visits.BY_PHASE.values(), *visits.BY_STATE.values()))
    yield from (fix for _, fix in REMEDIES.values())
    yield from (fix for _, _, fix, _ in BETWEEN.values())
    yield FABRIC_FIX


def remedies() -> Iterator[str]:
    """Yield every remedy, with its command and what rules and checks bring."""
    yield from fixes()
    yield from (code.command for code in REMEDY_OF.values())
    for rule in shipped().rules.values():
        yield from (rule.fix, rule.confirm)
    for check in shipped().checks.values():
        yield from (check.remedy.fix, check.remedy.command)


def missing(remedy: str) -> list[str]:
    """Return the commands of ours, and their flags, that a remedy names and that are not there."""
    wrong = []
    for name, words in CALL.findall(remedy):
        if name not in FLAGS:
            wrong.append(name)
        wrong += [flag for flag in FLAG.findall(words) if flag not in FLAGS.get(name, ())]
    return wrong


@pytest.mark.parametrize("remedy", sorted({text for text in remedies() if CALL.search(text)}))
def test_the_commands_that_a_remedy_names_are_there(remedy: str) -> None:
    assert missing(remedy) == []


@pytest.mark.parametrize("fix", sorted({text for text in fixes() if FLAG.search(text)}))
def test_the_flags_that_a_remedy_names_are_there(fix: str) -> None:
    assert set(FLAG.findall(fix)) <= ALL_FLAGS


def test_what_is_not_there_would_be_noticed() -> None:
    assert missing("see it: hwcheck validate --scope pairs --second-visit, or hwcheck mend") == [
        "--second-visit",
        "mend",
    ]
    assert "--second-visit" not in ALL_FLAGS
    assert len({text for text in remedies() if CALL.search(text)}) > 4
