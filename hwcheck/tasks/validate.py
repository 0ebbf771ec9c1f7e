"""``hwcheck validate``: measure every host of an inventory, judge, render."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hwcheck.accept.golden import golden_of
from hwcheck.connect import payload
from hwcheck.connect.connector import Connector
from hwcheck.connect.deadlines import Deadlines
from hwcheck.errors import UsageError
from hwcheck.inventory.defaults import ConnectionFlags
from hwcheck.node import checks as registry
from hwcheck.node.wire import COLLECTIVES, DTYPES, LEG_NAMES, LOAD_DTYPES
from hwcheck.results.folders import LATEST, link_latest
from hwcheck.results.run_folder import RunFolder
from hwcheck.run.fan_out import fan_out
from hwcheck.run.plan import ENGINES, PROFILES, make_plan
from hwcheck.run.preview import preview
from hwcheck.tasks.command import command, end, fab_task, flag, option
from hwcheck.tasks.flags import (
    HOSTS_HELP,
    MOST_FACTOR,
    MOST_REPETITIONS,
    PROOF,
    USUAL,
    coverage_flag,
    force_flag,
    json_flag,
    list_names,
    out_flag,
    reaching,
    read_cluster,
    select,
    this_machine,
    timing,
)
from hwcheck.tasks.interrupts import Interrupts
from hwcheck.tasks.outcome import show
from hwcheck.tasks.output import emit, say
from hwcheck.tasks.progress import Progress
from hwcheck.tasks.scope import (
    NODE,
    collectives_flag,
    multi_host_options,
    only_flag,
    run_multi_host,
    scope_flag,
    skip_flag,
)
from hwcheck.tasks.second_visit import make_second_visits
from hwcheck.tasks.site_option import payload_files, save_site, site_flag, site_hashes, with_site
from hwcheck.tasks.values import Duration, Names, OneOf, Size, Whole

__getattr__ = fab_task(__name__)


@command(
    "validate",
    examples=(
        "hwcheck validate --hosts cluster.yml",
        "hwcheck validate --hosts cluster.yml --limit h100 --profile burn_in --duration 8h",
        "hwcheck validate --hosts cluster.yml --only all_reduce --legs default,p2p_off --dry-run",
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
) -> None:
    """Measure every host of an inventory; say which can be trusted and which NCCL settings fit."""
    runs, chosen = Path(out), scope
    usual = USUAL if profile == "quick" else COLLECTIVES
    if prove and NODE not in chosen:
        raise UsageError("--prove: it is about single nodes; add node to --scope")
    on_demand = PROOF if prove else ()
    checks = registry.load()
    names = select(checks, only, skip, collectives, usual=usual, on_demand=on_demand)
    sizes = {
        "minbytes": minbytes,
        "maxbytes": maxbytes,
        "stepfactor": stepfactor,
        "iters": iters,
        "warmup_iters": warmup_iters,
    }
    timed = timing(legs=legs or (), datatype=datatype, **sizes)
    which = {"only": only, "skip": skip, "collectives": collectives, "legs": legs, "engine": engine}
    over_hosts = multi_host_options(chosen, timed, {**which, **sizes})
    stop = threading.Event()
    connector = Connector(Deadlines(), stop, accept_new_host_keys=accept_new_host_keys)
    cluster = read_cluster(
        hosts,
        limit,
        extra_vars,
        connection,
        otherwise=this_machine(),
        checks=checks,
        reach=None if list_hosts else connector.prepare,
    )
    built = payload.build(payload_files())
    plan = make_plan(
        cluster,
        names if NODE in chosen else (),
        profile,
        limit=limit or "",
        force=force,
        timeout_s=timeout or None,
        duration_s=duration,
        load_dtype=load_dtype,
        timing=timed,
        engine=engine,
        payload_sha256=built.sha256,
        site=site_hashes(),
    )
    if list_hosts:
        list_names(cluster)
        return
    connector = connector.lasting(plan.timeout_s, plan.timeout_s)
    golden = golden_of(plan.hosts)
    if dry_run:
        scopes_over_hosts = [scope for scope in chosen if scope != NODE]
        reached = replace(plan, hosts=tuple(map(connector.as_reached, plan.hosts)))
        lines = preview(reached, checks, scopes_over_hosts, forks)
        emit("".join(f"{text}\n" for text in lines))
        return
    with Interrupts(stop) as interrupts:
        folder = RunFolder.create(runs, plan.meta)
        save_site(folder.path)
        folder.write_golden(golden)
        if NODE in chosen:
            with Progress(len(plan.hosts), forks=forks, verbose=verbose) as progress:
                where = (plan.hosts, plan.requests, built, folder, connector)
                fan_out(*where, forks=forks, progress=progress)
            make_second_visits(plan, built, folder, connector, forks=forks, verbose=verbose)
        run_multi_host(
            chosen, over_hosts, plan, built, folder, connector.lasting(), verbose=verbose
        )
        interrupts.visits_over()
        folder.finish(interrupted=stop.is_set())
        exit_code = show(folder.path, as_json=as_json, required_percent=require_coverage)
        try:
            link_latest(folder.path)
        except OSError as error:  # a file system without links, a folder of that name
            say(f"hwcheck: {folder.path.parent / LATEST}: {error.strerror}")
    end(exit_code)
