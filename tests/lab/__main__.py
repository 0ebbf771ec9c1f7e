"""``python -m tests.lab up|down``: a lab that stays until it is taken down.

There is one in a slot: ``up`` replaces the one that stands there. ``up`` prints the path of the
inventory; everything else goes to stderr.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.lab.lab import Lab
from tests.lab.namespaces import why_not
from tests.lab.network import LAST, STANDING
from tests.lab.scenarios_on_nodes import prepare
from tests.lab.standing import BusyError, down, up
from tests.lab.tree_writer import ScenarioError

NODES_MAX = 200


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 done, 2 not possible (stderr says why)."""
    options = parser().parse_args(arguments)
    problem = why_not()
    if problem:
        print(f"no lab can be built here: {problem}", file=sys.stderr)
        return 2
    try:
        if options.command == "down":
            down(options.slot)
        else:
            print(_up(options))
    except (BusyError, RuntimeError, ScenarioError) as error:
        print(f"lab: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def _up(options: argparse.Namespace) -> Path:
    names = [f"node{number:02}" for number in range(1, options.nodes + 1)]
    rates, faults = dict(options.rate), dict(options.fault)
    for name in rates.keys() | faults.keys():
        if name not in names:
            raise RuntimeError(f"no node {name}; the nodes are {names[0]} to {names[-1]}")
    if faults and not options.scenario:
        raise RuntimeError("a --fault lies over a --scenario; name one")
    hook = prepare(options.scenario, faults) if options.scenario else None
    has_torch = importlib.util.find_spec("torch") is not None
    variables = {"hwcheck_torch_python": sys.executable} if has_torch else {}
    path = up(Lab(names, rates=rates, prepare=hook), options.slot, variables)
    slot = "" if options.slot == STANDING else f" --slot {options.slot}"
    for line in (
        f"{len(names)} hosts are up, {names[0]} to {names[-1]}; a lab that stood before is gone.",
        f"check them:   hwcheck validate --hosts {path}",
        f"log in:       ssh -F {path.with_name('ssh_config')} {names[0]}",
        f"remove them:  python -m tests.lab down{slot}",
    ):
        print(line, file=sys.stderr)
    return path


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    found = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    commands = found.add_subparsers(dest="command", required=True)
    build = commands.add_parser("up", help="build a lab and print its inventory")
    build.add_argument("--nodes", type=_nodes, default=2, help="how many hosts (default 2)")
    build.add_argument("--scenario", help="what every host is: a file, or the name of one of ours")
    for option, meaning in (
        ("fault", "a fault of the scenario on one host (node02=...)"),
        ("rate", "limit the link of one host (node02=50mbit)"),
    ):
        build.add_argument(
            f"--{option}", type=_pair, action="append", default=[], metavar="NODE=..", help=meaning
        )
    remove = commands.add_parser("down", help="remove it, and what dead processes left of others")
    for command in (build, remove):
        command.add_argument(
            "--slot",
            type=int,
            default=STANDING,
            choices=range(STANDING, LAST + 1),
            metavar="N",
            help=f"which lab, {STANDING} (the default) to {LAST}: each stands by itself",
        )
    return found


def _nodes(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= NODES_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {NODES_MAX}")
    return int(text)


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NODE=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
