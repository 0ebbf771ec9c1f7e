"""``fab explain``: what logs of other tools say, and what they prove together."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path

from invoke import Context

from hwcheck.errors import UsageError
from hwcheck.explain.explain import explain as read
from hwcheck.explain.recommendation import recommend
from hwcheck.explain.records import Entry
from hwcheck.explain.sources import files, source
from hwcheck.node.wire import LEG_NAMES
from hwcheck.render.explained import explained
from hwcheck.tasks.command import command
from hwcheck.tasks.flags import split
from hwcheck.tasks.output import emit, rendered

OTHER_LEGS = tuple(name for name in LEG_NAMES if name != "default")


@command(
    positional=["path"],
    iterable=["leg"],
    help={
        "path": "a log of nccl-tests, NCCL or the kernel, output of nvidia-smi topo, or a folder "
        "of these",
        "leg": "the log of another leg of the same node, p2p_off=FILE, or a folder with its logs; "
        f"may stand several times. PATH is the leg default; the others are {', '.join(OTHER_LEGS)}",
        "topology": "output of nvidia-smi topo -m of that node, for the recommendation",
        "json": "print it as JSON on stdout",
    },
)
def explain(
    ctx: Context,  # noqa: ARG001 - invoke hands every task its context
    path: str,
    leg: Sequence[str] | None = None,
    topology: str | None = None,
    json: bool = False,
) -> None:
    """Say what logs of nccl-tests, NCCL, the kernel and topo show; with --leg, what to set."""
    if not path.strip():  # an unset variable in a script must not read the whole folder
        raise UsageError("the path is empty; name a log, or a folder with logs")
    if topology is not None and not topology.strip():
        raise UsageError("--topology is empty; name a file, or leave --topology out")
    legs = _legs(leg or ())
    default = _entries(Path(path))
    others = {name: _entries(file) for name, file in legs.items()}
    matrices = read(source(Path(topology))) if topology else []
    recommendation = recommend(default, others, [*matrices, *default]) if others else None
    entries = [*default, *(entry for entries in others.values() for entry in entries), *matrices]
    if json:
        listed = [entry.to_dict() for entry in entries]
        listed += [{"recommendation": recommendation.to_dict()}] if recommendation else []
        text = json_format.dumps(listed, indent=1, allow_nan=False) + "\n"
    else:
        text = rendered(explained(entries, recommendation))
    emit(text)


def _entries(path: Path) -> list[Entry]:
    return [entry for each in files(path) for entry in read(each)]


def _legs(texts: Sequence[str]) -> dict[str, Path]:
    """Return the file of each leg. Raises UsageError."""
    legs: dict[str, Path] = {}
    for each in texts:
        name, equals, file = each.partition("=")
        if not equals or not file:
            raise UsageError(f"--leg {each}: it takes a leg and its log, such as p2p_off=off.txt")
        split("--leg", name, OTHER_LEGS, "leg", "compare nothing")
        if name in legs:
            raise UsageError(f"--leg {name} is given twice; name a folder with its logs")
        legs[name] = Path(file)
    return legs
