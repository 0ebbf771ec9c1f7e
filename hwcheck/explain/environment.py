"""The NCCL variables that a run of nccl-tests had, by its command and by what NCCL said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hwcheck.contract.collective_spec import NO_CONF, SITE
from hwcheck.explain.command_line import CommandLine
from hwcheck.judge.legs import planned_env
from hwcheck.node.collective.nccl_info import NcclInfo
from hwcheck.node.collective.proof import PRINTED_AS
from hwcheck.text import line

HARMLESS = ("NCCL_DEBUG", "NCCL_TESTS_", "NCCL_GRAPH_DUMP_FILE", "NCCL_TOPO_DUMP_FILE")
"""Begins of the names of variables that do not change the way of the data."""

MOST_NAMED = 12
WITHOUT_P2P = {"NCCL_P2P_DISABLE": "1", "NCCL_P2P_LEVEL": "LOC"}


def notes(info: NcclInfo, commands: Sequence[CommandLine]) -> Iterator[str]:
    """Yield what the commands set, and what of it turns the way between GPUs off."""
    for command in dict.fromkeys(_words(command.env) for command in commands):
        if command:
            yield f"its command sets {command}"
    handed = dict.fromkeys(name for command in commands for name in command.passed)
    if handed:
        yield f"its command hands on {', '.join(handed)}, with a value that it does not show"
    for name, value in WITHOUT_P2P.items():
        if any(each.get(name) == value for each in (*_environments(commands), info.env_set)):
            yield (
                f"{name}={value} is in force: no P2P, over NVLink neither. Left over in an "
                "environment it costs most of the bandwidth of NVLinks"
            )
            return


def _environments(commands: Sequence[CommandLine]) -> Iterator[Mapping[str, str]]:
    return (command.env for command in commands)


def _words(env: Mapping[str, str]) -> str:
    named = [
        f"{name}={line(value, 100)}"
        for name, value in env.items()
        if not name.startswith("NCCL_DEBUG")
    ]
    return ", ".join(named[:MOST_NAMED])


def of_leg(name: str, info: NcclInfo, command: CommandLine | None) -> dict[str, str]:
    """Return the variables of a run that is given as the leg ``name``.

    Those of the leg's plan are taken to be set where neither a command nor NCCL tells what is.
    """
    variables = {} if command is None else dict(command.env)
    variables |= info.env_set
    variables = {key: value for key, value in variables.items() if not _is_harmless(key, value)}
    if name == SITE:
        return variables
    planned = dict(planned_env(name) or {})
    is_complete = command is not None or bool(info.env_set)
    handed_on = command.passed if command is not None else ()
    env = {
        key: value
        for key, value in planned.items()
        if not is_complete or key in handed_on or _is_set(key, info.env_set)
    }
    for key in planned:
        other, meaning = PRINTED_AS.get(key, ("", ""))
        if other not in planned and variables.get(other) == meaning and info.env_set.get(other):
            variables.pop(other)
    return env | variables


def _is_set(name: str, env_set: Mapping[str, str]) -> bool:
    """Whether NCCL said that it took a variable, under its own name or what it comes to."""
    other, meaning = PRINTED_AS.get(name, ("", ""))
    return name in env_set or env_set.get(other) == meaning


def _is_harmless(name: str, value: str) -> bool:
    return name.startswith(HARMLESS) or NO_CONF.get(name) == value
