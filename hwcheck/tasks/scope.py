"""``--scope``: what a run is about, single nodes or several at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hwcheck.connect.connector import Connector
from hwcheck.connect.payload import Payload
from hwcheck.errors import UsageError
from hwcheck.node.wire import COLLECTIVES, Timing
from hwcheck.results.multi_host import SCOPES
from hwcheck.results.run_folder import RunFolder
from hwcheck.run.multi_host.orders import MultiHostOptions
from hwcheck.run.multi_host.participants import Participants
from hwcheck.run.multi_host.scope_runner import ScopeRunner
from hwcheck.run.multi_host.settings import MULTI_HOST_LEGS
from hwcheck.run.plan import Plan
from hwcheck.tasks.flags import ALL, split
from hwcheck.tasks.output import say
from hwcheck.text import count

NODE = "node"
SIZE_FLAGS = ("minbytes", "maxbytes", "stepfactor")
MOST_ITERATIONS = 1000
"""Of a run over hosts: every host tells the time of each."""


def scopes(text: str | None) -> tuple[str, ...]:
    """Return the scopes that ``--scope`` names, ``node`` where it is not given.

    Raises UsageError.
    """
    return tuple(split("--scope", text, (NODE, *SCOPES), "scope", "measure each node")) or (NODE,)


def multi_host_options(
    chosen: Sequence[str],
    timed: Timing,
    flags: Mapping[str, str | None],
) -> MultiHostOptions:
    """Return what the flags ask of runs over hosts; ``flags`` are their texts by name.

    Raises UsageError for what has no effect on them.
    """
    if not set(chosen) - {NODE}:
        return MultiHostOptions()
    if flags["engine"] == "nccl-tests":
        raise UsageError("--engine nccl-tests: it times single nodes; leave --scope at node")
    if NODE not in chosen:
        for name in ("only", "skip"):
            if flags[name] is not None:
                raise UsageError(f"--{name}: it is about single nodes; add node to --scope")
    legs = [leg for leg in timed.legs if leg in MULTI_HOST_LEGS]
    if timed.legs and (len(legs) != 1 or (NODE not in chosen and len(timed.legs) > 1)):
        raise UsageError(
            f"--legs {flags['legs']}: a run over hosts takes one of {', '.join(MULTI_HOST_LEGS)}"
        )
    if flags["iters"] and timed.iterations > MOST_ITERATIONS:
        raise UsageError(f"--iters {timed.iterations}: at most {MOST_ITERATIONS} over hosts")
    every = (*COLLECTIVES, ALL)
    names = split("--collectives", flags["collectives"], every, "collective", "time all_reduce")
    return MultiHostOptions(
        collectives=COLLECTIVES if ALL in names else tuple(names) or COLLECTIVES[:1],
        sizes=timed.sizes if any(flags[name] for name in SIZE_FLAGS) else (),
        iterations=timed.iterations if flags["iters"] else None,
        warmups=timed.warmups if flags["warmup_iters"] else None,
        dtype=timed.dtype,
        leg=legs[0] if legs else "",
    )


def run_multi_host(
    chosen: Sequence[str],
    options: MultiHostOptions,
    plan: Plan,
    payload: Payload,
    folder: RunFolder,
    connector: Connector,
    *,
    verbose: bool,
) -> None:
    """Run the scopes that are over several hosts, and keep what became of them.

    Without checks to run, the visits of these runs are the hosts' records. The connector has been
    prepared with the hosts.
    """
    over_hosts = [scope for scope in chosen if scope != NODE]
    if not over_hosts or connector.supervisor.stop.is_set():
        return

    def tell(text: str) -> None:
        if verbose:
            say(text)

    say(f"hwcheck: {', '.join(over_hosts)} over {count(len(plan.hosts), 'host')}")
    members = Participants(plan.hosts, plan.requests, payload, connector, folder.append_log)
    with members:
        ScopeRunner(members, over_hosts, folder.path, tell, options=options).run()
    if NODE not in chosen:
        for answer in members.answers().values():
            folder.write_host(answer)
