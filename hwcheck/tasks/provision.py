"""``fab provision``: apply roles, then assert what they promise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from invoke import Context

from hwcheck.exit_codes import combine
from hwcheck.inventory.defaults import NO_FLAGS, ConnectionFlags
from hwcheck.provision.names import refuse_misspelt, refuse_wrong_types
from hwcheck.provision.request import PlaybookRequest, find_playbook
from hwcheck.results.folders import new_folder
from hwcheck.tasks.command import end, reaching_command
from hwcheck.tasks.flags import HELP, list_names, read_cluster, whole
from hwcheck.tasks.output import say
from hwcheck.tasks.stages import apply, assert_after


@reaching_command(help=HELP)
def provision(
    ctx: Context,  # noqa: ARG001 - invoke hands every task its context
    hosts: str | None = None,
    limit: str | None = None,
    playbook: str = "",
    tags: str | None = None,
    extra_vars: Sequence[str] | None = None,
    check: bool = False,
    diff: bool = False,
    forks: str = "32",
    out: str = "runs",
    list_hosts: bool = False,
    accept_new_host_keys: bool = False,
    verbose: bool = False,
    connection: ConnectionFlags = NO_FLAGS,
) -> None:
    """Apply roles to every host of an inventory with Ansible, then assert what they promise."""
    request = PlaybookRequest(
        forks=whole("--forks", forks, 1),
        playbook=find_playbook(playbook),
        cluster=read_cluster(hosts, limit, extra_vars or (), connection),
        tags=tags,
        check=check,
        diff=diff,
        accept_new_host_keys=accept_new_host_keys,
    )
    if list_hosts:
        list_names(request.cluster)
        return
    refuse_misspelt(request)
    refuse_wrong_types(request)
    folder = new_folder(Path(out))
    record = apply(request, folder, verbose=verbose)
    codes = [record.exit_code]
    if not check:  # nothing was applied that could be asserted
        codes.append(assert_after(request, record, folder, hosts or request.cluster.source))
    say(f"the results are in {folder}")
    end(combine(codes))
