"""``--scope``: what a run is about, single nodes or several at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hwcheck.errors import UsageError
from hwcheck.node.wire import COLLECTIVES, Timing
from hwcheck.results.multi_host import SCOPES
from hwcheck.run.multi_host.orders import MultiHostOptions
from hwcheck.run.multi_host.settings import MULTI_HOST_LEGS
from hwcheck.tasks.flags import ALL, PROOF, USUAL, select, split

NODE = "node"
SIZE_FLAGS = ("minbytes", "maxbytes", "stepfactor")
MOST_ITERATIONS = 1000
"""Of a run over hosts: every host tells the time of each."""


def scopes(text: str | None) -> tuple[str, ...]:
    """Return the scopes that ``--scope`` names, ``node`` where it is not given.

    Raises UsageError.
    """
    return tuple(split("--scope", text, (NODE, *SCOPES), "scope", "measure each node")) or (NODE,)


def of_nodes(
    chosen: Sequence[str],
    checks: Iterable[str],
    only: str | None,
    skip: str | None,
    collectives: str | None,
    profile: str,
    *,
    prove: bool,
) -> tuple[str, ...]:
    """Return the checks of single nodes, none where ``node`` is no scope. Raises UsageError."""
    if prove and NODE not in chosen:
        raise UsageError("--prove: it is about single nodes; add node to --scope")
    usual = USUAL if profile == "quick" else COLLECTIVES
    on_demand = PROOF if prove else ()
    names = select(checks, only, skip, collectives, usual=usual, on_demand=on_demand)
    return names if NODE in chosen else ()


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
