"""``fab validate``: measure every host of an inventory, judge, render."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from invoke import Context

from hwcheck.accept.golden import golden_of
from hwcheck.connect import payload
from hwcheck.connect.connector import Connector
from hwcheck.inventory.defaults import NO_FLAGS, ConnectionFlags
from hwcheck.node import checks as registry
from hwcheck.node.wire import LOAD_DTYPES
from hwcheck.results.folders import LATEST, link_latest
from hwcheck.run.measure import RunLimits, connector_of, measure
from hwcheck.run.options import ENGINES, Options
from hwcheck.run.plan import PROFILES, Plan, make_plan
from hwcheck.run.preview import preview
from hwcheck.tasks.command import end, reaching_command
from hwcheck.tasks.display import display
from hwcheck.tasks.flags import (
    COVERAGE_HELP,
    REACHING_HELP,
    list_names,
    one_of,
    out_folder,
    percent,
    read_cluster,
    seconds,
    this_machine,
    timing,
    whole,
)
from hwcheck.tasks.interrupts import Interrupts
from hwcheck.tasks.outcome import show
from hwcheck.tasks.output import emit, say
from hwcheck.tasks.scope import NODE, multi_host_options, of_nodes, scopes
from hwcheck.tasks.site_option import SITE_HELP, payload_files, site_files, with_site

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
    checks, wanted = registry.load(), scopes(scope)
    sizes = {
        "minbytes": minbytes,
        "maxbytes": maxbytes,
        "stepfactor": stepfactor,
        "iters": iters,
        "warmup_iters": warmup_iters,
    }
    which = {"only": only, "skip": skip, "collectives": collectives, "legs": legs, "engine": engine}
    timed = timing(legs=legs, datatype=datatype, **sizes)
    options = Options(
        checks=of_nodes(wanted, checks, only, skip, collectives, profile, prove=prove),
        scopes=tuple(name for name in wanted if name != NODE),
        profile=profile,
        duration_s=seconds("--duration", duration) if duration else None,
        load_dtype=one_of("--load-dtype", load_dtype, LOAD_DTYPES),
        engine=one_of("--engine", engine, ENGINES),
        timing=timed,
        over_hosts=multi_host_options(wanted, timed, {**which, **sizes}),
        force=force,
        forks=whole("--forks", forks, 1),
        timeout_s=whole("--timeout", timeout, 0) or None,
        accept_new_host_keys=accept_new_host_keys,
        require_coverage_percent=percent(require_coverage),
    )
    stop = threading.Event()
    connector = connector_of(options, stop)
    reach = None if list_hosts else connector.prepare
    cluster = read_cluster(
        *(hosts, limit, extra_vars or (), connection),
        otherwise=this_machine(),
        checks=checks,
        reach=reach,
    )
    if list_hosts:
        list_names(cluster)
        return
    built, golden = payload.build(payload_files()), golden_of(cluster.hosts)
    plan = make_plan(options, cluster, built, site=site_files(), golden=golden)
    if dry_run:
        reached = replace(plan, hosts=tuple(map(connector.as_reached, plan.hosts)))
        emit("".join(f"{text}\n" for text in preview(reached, checks)))
        return
    end(carry_out(plan, runs, connector, as_json=json, verbose=verbose))


def carry_out(
    plan: Plan, runs: Path, connector: Connector, *, as_json: bool = False, verbose: bool
) -> int:
    """Measure what is planned, show it, point ``latest`` at it, and return the exit code."""
    with Interrupts(connector.supervisor.stop) as interrupts:
        limits = RunLimits(interrupts.visits_over)
        path = measure(plan, runs, connector, display(verbose=verbose), limits)
        required_percent = plan.options.require_coverage_percent
        exit_code = show(path, as_json=as_json, required_percent=required_percent)
        try:
            link_latest(path)
        except OSError as error:  # a file system without links, a folder of that name
            say(f"hwcheck: {path.parent / LATEST}: {error.strerror}")
    return exit_code
