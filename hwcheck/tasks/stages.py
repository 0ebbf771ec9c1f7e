"""The stages that ``state``, ``provision`` and ``rollout`` are made of.

pytest and ansible-runner are imported where they run: no other command waits for them.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from invoke import Exit

from hwcheck.provision.request import DEFAULT_PLAYBOOK, Request, find_playbook
from hwcheck.provision.state.cases import roles_with_assertions
from hwcheck.provision.state.request import Request as StateRequest
from hwcheck.provision.state.request import mend_line
from hwcheck.results.folders import new_folder
from hwcheck.tasks.output import emit, say
from hwcheck.tasks.play_progress import PlayProgress
from hwcheck.tasks.program import INTERRUPTED
from hwcheck.tasks.shared import as_ansible_becomes

if TYPE_CHECKING:
    from hwcheck.provision.step import ProvisionRecord


def apply(
    request: Request, folder: Path, stop: threading.Event, *, verbose: bool
) -> ProvisionRecord:
    """Run the playbook with a live line, and say what became of each host."""
    from hwcheck.provision import step

    with PlayProgress(verbose=verbose) as progress:
        record = step.provision(request, folder, stop, progress)
    emit("".join(f"{host.summary()}\n" for host in record.hosts))
    return record


def assert_after(request: Request, record: ProvisionRecord, folder: Path, source: str) -> int:
    """Assert the roles that Ansible ran, on the hosts that it ran on; return the exit code.

    Each host is to be as the inventory says, and before that as the play said that it makes it.
    """
    asserted = tuple(role for role in roles_with_assertions() if role in record.roles)
    if not asserted:
        say("hwcheck: no role with assertions was applied: nothing is asserted")
        return 0
    names = request.hosts
    hosts = tuple(
        replace(host, variables={**host.variables, **record.role_vars.get(host.name, {})})
        for host in request.cluster.hosts
        if host.name in names
    )
    cluster = as_ansible_becomes(replace(request.cluster, hosts=hosts), request.become)
    wanted = StateRequest(
        cluster,
        asserted,
        request.forks,
        mend=_mend(request, source),
        accept_new_host_keys=request.accept_new_host_keys,
    )
    return run_assertions(wanted, folder)


def _mend(request: Request, source: str) -> str:
    """Return the beginning of the command that applies these roles to hosts again.

    Variables of a command line may be secrets, and this is shown and written.
    """
    if request.extra_vars or request.playbook != find_playbook(DEFAULT_PLAYBOOK):
        return "the same command with"
    return mend_line(source)


def run_assertions(request: StateRequest, folder: Path | None = None, out: str = "") -> int:
    """Assert, and return the exit code; without a folder a new one is made under ``out``."""
    from hwcheck.provision.state.engine import Engine
    from hwcheck.provision.state.run import assert_state

    engine = Engine(request)
    if folder is None:
        folder = new_folder(Path(out))
        say(f"the results are in {folder}")
    return assert_state(engine, folder).exit_code


def interrupted() -> NoReturn:
    """End a command that was stopped half way: nothing is judged."""
    say("hwcheck: interrupted: some hosts may be half provisioned; run it again")
    raise Exit(code=INTERRUPTED)
