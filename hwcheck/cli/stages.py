"""The stages that ``state``, ``provision`` and ``rollout`` are made of.

pytest and ansible-runner are imported where they run: no other command waits for them.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from hwcheck.cli.command import option
from hwcheck.cli.interrupts import Interrupts
from hwcheck.cli.output import emit, say
from hwcheck.cli.progress import PlayProgress
from hwcheck.cli.values import Words
from hwcheck.errors import UsageError
from hwcheck.exit_codes import INTERRUPTED, NOT_MEASURED, PASS
from hwcheck.provision.request import PlaybookRequest
from hwcheck.provision.state.request import StateRequest, after_playbook
from hwcheck.results.folders import new_folder
from hwcheck.shipped import ROOTS

if TYPE_CHECKING:
    from hwcheck.provision.playbook import ProvisionRecord


def _roles() -> list[str]:
    return sorted({path.name for root in ROOTS for path in (root / "roles").glob("*/")})


playbook_flag = option(
    "--playbook",
    type=click.Path(),
    metavar="PLAYBOOK",
    default="",
    help="a playbook file, or one that hwcheck brings (default: its site.yml)",
)
tags_flag = option(
    "--tags", type=Words("tag", _roles), help="tags; every role has its own name as one"
)


def apply(request: PlaybookRequest, folder: Path, *, verbose: bool) -> ProvisionRecord:
    """Run the playbook with a live line, and print what became of each host.

    Raises UsageError where no task began, and Exit where it was interrupted or came to no end: some
    hosts are half provisioned, and nothing is judged.
    """
    from hwcheck.provision.playbook import provision

    stop = threading.Event()
    progress = PlayProgress(verbose=verbose)
    try:
        with Interrupts(stop), progress:
            record = provision(request, folder, stop, progress)
    except UsageError as error:
        if not progress.task_began:
            raise
        say(f"hwcheck: some hosts may be half provisioned: {error}")
        raise Exit(NOT_MEASURED) from None
    emit("".join(f"{host.summary()}\n" for host in record.hosts))
    if stop.is_set():
        say("hwcheck: interrupted: some hosts may be half provisioned; run it again")
        raise Exit(INTERRUPTED)
    return record


def assert_after(
    request: PlaybookRequest, record: ProvisionRecord, folder: Path, source: str
) -> int:
    """Assert the roles that Ansible ran, on the hosts that it ran on; return the exit code.

    What cannot be used now is not measured: the exit code of a UsageError would say that nothing
    was changed.
    """
    try:
        state_request = after_playbook(request, record.roles, record.role_vars, source)
        if state_request is None:
            say("hwcheck: no role with assertions was applied: nothing is asserted")
            return PASS
        return run_assertions(state_request, folder)
    except UsageError as error:
        say(f"hwcheck: what was applied cannot be asserted: {error}")
        return NOT_MEASURED


def run_assertions(
    request: StateRequest, folder: Path | None = None, out: str = "", *, verbose: bool = False
) -> int:
    """Assert, and return the exit code; without a folder a new one is made under ``out``."""
    from hwcheck.provision.state.engine import Engine
    from hwcheck.provision.state.run import assert_state

    engine = Engine(request)
    if folder is None:
        folder = new_folder(Path(out))
        say(f"the results are in {folder}")
    return assert_state(engine, folder, verbose=verbose).exit_code
