"""What becomes of a node where a run breaks off and is begun again.

usage: python -m tests.roles.interruptions [--docs] [--save FILE] [--saved FILE] [ROLE ...]

Each role is applied to a simulated machine, and ansible-playbook is killed after one task that
changes something; then the role is applied twice. The machine must be as after one good run, and
the last run must change nothing. That is done for every such task, each time from the same state;
after a task that changes nothing the machine is as before it. Prints role, task and what came of
it; ends with 1 where one did not converge. ``--docs`` writes docs/interruptions.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests import apart
from tests.conftest import ansible_server
from tests.lab.namespaces import why_not
from tests.roles.machine import Machine, Played
from tests.roles.whole import PREPARED, ROLES, whole_machine

STRATEGY = {
    "ANSIBLE_STRATEGY": "broken_off",
    "ANSIBLE_STRATEGY_PLUGINS": str(Path(__file__).with_name("strategies")),
}
SNAPSHOT = Path(__file__).with_name("snapshot.sh")
PAGE = Path(__file__).parents[2] / "docs" / "interruptions.md"
HEAD = """\
# Runs that break off

Written by `python -m tests.roles.interruptions --docs`; do not edit it by hand.

Each role is applied to a simulated machine (`tests/roles/whole.py`), ansible-playbook is killed
after one task that changes something, and the role is applied twice. It has converged where the
machine is then as after one good run, and the last run changed nothing.
"""


@dataclass(frozen=True)
class Outcome:
    """What came of breaking off after a task; ``problem`` is empty where it converged."""

    role: str
    task: str
    problem: str

    @property
    def result(self) -> str:
        return self.problem or "converged"


def snapshot(machine: Machine) -> set[str]:
    """Return a line for each thing that roles can change on the machine."""
    current = machine.folder / (machine.folder / "current").read_text().strip()
    return set(machine.ask(f"set -- {current}\n{SNAPSHOT.read_text()}").splitlines())


def play(
    machine: Machine, role: str, variables: Mapping[str, object], last: str = ""
) -> tuple[Played, list[str]]:
    """Apply a role; return also the tasks that it began, and "changed" below those that did."""
    with tempfile.NamedTemporaryFile("r") as file:
        told = {"HWCHECK_TEST_BEGUN": file.name, "HWCHECK_TEST_LAST": last}
        played = machine.play([role], environment=STRATEGY | told, **variables)
        return played, file.read().splitlines()


def break_off(
    machine: Machine, role: str, variables: Mapping[str, object], only: Sequence[str] = ()
) -> Iterator[Outcome]:
    """Break the role off after each task that changes something, or after those of these names."""
    _prepare(machine, role, variables)
    good, begun = play(machine, role, variables)
    assert good.code == 0, good.text
    as_it_should_be = snapshot(machine)
    number, tasks = 0, len([line for line in begun if line != "changed"])
    for line, below in zip(begun, [*begun[1:], ""], strict=True):
        number += line != "changed"
        if below == "changed" and number < tasks and (not only or line in only):
            _prepare(machine, role, variables)
            yield Outcome(role, line, _again(machine, role, variables, number, as_it_should_be))


def _prepare(machine: Machine, role: str, variables: Mapping[str, object]) -> None:
    """Boot the machine as it comes, with what the role stands on.

    Not with a state that was kept behind that: the boot would do what a note of a reboot is for.
    """
    machine.restore("bare")
    if role in PREPARED:
        prepared = machine.play(PREPARED[role], **variables)
        assert prepared.code == 0, prepared.text


def _again(
    machine: Machine,
    role: str,
    variables: Mapping[str, object],
    last: int,
    as_it_should_be: set[str],
) -> str:
    """Apply a role up to a task, then twice; return what is wrong."""
    broken, _ = play(machine, role, variables, str(last))
    again, _ = play(machine, role, variables)
    if again.code != 0:
        return f"the second run fails: {again.text[-300:]}"
    different = sorted(snapshot(machine) ^ as_it_should_be)
    if different:
        return f"differs: {'; '.join(different[:4])}"
    third, _ = play(machine, role, variables)
    if third.changes:
        return f"the third run changes: {', '.join(third.changed)}"
    return "" if broken.code else "it was not broken off"


@contextmanager
def bare_machine() -> Iterator[tuple[Machine, dict[str, object]]]:
    """Boot the machine that has everything, as it comes, and keep that; and its variables."""
    with whole_machine() as (machine, variables):
        machine.keep("bare")
        yield machine, variables


def outcomes_of(roles: Sequence[str]) -> Iterator[Outcome]:
    """Break these roles off after each of their tasks that change something."""
    with (
        tempfile.TemporaryDirectory() as kept,
        ansible_server(Path(kept)),
        bare_machine() as (machine, variables),
    ):
        for role in roles:
            yield from break_off(machine, role, variables)


def page(outcomes: Sequence[Outcome]) -> str:
    """Return docs/interruptions.md."""
    converged = [each for each in outcomes if not each.problem]
    rows = [
        f"| {each.role} | {each.task.removeprefix(f'{each.role} : ')} | {each.result} |"
        for each in outcomes
    ]
    return "\n".join(
        [
            HEAD,
            f"{len(converged)} of {len(outcomes)} converged.\n",
            *("| role | killed after | |", "|---|---|---|"),
            *rows,
            "",
        ]
    )


def saved(file: Path) -> list[Outcome]:
    """Read what ``--save`` wrote."""
    return [Outcome(**json.loads(line)) for line in file.read_text("utf-8").splitlines()]


def main(words: Sequence[str]) -> int:
    """Return the exit code; 2 where no machine can be made here."""
    parser = argparse.ArgumentParser(prog="python -m tests.roles.interruptions")
    parser.add_argument("roles", nargs="*", metavar="ROLE", help=", ".join(ROLES))
    parser.add_argument("--docs", action="store_true", help=f"write docs/{PAGE.name}")
    parser.add_argument("--save", type=Path, help="append what came of each to this file")
    parser.add_argument("--saved", type=Path, help="take what came of them from this file")
    options = parser.parse_args(words)
    wrong = sorted(set(options.roles) - set(ROLES))
    problem = f"no such role: {', '.join(wrong)}" if wrong else ""
    problem = problem or ("" if options.saved else why_not())
    if problem:
        print(problem, file=sys.stderr)
        return 2
    outcomes = []
    for outcome in saved(options.saved) if options.saved else outcomes_of(options.roles or ROLES):
        outcomes.append(outcome)
        print(f"{outcome.role:<21} {outcome.task:<75} {outcome.result}", flush=True)
        if options.save:
            with options.save.open("a", encoding="utf-8") as stream:
                print(json.dumps(asdict(outcome)), file=stream)
    if options.docs:
        PAGE.write_text(page(outcomes), "utf-8")
    return int(any(outcome.problem for outcome in outcomes))


if __name__ == "__main__":
    command = [*apart.APART, sys.executable, "-c"]
    code = "import sys; from tests.roles.interruptions import main; sys.exit(main(sys.argv[1:]))"
    os.execvp(command[0], [*command, code, *sys.argv[1:]])
