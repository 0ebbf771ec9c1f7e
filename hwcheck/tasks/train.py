"""``fab train``: what a training step costs by strategy, and what a lost link costs it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from invoke import Context

from hwcheck.connect import payload
from hwcheck.errors import UsageError
from hwcheck.inventory.defaults import NO_FLAGS, ConnectionFlags
from hwcheck.node.training.strategies import NAMES
from hwcheck.run.measure import RunLimits, connector_of, measure
from hwcheck.run.options import LAUNCHERS, Options
from hwcheck.run.plan import make_plan
from hwcheck.run.training.models import read_model
from hwcheck.run.training.options import LEGS, TrainingOptions
from hwcheck.tasks.command import end, reaching_command
from hwcheck.tasks.display import display
from hwcheck.tasks.flags import (
    HELP,
    REACHING_HELP,
    list_names,
    one_of,
    out_folder,
    read_cluster,
    split,
    this_machine,
    whole,
)
from hwcheck.tasks.interrupts import Interrupts
from hwcheck.tasks.outcome import show

ACTIONS = ("bench",)
SCOPES = ("node", "all")
DTYPES = ("bf16", "fp32")
SWITCH = ("on", "off")
P2P = {"both": ("default", "p2p_off"), "on": ("default",), "off": ("p2p_off",), "net": tuple(LEGS)}
MOST = {"steps": 10_000, "repeats": 100, "warmup": 10_000}


@reaching_command(
    positional=["action"],
    help={
        "action": "bench: time training steps by strategy, with P2P and without",
        "hosts": f"{REACHING_HELP['hosts']}, or else this machine",
        "scope": "node (default): each node by itself; all: the hosts together",
        "launcher": "what reaches the hosts: ssh (default), or slurm: srun, each host a job of "
        "its own or, within salloc, a step of that job",
        "strategies": f"comma-separated {', '.join(NAMES)} (default: all)",
        "model": "gpt2, mini, tiny, or a config.json (default: gpt2; tiny where no host has a GPU)",
        "ranks": "comma-separated numbers of ranks (default: all GPUs; 2 where there is none)",
        "steps": "timed steps of a repetition (default 40)",
        "repeats": "repetitions, leg by leg in turns (default 5)",
        "warmup": "steps before them (default 10; 2 on CPUs)",
        "dtype": "bf16 (default; fp32 on CPUs) or fp32",
        "tf32": "on (default) or off, with --dtype fp32",
        "p2p": "both (default): with P2P and without; on, off; net: the network alone as well",
        "micro-batch": "sequences that a GPU goes through at once (default 4; 1 on CPUs)",
        "global-batch": "sequences of a step over all ranks (default: a micro-batch for each)",
        "prove": "also train wrong on purpose and see that it is noticed",
        "out": HELP["out"],
        "force": "load nodes that are at work",
        "json": "print a machine-readable summary on stdout",
        "verbose": "say what every host is doing",
    },
)
def train(
    ctx: Context,  # noqa: ARG001 - invoke hands every task its context
    action: str,
    hosts: str | None = None,
    limit: str | None = None,
    extra_vars: Sequence[str] | None = None,
    scope: str = SCOPES[0],
    launcher: str = LAUNCHERS[0],
    strategies: str | None = None,
    model: str = "",
    ranks: str = "",
    steps: str = "40",
    repeats: str = "5",
    warmup: str = "",
    dtype: str = "",
    tf32: str = SWITCH[0],
    p2p: str = "both",
    micro_batch: str = "",
    global_batch: str = "",
    prove: bool = False,
    out: str = "runs",
    list_hosts: bool = False,
    force: bool = False,
    accept_new_host_keys: bool = False,
    json: bool = False,
    verbose: bool = False,
    connection: ConnectionFlags = NO_FLAGS,
) -> None:
    """Time training steps on every host of an inventory, by every strategy, and compare losses."""
    one_of("train", action, ACTIONS)
    runs = out_folder(out)
    one_of("--scope", scope, SCOPES)
    one_of("--launcher", launcher, LAUNCHERS)
    if launcher == "slurm" and accept_new_host_keys:
        raise UsageError("--accept-new-host-keys: Slurm reaches hosts without SSH; leave it out")
    one_of("--p2p", p2p, P2P)
    one_of("--tf32", tf32, SWITCH)
    one_of("--dtype", dtype or DTYPES[0], DTYPES)
    named = split("--strategies", strategies, NAMES, "strategy", "train by all")
    flags = {"model": model, "dtype": dtype, "micro_batch": micro_batch, "warmup": warmup}
    training = TrainingOptions(
        model=read_model(model),
        strategies=tuple(named) or NAMES,
        legs=P2P[p2p],
        ranks=tuple(whole("--ranks", part.strip(), 1) for part in ranks.split(",") if ranks),
        steps=_at_most("steps", steps, 1),
        repeats=_at_most("repeats", repeats, 1),
        warmup=_at_most("warmup", warmup or "10", 0),
        micro_batch=whole("--micro-batch", micro_batch or "4", 1),
        global_batch=whole("--global-batch", global_batch, 1) if global_batch else 0,
        dtype=dtype or DTYPES[0],
        tf32=tf32 == "on",
        prove=prove,
        named=tuple(name for name, text in flags.items() if text),
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
        extra_vars or (),
        connection,
        otherwise=this_machine(),
        reach=None if list_hosts else connector.prepare,
    )
    if list_hosts:
        list_names(cluster)
        return
    plan = make_plan(options, cluster, payload.build())
    with Interrupts(stop) as interrupts:
        limits = RunLimits(interrupts.visits_over)
        path = measure(plan, runs, connector, display(verbose=verbose), limits)
        exit_code = show(path, None, as_json=json)
    end(exit_code)


def _at_most(name: str, text: str, least: int) -> int:
    number = whole(f"--{name}", text, least)
    if number > MOST[name]:
        raise UsageError(f"--{name} {number}: at most {MOST[name]}")
    return number
