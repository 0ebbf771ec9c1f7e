"""``--scope``: what a run is about, single nodes or several at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hwcheck import checks as registry
from hwcheck.cli.command import option
from hwcheck.cli.flags import ALL, PROOF, USUAL, select
from hwcheck.cli.values import Names, Words
from hwcheck.contract.wire import COLLECTIVES, Timing
from hwcheck.errors import UsageError
from hwcheck.results.options import SCOPES, MultiHostOptions
from hwcheck.run.multi_host.settings import MULTI_HOST_LEGS

NODE = "node"
SIZE_FLAGS = ("minbytes", "maxbytes", "stepfactor")
MOST_ITERATIONS = 1000
"""Of a run over hosts: every host tells the time of each."""


def _checks() -> list[str]:
    return [*registry.load()]


only_flag = option("--only", type=Words("check", _checks), help="checks to run (see `checks`)")
skip_flag = option("--skip", type=Words("check", _checks), help="checks to leave out")
scope_flag = option(
    "--scope",
    type=Names("scope", lambda: (NODE, *SCOPES), "measure each node"),
    default=(NODE,),
    help="node (default), pairs (every two hosts), all (the whole set), rails (the same GPU of "
    "every host)",
)
collectives_flag = option(
    "--collectives",
    type=Names("collective", lambda: (*COLLECTIVES, ALL), "time the usual"),
    help=f"{', '.join(COLLECTIVES)}, or all (default: the first two, in longer profiles all; over "
    "several hosts all_reduce)",
)


def of_nodes(
    chosen: Sequence[str],
    checks: Iterable[str],
    only: str | None,
    skip: str | None,
    collectives: Sequence[str] | None,
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
    flags: Mapping[str, Any],
) -> MultiHostOptions:
    """Return what the flags ask of runs over hosts; ``flags`` are their values by name.

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
        legs_over_hosts = ", ".join(MULTI_HOST_LEGS)
        legs_named = ",".join(timed.legs)
        raise UsageError(f"--legs {legs_named}: a run over hosts takes one of {legs_over_hosts}")
    if flags["iters"] and timed.iterations > MOST_ITERATIONS:
        raise UsageError(f"--iters {timed.iterations}: at most {MOST_ITERATIONS} over hosts")
    names = flags["collectives"] or ()
    return MultiHostOptions(
        collectives=COLLECTIVES if ALL in names else names or COLLECTIVES[:1],
        sizes=timed.sizes if any(flags[name] is not None for name in SIZE_FLAGS) else (),
        iterations=timed.iterations if flags["iters"] is not None else None,
        warmups=timed.warmups if flags["warmup_iters"] is not None else None,
        dtype=timed.dtype,
        leg=legs[0] if legs else "",
    )
