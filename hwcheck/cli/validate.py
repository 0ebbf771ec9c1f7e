"""``hwcheck validate``: measure every host of an inventory, judge, render."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwcheck.cli.command import command, end, fab_task, flag, option
from hwcheck.cli.display import display
from hwcheck.cli.flags import (
    HOSTS_HELP,
    MOST_FACTOR,
    MOST_REPETITIONS,
    coverage_flag,
    force_flag,
    json_flag,
    list_names,
    out_flag,
    reaching,
    read_cluster,
    this_machine,
    timing,
)
from hwcheck.cli.interrupts import Interrupts
from hwcheck.cli.outcome import show
from hwcheck.cli.output import emit, say
from hwcheck.cli.scope import (
    NODE,
    collectives_flag,
    multi_host_options,
    of_nodes,
    only_flag,
    scope_flag,
    skip_flag,
)
from hwcheck.cli.site_option import all_checks, payload_files, site_files, site_flag, with_site
from hwcheck.cli.values import Duration, Names, OneOf, Size, Whole
from hwcheck.connect import payload
from hwcheck.connect.connector import Connector
from hwcheck.contract.wire import DTYPES, LEG_NAMES, LOAD_DTYPES
from hwcheck.fleet.accept.golden import golden_of
from hwcheck.inventory.defaults import ConnectionFlags
from hwcheck.results.folders import LATEST, link_latest
from hwcheck.results.options import ENGINES, Options
from hwcheck.run.measure import RunLimits, connector_of, measure
from hwcheck.run.plan import PROFILES, Plan, make_plan
from hwcheck.run.preview import preview

if TYPE_CHECKING:
    from hwcheck.site.additions import Additions

__getattr__ = fab_task(__name__)


@command(
    "validate",
    examples=(
        "hwcheck validate --hosts cluster.yml",
        "hwcheck validate -i cluster.yml -l h100 --profile burn_in --duration 8h",
        "hwcheck validate -i cluster.yml --only all_reduce --legs default,net --dry-run",
    ),
)
@only_flag
@skip_flag
@collectives_flag
@option(
    "--legs",
    type=Names("leg", lambda: LEG_NAMES, "time all that can differ"),
    help=f"NCCL environments {', '.join(LEG_NAMES)} (default: those that can differ on the node; "
    "over hosts one of site and default, site where a host has NCCL settings)",
)
@option(
    "--engine",
    type=OneOf(ENGINES),
    default=ENGINES[0],
    help="what times the collectives: torch (default), or nccl-tests, whose programs are in "
    "hwcheck_nccl_tests_dir",
)
@option(
    "--minbytes",
    type=Size(),
    help="smallest size of a collective, as in nccl-tests (default 1M)",
)
@option(
    "--maxbytes",
    type=Size(),
    help="largest size, as in nccl-tests, as far as time and memory allow (default 1G)",
)
@option(
    "--stepfactor",
    type=Whole(2, MOST_FACTOR),
    help="from one size to the next, as in nccl-tests (default 2)",
)
@option(
    "-n",
    "--iters",
    type=Whole(1, MOST_REPETITIONS),
    help="timed iterations of each size, as in nccl-tests (default 20)",
)
@option(
    "-w",
    "--warmup-iters",
    type=Whole(0, MOST_REPETITIONS),
    help="iterations before them, as in nccl-tests (default 5)",
)
@option("-d", "--datatype", type=OneOf(DTYPES), help="as in nccl-tests (default float)")
@scope_flag
@option(
    "--profile",
    type=OneOf(tuple(PROFILES)),
    default="quick",
    help="quick (default; about a minute of load per node), standard or burn_in",
)
@option(
    "--duration",
    type=Duration(),
    help="how long burn_in loads the GPUs: 90m, 8h, 1d, or seconds (default: 1h)",
)
@option(
    "--load-dtype",
    type=OneOf(LOAD_DTYPES),
    default=LOAD_DTYPES[0],
    help="matrices of the load: auto (default: the fastest that trains), bf16, fp16, tf32 or fp32",
)
@option(
    "--timeout",
    type=Duration(may_be_0=True),
    default=0.0,
    help="how long one host's visit may take: 90s, 2h, or seconds (default: as the profile says)",
)
@out_flag
@flag(
    "--dry-run",
    help="say what would run where, what it needs and how long it takes; reach no host",
)
@force_flag
@flag(
    "--prove",
    help="also break collectives on purpose (about a minute) and see that it is noticed",
)
@coverage_flag
@site_flag()
@json_flag
@reaching(f"{HOSTS_HELP}, or else this machine")
@with_site
def cli(
    *,
    hosts: str | None,
    limit: str | None,
    extra_vars: Sequence[str],
    only: str | None,
    skip: str | None,
    collectives: Sequence[str] | None,
    legs: Sequence[str] | None,
    engine: str,
    minbytes: int | None,
    maxbytes: int | None,
    stepfactor: int | None,
    iters: int | None,
    warmup_iters: int | None,
    datatype: str | None,
    scope: Sequence[str],
    profile: str,
    duration: float | None,
    load_dtype: str,
    forks: int,
    timeout: float,
    out: str,
    list_hosts: bool,
    dry_run: bool,
    force: bool,
    prove: bool,
    accept_new_host_keys: bool,
    require_coverage: float | None,
    site: str | None,  # noqa: ARG001 - with_site takes it
    as_json: bool,
    verbose: bool,
    connection: ConnectionFlags,
    additions: Additions | None,
) -> None:
    """Measure every host of an inventory; say which can be trusted and which NCCL settings fit."""
    checks = all_checks(additions)
    sizes = {
        "minbytes": minbytes,
        "maxbytes": maxbytes,
        "stepfactor": stepfactor,
        "iters": iters,
        "warmup_iters": warmup_iters,
    }
    which = {"only": only, "skip": skip, "collectives": collectives, "legs": legs, "engine": engine}
    timed = timing(legs=legs or (), datatype=datatype, **sizes)
    options = Options(
        checks=of_nodes(scope, checks, only, skip, collectives, profile, prove=prove),
        scopes=tuple(name for name in scope if name != NODE),
        profile=profile,
        duration_s=duration,
        load_dtype=load_dtype,
        engine=engine,
        timing=timed,
        over_hosts=multi_host_options(scope, timed, {**which, **sizes}),
        force=force,
        forks=forks,
        timeout_s=timeout or None,
        accept_new_host_keys=accept_new_host_keys,
        require_coverage_percent=require_coverage,
    )
    stop = threading.Event()
    connector = connector_of(options, stop)
    reach = None if list_hosts else connector.prepare
    cluster = read_cluster(
        *(hosts, limit, extra_vars, connection),
        otherwise=this_machine(),
        checks=checks,
        reach=reach,
    )
    if list_hosts:
        list_names(cluster)
        return
    built, golden = payload.build(payload_files(additions)), golden_of(cluster.hosts)
    plan = make_plan(options, cluster, built, site=site_files(additions), golden=golden)
    if dry_run:
        reached = replace(plan, hosts=tuple(map(connector.as_reached, plan.hosts)))
        emit("".join(f"{text}\n" for text in preview(reached, checks)))
        return
    end(carry_out(plan, Path(out), connector, additions, as_json=as_json, verbose=verbose))


def carry_out(
    plan: Plan,
    runs: Path,
    connector: Connector,
    additions: Additions | None,
    *,
    as_json: bool = False,
    verbose: bool,
) -> int:
    """Measure what is planned, show it, point ``latest`` at it, and return the exit code."""
    with Interrupts(connector.supervisor.stop) as interrupts:
        limits = RunLimits(interrupts.visits_over)
        path = measure(plan, runs, connector, display(verbose=verbose), limits)
        required_percent = plan.options.require_coverage_percent
        exit_code = show(path, additions, as_json=as_json, required_percent=required_percent)
        try:
            link_latest(path)
        except OSError as error:  # a file system without links, a folder of that name
            say(f"hwcheck: {path.parent / LATEST}: {error.strerror}")
    return exit_code
