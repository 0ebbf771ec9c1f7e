"""What becomes of a node where a run breaks off and is begun again.

usage: python -m tests.roles.interruptions [ROLE ...]

Each role is applied to a simulated machine, and ansible-playbook is killed after one task that
changes something; then the role is applied twice. The machine must be as after one good run, and
the last run must change nothing. That is done for every such task, each time from the same state;
after a task that changes nothing the machine is as before it. Prints role, task and what came of
it; ends with 1 where one did not converge.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Outcome:
    """What came of breaking off after a task; ``problem`` is empty where it converged."""

    role: str
    task: str
    problem: str


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
    kept = f"before.{role}"
    machine.restore("bare")
    if role in PREPARED:
        prepared = machine.play(PREPARED[role], **variables)
        assert prepared.code == 0, prepared.text
    machine.keep(kept)
    good, begun = play(machine, role, variables)
    assert good.code == 0, good.text
    as_it_should_be = snapshot(machine)
    number, tasks = 0, len([line for line in begun if line != "changed"])
    for line, below in zip(begun, [*begun[1:], ""], strict=True):
        number += line != "changed"
        if below == "changed" and number < tasks and (not only or line in only):
            machine.restore(kept)
            yield Outcome(role, line, _again(machine, role, variables, number, as_it_should_be))


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


def main(roles: Sequence[str]) -> int:
    """Return the exit code; 2 where no machine can be made here."""
    wrong = sorted(set(roles) - set(ROLES))
    problem = f"no such role: {', '.join(wrong)}" if wrong else why_not()
    if problem:
        print(problem, file=sys.stderr)
        return 2
    failed = 0
    with ansible_server(), bare_machine() as (machine, variables):
        for role in roles or ROLES:
            for outcome in break_off(machine, role, variables):
                failed += bool(outcome.problem)
                result = outcome.problem or "converged"
                print(f"{outcome.role:<21} {outcome.task:<75} {result}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    command = [*apart.APART, sys.executable, "-c"]
    code = "import sys; from tests.roles.interruptions import main; sys.exit(main(sys.argv[1:]))"
    os.execvp(command[0], [*command, code, *sys.argv[1:]])
