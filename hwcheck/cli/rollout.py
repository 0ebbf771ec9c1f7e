"""``hwcheck rollout``: one host first, then batches; each is applied, asserted and validated."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from click.exceptions import Exit

from hwcheck.cli import draining as drain_stages
from hwcheck.cli.command import command, end, fab_task, option
from hwcheck.cli.draining import drain_flags, read_draining
from hwcheck.cli.flags import list_names, out_flag, reaching, read_cluster, select
from hwcheck.cli.output import emit, say
from hwcheck.cli.scope import only_flag, skip_flag
from hwcheck.cli.site_option import all_checks, payload_files, site_files, site_flag, with_site
from hwcheck.cli.stages import apply, assert_after, playbook_flag, tags_flag
from hwcheck.cli.validate import carry_out
from hwcheck.cli.values import Whole
from hwcheck.connect import payload
from hwcheck.connect.connector import connection_check
from hwcheck.errors import UsageError
from hwcheck.exit_codes import NOT_MEASURED, combine
from hwcheck.fleet.accept.golden import golden_of
from hwcheck.inventory.defaults import ConnectionFlags
from hwcheck.provision.draining import Draining
from hwcheck.provision.names import refuse_misspelt, refuse_wrong_types
from hwcheck.provision.request import PlaybookRequest, find_playbook
from hwcheck.provision.rollout import Batch, BatchOutcome, Stage, batches, roll_out
from hwcheck.results.folders import new_folder, write_record
from hwcheck.results.options import Options
from hwcheck.run.measure import connector_of
from hwcheck.run.plan import make_plan
from hwcheck.scheduler.records import Amount

if TYPE_CHECKING:
    from hwcheck.provision.playbook import ProvisionRecord
    from hwcheck.site.additions import Additions

__getattr__ = fab_task(__name__)

DEFAULT_BATCH = 8
FORMAT = 1


@command(
    "rollout",
    examples=(
        "hwcheck rollout --hosts cluster.yml --batch 8",
        "hwcheck rollout --hosts cluster.yml --canary node07 --tags nccl",
        "hwcheck rollout -i cluster.yml --drain slurm --max-drained 10%",
    ),
)
@playbook_flag
@tags_flag
@option(
    "--batch",
    type=Whole(1),
    default=DEFAULT_BATCH,
    help=f"hosts that follow the first one together, and so on (default: {DEFAULT_BATCH})",
)
@option(
    "--canary",
    metavar="HOST",
    help="the host that goes first (default: the first of the inventory)",
)
@only_flag
@skip_flag
@drain_flags
@out_flag
@site_flag()
@reaching()
@with_site
def cli(
    *,
    hosts: str | None,
    limit: str | None,
    playbook: str,
    tags: str | None,
    extra_vars: Sequence[str],
    batch: int,
    canary: str | None,
    only: str | None,
    skip: str | None,
    drain: str | None,
    max_drained: Amount,
    drain_timeout: float,
    forks: int,
    out: str,
    list_hosts: bool,
    accept_new_host_keys: bool,
    site: str | None,  # noqa: ARG001 - with_site takes it
    verbose: bool,
    connection: ConnectionFlags,
    additions: Additions | None,
) -> None:
    """Provision, assert and quick-validate one host, then batches; stop at the first that fails."""
    reach = connection_check(accept_new_host_keys=accept_new_host_keys)
    request = PlaybookRequest(
        forks=forks,
        playbook=find_playbook(playbook),
        cluster=read_cluster(
            hosts,
            limit,
            extra_vars,
            connection,
            checks=all_checks(additions),
            reach=None if list_hosts else reach,
        ),
        tags=tags,
        accept_new_host_keys=accept_new_host_keys,
    )
    if list_hosts:
        list_names(request.cluster)
        return
    options = Options(
        checks=select(all_checks(additions), only, skip),
        forks=request.forks,
        accept_new_host_keys=accept_new_host_keys,
    )
    refuse_misspelt(request)
    refuse_wrong_types(request)
    plan = batches(request.hosts, batch, canary)
    cluster = request.cluster
    draining = read_draining(drain, max_drained, drain_timeout, cluster.hosts, Path(out))
    if draining:
        draining.refuse(plan)
    folder = new_folder(Path(out))
    if draining:
        draining.begin(folder.name)
    source = hosts or cluster.source
    stages = _Stages(request, source, folder, options, additions, verbose=verbose)
    outcomes = _run(plan, stages, folder, draining)
    emit("".join(_line(each) for each in outcomes), f"; the results are in {folder}")
    say(f"the results are in {folder}")
    end(combine(code for each in outcomes for code in each.stages.values()))


def _run(
    plan: Sequence[Batch], stages: _Stages, folder: Path, draining: Draining | None = None
) -> tuple[BatchOutcome, ...]:
    """Roll it out. ``rollout.json`` is written before a batch is touched: a rollout may be killed.

    Raises UsageError where no host was touched.
    """
    stages_in_order = {
        "provision": _in_a_rollout(stages.provision, None if draining else plan[0]),
        "state": stages.state,
        "validate": _in_a_rollout(stages.validate),
    }
    if draining:
        stages_in_order = {
            "drain": _in_a_rollout(partial(drain_stages.drain, draining), plan[0]),
            "wait": _in_a_rollout(partial(drain_stages.wait, draining)),
            **stages_in_order,
            "resume": _in_a_rollout(partial(drain_stages.resume, draining)),
        }
    outcomes: tuple[BatchOutcome, ...] = ()
    try:
        for outcomes in roll_out(plan, stages_in_order):
            drained = {"scheduler": draining.kind, "hosts": draining.left} if draining else None
            record = {"format": FORMAT, "batches": outcomes, "drained": drained}
            write_record(folder / "rollout.json", record)
    finally:
        if draining:
            drain_stages.say_what_is_left(draining)
    return outcomes


def _in_a_rollout(stage: Stage, before_a_change: Batch | None = None) -> Stage:
    """Return a stage that hands back how its command ends.

    A UsageError ends a command with the exit code that says that nothing was changed: what cannot
    be used after a change is not measured.
    """

    def run(part: Batch) -> int:
        try:
            return stage(part)
        except Exit as ended:
            return ended.exit_code
        except UsageError as error:
            if part is before_a_change:
                raise
            say(f"hwcheck: {part.name}: {error}")
            return NOT_MEASURED

    return run


class _Stages:
    """The stages of a batch; ``options`` are those of its validation."""

    def __init__(
        self,
        request: PlaybookRequest,
        source: str,
        folder: Path,
        options: Options,
        additions: Additions | None,
        *,
        verbose: bool,
    ) -> None:
        self._request = request
        self._source = source
        self._folder = folder
        self._options = options
        self._additions = additions
        self._verbose = verbose
        self._records: dict[str, ProvisionRecord] = {}

    def provision(self, part: Batch) -> int:
        """Apply the playbook to a batch."""
        say(f"{part.name}: {_names(part.hosts)}")
        folder = self._folder / part.name
        folder.mkdir()
        record = apply(self._of(part), folder, verbose=self._verbose)
        self._records[part.name] = record
        return record.exit_code

    def state(self, part: Batch) -> int:
        """Assert the roles that were just applied to it."""
        record, folder = self._records[part.name], self._folder / part.name
        return assert_after(self._of(part), record, folder, self._source)

    def validate(self, part: Batch) -> int:
        """Validate it as the command of that name does, with its quick profile."""
        cluster = self._request.cluster
        hosts = tuple(host for host in cluster.hosts if host.name in part.hosts)
        cluster = replace(cluster, hosts=hosts, limit=_names(part.hosts, ","))
        connector = connector_of(self._options, threading.Event())
        connector.prepare(hosts)
        built, golden = payload.build(payload_files(self._additions)), golden_of(hosts)
        plan = make_plan(
            self._options, cluster, built, site=site_files(self._additions), golden=golden
        )
        runs = self._folder / part.name / "validate"
        return carry_out(plan, runs, connector, self._additions, verbose=self._verbose)

    def _of(self, part: Batch) -> PlaybookRequest:
        return replace(self._request, only=part.hosts)


def _names(hosts: Sequence[str], comma: str = ", ") -> str:
    return comma.join(hosts)


def _line(outcome: BatchOutcome) -> str:
    stages = ", ".join(f"{name} {code}" for name, code in outcome.stages.items())
    codes = f" (exit codes: {stages})" if stages else ""
    return f"{outcome.name}: {outcome.outcome}: {_names(outcome.hosts)}{codes}\n"
