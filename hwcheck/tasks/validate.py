"""``fab validate``: measure every host of an inventory, judge, render."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from invoke import Context

from hwcheck.accept.golden import golden_of
from hwcheck.connect import payload
from hwcheck.connect.connector import Connector
from hwcheck.connect.deadlines import Deadlines
from hwcheck.errors import UsageError
from hwcheck.inventory.defaults import NO_FLAGS, ConnectionFlags
from hwcheck.node.wire import COLLECTIVES, LOAD_DTYPES
from hwcheck.results.folders import LATEST, link_latest
from hwcheck.results.run_folder import RunFolder
from hwcheck.run.fan_out import fan_out
from hwcheck.run.plan import ENGINES, PROFILES, make_plan
from hwcheck.run.preview import preview
from hwcheck.tasks.command import end, reaching_command
from hwcheck.tasks.flags import (
    COVERAGE_HELP,
    PROOF,
    REACHING_HELP,
    USUAL,
    list_names,
    one_of,
    out_folder,
    percent,
    read_cluster,
    seconds,
    select,
    this_machine,
    timing,
    whole,
)
from hwcheck.tasks.interrupts import Interrupts
from hwcheck.tasks.outcome import show
from hwcheck.tasks.output import emit, say
from hwcheck.tasks.progress import Progress
from hwcheck.tasks.scope import NODE, multi_host_options, run_multi_host, scopes
from hwcheck.tasks.second_visit import make_second_visits
from hwcheck.tasks.site_option import (
    SITE_HELP,
    all_checks,
    payload_files,
    save_site,
    site_hashes,
    with_site,
)

if TYPE_CHECKING:
    from hwcheck.site.additions import Additions


@reaching_command(
    optional=["require_coverage"],
    help={
        "hosts": f"{REACHING_HELP['hosts']}, or else this machine",
        "only": "comma-separated checks to run (see `checks`)",
        "skip": "comma-separated checks to leave out",
        "collectives": "comma-separated all_reduce, alltoall, all_gather, reduce_scatter, "
        "broadcast, sendrecv, or all (default: the first two, in longer profiles all; over several "
        "hosts all_reduce)",
        "legs": "comma-separated NCCL environments default, p2p_off, net, nvlink_only, p2p_sys, "
        "site (default: those that can differ on the node; over hosts one of site and default, "
        "site where a host has NCCL settings)",
        "engine": "what times the collectives: torch (default), or nccl-tests, whose programs are "
        "in hwcheck_nccl_tests_dir",
        "minbytes": "smallest size of a collective, as in nccl-tests (default 1M)",
        "maxbytes": "largest size, as in nccl-tests, as far as time and memory allow (default 1G)",
        "stepfactor": "from one size to the next, as in nccl-tests (default 2)",
        "iters": "timed iterations of each size, as in nccl-tests (default 20)",
        "warmup-iters": "iterations before them, as in nccl-tests (default 5)",
        "datatype": "float or bfloat16, as in nccl-tests (default float)",
        "scope": "comma-separated node (default), pairs (every two hosts), all (the whole set), "
        "rails (the same GPU of every host)",
        "profile": "quick (default; about a minute of load per node), standard or burn_in",
        "duration": "how long burn_in loads the GPUs: 90m, 8h, or seconds (default: 1h)",
        "load-dtype": "matrices of the load: auto (default: the fastest that trains), bf16, fp16, "
        "tf32 or fp32",
        "forks": "hosts visited at once (default 32)",
        "timeout": "seconds that one host's visit may take (default: as the profile says)",
        "out": "folder in which the run folder is made (default: runs)",
        "dry-run": "say what would run where, what it needs and how long it takes; reach no host",
        "force": "load nodes that are at work",
        "prove": "also break collectives on purpose (about a minute) and see that it is noticed",
        **COVERAGE_HELP,
        **SITE_HELP,
        "json": "print a machine-readable summary on stdout",
        "verbose": "say what every host is doing",
    },
)
@with_site
def validate(
    ctx: Context,  # noqa: ARG001 - invoke hands every task its context
    hosts: str | None = None,
    limit: str | None = None,
    extra_vars: Sequence[str] | None = None,
    only: str | None = None,
    skip: str | None = None,
    collectives: str | None = None,
    legs: str | None = None,
    engine: str = ENGINES[0],
    minbytes: str = "",
    maxbytes: str = "",
    stepfactor: str = "",
    iters: str = "",
    warmup_iters: str = "",
    datatype: str = "",
    scope: str | None = None,
    profile: str = "quick",
    duration: str = "",
    load_dtype: str = LOAD_DTYPES[0],
    forks: str = "32",
    timeout: str = "0",
    out: str = "runs",
    list_hosts: bool = False,
    dry_run: bool = False,
    force: bool = False,
    prove: bool = False,
    accept_new_host_keys: bool = False,
    require_coverage: str | None = None,
    site: str | None = None,  # noqa: ARG001 - with_site takes it
    json: bool = False,
    verbose: bool = False,
    connection: ConnectionFlags = NO_FLAGS,
    *,
    additions: Additions | None,
) -> None:
    """Measure every host of an inventory; say which can be trusted and which NCCL settings fit."""
    runs = out_folder(out)
    one_of("--profile", profile, PROFILES)
    one_of("--engine", engine, ENGINES)
    one_of("--load-dtype", load_dtype, LOAD_DTYPES)
    at_once, timeout_s = whole("--forks", forks, 1), whole("--timeout", timeout, 0)
    duration_s = seconds("--duration", duration) if duration else None
    usual = USUAL if profile == "quick" else COLLECTIVES
    chosen, required = scopes(scope), percent(require_coverage)
    if prove and NODE not in chosen:
        raise UsageError("--prove: it is about single nodes; add node to --scope")
    on_demand = PROOF if prove else ()
    checks = all_checks(additions)
    names = select(checks, only, skip, collectives, usual=usual, on_demand=on_demand)
    sizes = {
        "minbytes": minbytes,
        "maxbytes": maxbytes,
        "stepfactor": stepfactor,
        "iters": iters,
        "warmup_iters": warmup_iters,
    }
    timed = timing(legs=legs, datatype=datatype, **sizes)
    which = {"only": only, "skip": skip, "collectives": collectives, "legs": legs, "engine": engine}
    over_hosts = multi_host_options(chosen, timed, {**which, **sizes})
    stop = threading.Event()
    connector = Connector(Deadlines(), stop, accept_new_host_keys=accept_new_host_keys)
    cluster = read_cluster(
        hosts,
        limit,
        extra_vars or (),
        connection,
        otherwise=this_machine(),
        checks=checks,
        reach=None if list_hosts else connector.prepare,
    )
    built = payload.build(payload_files(additions))
    plan = make_plan(
        cluster,
        names if NODE in chosen else (),
        profile,
        limit=limit or "",
        force=force,
        timeout_s=timeout_s or None,
        duration_s=duration_s,
        load_dtype=load_dtype,
        timing=timed,
        engine=engine,
        payload_sha256=built.sha256,
        site=site_hashes(additions),
    )
    if list_hosts:
        list_names(cluster)
        return
    connector = connector.lasting(plan.timeout_s, plan.timeout_s)
    golden = golden_of(plan.hosts)
    if dry_run:
        scopes_over_hosts = [scope for scope in chosen if scope != NODE]
        reached = replace(plan, hosts=tuple(map(connector.as_reached, plan.hosts)))
        lines = preview(reached, checks, scopes_over_hosts, at_once)
        emit("".join(f"{text}\n" for text in lines))
        return
    with Interrupts(stop) as interrupts:
        folder = RunFolder.create(runs, plan.meta)
        save_site(additions, folder.path)
        folder.write_golden(golden)
        if NODE in chosen:
            with Progress(len(plan.hosts), forks=at_once, verbose=verbose) as progress:
                where = (plan.hosts, plan.requests, built, folder, connector)
                fan_out(*where, forks=at_once, progress=progress)
            make_second_visits(plan, built, folder, connector, forks=at_once, verbose=verbose)
        run_multi_host(
            chosen, over_hosts, plan, built, folder, connector.lasting(), verbose=verbose
        )
        interrupts.visits_over()
        folder.finish(interrupted=stop.is_set())
        exit_code = show(folder.path, additions, as_json=json, required_percent=required)
        try:
            link_latest(folder.path)
        except OSError as error:  # a file system without links, a folder of that name
            say(f"hwcheck: {folder.path.parent / LATEST}: {error.strerror}")
    end(exit_code)
