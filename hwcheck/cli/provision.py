"""``hwcheck provision``: apply roles, then assert what they promise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hwcheck.cli.command import command, end, fab_task, flag
from hwcheck.cli.flags import list_names, out_flag, reaching, read_cluster
from hwcheck.cli.output import say
from hwcheck.cli.stages import apply, assert_after, playbook_flag, tags_flag
from hwcheck.exit_codes import combine
from hwcheck.inventory.defaults import ConnectionFlags
from hwcheck.provision.names import refuse_misspelt, refuse_wrong_types
from hwcheck.provision.request import PlaybookRequest, find_playbook
from hwcheck.results.folders import new_folder

__getattr__ = fab_task(__name__)


@command(
    "provision",
    examples=(
        "hwcheck provision --hosts cluster.yml --check --diff",
        "hwcheck provision --hosts cluster.yml --tags nccl,rdma",
        "hwcheck provision --hosts cluster.yml --limit node03 -e nccl_conf=absent",
    ),
)
@playbook_flag
@tags_flag
@flag("--check", help="change nothing, say what would change")
@flag("--diff", help="show the differences in files")
@out_flag
@reaching()
def cli(
    *,
    hosts: str | None,
    limit: str | None,
    playbook: str,
    tags: str | None,
    extra_vars: Sequence[str],
    check: bool,
    diff: bool,
    forks: int,
    out: str,
    list_hosts: bool,
    accept_new_host_keys: bool,
    verbose: bool,
    connection: ConnectionFlags,
) -> None:
    """Apply roles to every host of an inventory with Ansible, then assert what they promise."""
    request = PlaybookRequest(
        forks=forks,
        playbook=find_playbook(playbook),
        cluster=read_cluster(hosts, limit, extra_vars, connection),
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
