"""``hwcheck train``: what a training step costs by strategy, and what a lost link costs it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from hwcheck.cli.command import end, fab_task, flag, group, option
from hwcheck.cli.display import display
from hwcheck.cli.flags import (
    HOSTS_HELP,
    force_flag,
    json_flag,
    list_names,
    out_flag,
    reaching,
    read_cluster,
    this_machine,
)
from hwcheck.cli.interrupts import Interrupts
from hwcheck.cli.outcome import show
from hwcheck.cli.values import Names, Numbers, OneOf, Whole
from hwcheck.connect import payload
from hwcheck.errors import UsageError
from hwcheck.inventory.defaults import ConnectionFlags
from hwcheck.node.training.strategies import NAMES
from hwcheck.results.options import LAUNCHERS, TRAINING_DTYPES, Options, TrainingOptions
from hwcheck.run.measure import RunLimits, connector_of, measure
from hwcheck.run.plan import make_plan
from hwcheck.run.training.models import read_model
from hwcheck.run.training.orders import LEGS
from hwcheck.text import count

__getattr__ = fab_task(__name__)

SCOPES = ("node", "all")
SWITCH = ("on", "off")
P2P = {"both": ("default", "p2p_off"), "on": ("default",), "off": ("p2p_off",), "net": tuple(LEGS)}


@group("train")
def cli() -> None:
    """Time training steps on every host of an inventory, by every strategy, and compare losses."""


@cli.command(
    "bench",
    examples=(
        "hwcheck train bench --hosts cluster.yml",
        "hwcheck train bench -i cluster.yml --scope all --strategies ddp,zero3",
        "hwcheck train bench --hosts cluster.yml --launcher slurm --ranks 4,8 --p2p net",
    ),
)
@option(
    "--scope",
    type=OneOf(SCOPES),
    default=SCOPES[0],
    help="node (default): each node by itself; all: the hosts together",
)
@option(
    "--launcher",
    type=OneOf(LAUNCHERS),
    default=LAUNCHERS[0],
    help="what reaches the hosts: ssh (default), or slurm: srun, each host a job of its own or, "
    "within salloc, a step of that job",
)
@option(
    "--strategies",
    type=Names("strategy", lambda: NAMES, "train by all"),
    help=f"{', '.join(NAMES)} (default: all)",
)
@option(
    "--model",
    metavar="MODEL",
    help="gpt2, mini, tiny, or a config.json (default: gpt2; tiny where no host has a GPU)",
)
@option(
    "--ranks",
    type=Numbers(),
    help="numbers of ranks (default: all GPUs; 2 where there is none)",
)
@option(
    "--steps", type=Whole(1, 10_000), default=40, help="timed steps of a repetition (default 40)"
)
@option(
    "--repeats", type=Whole(1, 100), default=5, help="repetitions, leg by leg in turns (default 5)"
)
@option("--warmup", type=Whole(0, 10_000), help="steps before them (default 10; 2 on CPUs)")
@option("--dtype", type=OneOf(TRAINING_DTYPES), help="bf16 (default; fp32 on CPUs) or fp32")
@option(
    "--tf32", type=OneOf(SWITCH), default=SWITCH[0], help="on (default) or off, with --dtype fp32"
)
@option(
    "--p2p",
    type=OneOf(tuple(P2P)),
    default="both",
    help="both (default): with P2P and without; on, off; net: the network alone as well",
)
@option(
    "--micro-batch",
    type=Whole(1),
    help="sequences that a GPU goes through at once (default 4; 1 on CPUs)",
)
@option(
    "--global-batch",
    type=Whole(1),
    help="sequences of a step over all ranks (default: a micro-batch for each)",
)
@flag("--prove", help="also train wrong on purpose and see that it is noticed")
@out_flag
@force_flag
@json_flag
@reaching(
    f"{HOSTS_HELP}, or else this machine",
    forks=None,
    forks_help="refuse to train on more hosts than this; all of them are held at once",
)
def bench(
    *,
    hosts: str | None,
    limit: str | None,
    extra_vars: Sequence[str],
    scope: str,
    launcher: str,
    strategies: Sequence[str] | None,
    model: str | None,
    ranks: Sequence[int] | None,
    steps: int,
    repeats: int,
    warmup: int | None,
    dtype: str | None,
    tf32: str,
    p2p: str,
    micro_batch: int | None,
    global_batch: int | None,
    prove: bool,
    out: str,
    list_hosts: bool,
    force: bool,
    forks: int | None,
    accept_new_host_keys: bool,
    as_json: bool,
    verbose: bool,
    connection: ConnectionFlags,
) -> None:
    """Time training steps by strategy, with P2P and without."""
    if launcher == "slurm" and accept_new_host_keys:
        raise UsageError("--accept-new-host-keys: Slurm reaches hosts without SSH; leave it out")
    named = {"model": model, "dtype": dtype, "micro_batch": micro_batch, "warmup": warmup}
    training = TrainingOptions(
        model=read_model(model or ""),
        strategies=tuple(strategies or NAMES),
        legs=P2P[p2p],
        ranks=tuple(ranks or ()),
        steps=steps,
        repeats=repeats,
        warmup=10 if warmup is None else warmup,
        micro_batch=micro_batch or 4,
        global_batch=global_batch or 0,
        dtype=dtype or TRAINING_DTYPES[0],
        tf32=tf32 == "on",
        prove=prove,
        named=tuple(name for name, value in named.items() if value is not None),
    )
    for number in training.ranks:
        problem = training.batch_problem(number)
        if problem:
            raise UsageError(f"--global-batch {global_batch}: {problem}")
    options = Options(
        scopes=("all",) if scope == "all" else (),
        training=training,
        force=force,
        launcher=launcher,
        accept_new_host_keys=accept_new_host_keys,
    )
    stop = threading.Event()
    connector = connector_of(options, stop)
    cluster = read_cluster(
        hosts,
        limit,
        extra_vars,
        connection,
        otherwise=this_machine(),
        reach=None if list_hosts else connector.prepare,
    )
    if list_hosts:
        list_names(cluster)
        return
    if forks is not None and forks < len(cluster.hosts):
        held = f"training holds its {count(len(cluster.hosts), 'host')} at once"
        raise UsageError(f"--forks {forks}: {held}; choose fewer with --limit")
    plan = make_plan(options, cluster, payload.build())
    with Interrupts(stop) as interrupts:
        limits = RunLimits(interrupts.visits_over)
        path = measure(plan, Path(out), connector, display(verbose=verbose), limits)
        exit_code = show(path, None, as_json=as_json)
    end(exit_code)
