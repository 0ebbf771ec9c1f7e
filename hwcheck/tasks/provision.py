"""``fab provision``: apply roles, then assert what they promise."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from invoke import Context

from hwcheck.provision.request import DEFAULT_PLAYBOOK, Request, find_playbook
from hwcheck.results.folders import new_folder
from hwcheck.tasks.command import command, end, whole
from hwcheck.tasks.interrupts import Interrupts
from hwcheck.tasks.output import say
from hwcheck.tasks.shared import HELP, read_become, read_cluster
from hwcheck.tasks.stages import apply, assert_after, interrupted
from hwcheck.tasks.validate import DEFAULT_INVENTORY


@command(help=HELP, iterable=["extra_vars"])
def provision(
    ctx: Context,  # noqa: ARG001 - invoke hands every task its context
    hosts: str = DEFAULT_INVENTORY,
    limit: str | None = None,
    playbook: str = DEFAULT_PLAYBOOK,
    tags: str | None = None,
    extra_vars: Sequence[str] | None = None,
    check: bool = False,
    diff: bool = False,
    forks: str = "32",
    become: bool = False,
    become_user: str = "",
    ask_become_pass: bool = False,
    out: str = "runs",
    accept_new_host_keys: bool = False,
    verbose: bool = False,
) -> None:
    """Apply roles to every host of an inventory with Ansible, then assert what they promise."""
    at_once, found = whole("--forks", forks, 1), find_playbook(playbook)
    becomes = read_become(become, become_user, ask_become_pass)
    request = Request(
        playbook=found,
        cluster=read_cluster(hosts, limit, extra_vars or ()),
        limit=limit,
        tags=tags,
        extra_vars=tuple(extra_vars or ()),
        check=check,
        diff=diff,
        forks=at_once,
        become=becomes,
        accept_new_host_keys=accept_new_host_keys,
    )
    folder = new_folder(Path(out))
    stop = threading.Event()
    with Interrupts(stop):
        record = apply(request, folder, stop, verbose=verbose)
    if stop.is_set():
        interrupted()
    codes = [record.exit_code]
    if not check:  # nothing was applied that could be asserted
        codes.append(assert_after(request, record, folder, hosts))
    say(f"the results are in {folder}")
    end(1 if 1 in codes else max(codes))
