"""``hwcheck explain``: what logs of other tools say, and what they prove together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from hwcheck.cli.command import command, fab_task, flag, option, word
from hwcheck.cli.output import emit, rendered
from hwcheck.cli.values import split
from hwcheck.contract.wire import LEG_NAMES
from hwcheck.errors import UsageError
from hwcheck.explain.explain import explain as read
from hwcheck.explain.recommendation import recommend
from hwcheck.explain.records import Entry
from hwcheck.explain.sources import files, source
from hwcheck.report.explained import explained

__getattr__ = fab_task(__name__)

OTHER_LEGS = tuple(name for name in LEG_NAMES if name != "default")


@command(
    "explain",
    examples=(
        "hwcheck explain all_reduce.log",
        "hwcheck explain all_reduce.log --leg p2p_off=off.log --topology topo.txt",
        "hwcheck explain logs/ --json",
    ),
)
@word(
    "path",
    type=click.Path(),
    metavar="PATH",
    help="a log of nccl-tests, NCCL or the kernel, output of nvidia-smi topo, or a folder of these",
)
@option(
    "--leg",
    multiple=True,
    metavar="LEG=FILE",
    help="the log of another leg of the same node, p2p_off=FILE, or a folder with its logs; may "
    f"stand several times. PATH is the leg default; the others are {', '.join(OTHER_LEGS)}",
)
@option(
    "--topology",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="output of nvidia-smi topo -m of that node, for the recommendation",
)
@flag("--json", "as_json", help="print it as JSON on stdout")
def cli(*, path: str, leg: Sequence[str], topology: str | None, as_json: bool) -> None:
    """Say what logs of nccl-tests, NCCL, the kernel and topo show; with --leg, what to set."""
    if not path.strip():  # an unset variable in a script must not read the whole folder
        raise UsageError("the path is empty; name a log, or a folder with logs")
    if topology is not None and not topology.strip():
        raise UsageError("--topology is empty; name a file, or leave --topology out")
    legs = _legs(leg)
    default = _entries(Path(path))
    others = {name: _entries(file) for name, file in legs.items()}
    matrices = read(source(Path(topology))) if topology else []
    recommendation = recommend(default, others, [*matrices, *default]) if others else None
    entries = [*default, *(entry for entries in others.values() for entry in entries), *matrices]
    if as_json:
        listed = [entry.to_dict() for entry in entries]
        listed += [{"recommendation": recommendation.to_dict()}] if recommendation else []
        text = json.dumps(listed, indent=1, allow_nan=False) + "\n"
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
