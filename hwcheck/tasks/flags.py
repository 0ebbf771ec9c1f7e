"""Flags of the commands: their help, and from their text to what it means.

Invoke's conversions answer a wrong word with a traceback; here it is a UsageError.
"""

from __future__ import annotations

import difflib
import getpass
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hwcheck import shipped
from hwcheck.errors import UsageError
from hwcheck.inventory.defaults import NO_FLAGS, ConnectionFlags
from hwcheck.node.checks import ON_DEMAND
from hwcheck.node.checks.gate_proof import gate_proof
from hwcheck.node.wire import COLLECTIVES, DTYPES, LEG_NAMES, Timing
from hwcheck.tasks.output import emit, say
from hwcheck.text import binary_size

if TYPE_CHECKING:
    from hwcheck.inventory.inventory import Cluster, Host
    from hwcheck.node.check import Check

HELP = {
    "playbook": "a playbook file, or one that hwcheck brings (default: its site.yml)",
    "tags": "comma-separated tags; every role has its own name as one",
    "check": "change nothing, say what would change",
    "diff": "show the differences in files",
    "forks": "hosts at once (default 32)",
    "out": "folder in which the run folder is made (default: runs)",
    "verbose": "also say what did not change",
}
"""The flags of state, provision and rollout."""
REACHING_HELP = {
    "hosts": "Ansible inventory (file, folder or script), or hosts as node1,node[02-04] (default: "
    "the inventory that ansible.cfg names)",
    "limit": "Ansible pattern of hosts (h100:!node03), hosts as hwcheck prints them (node[02-03]), "
    "or @FILE with a host a line",
    "extra-vars": "variables that come before the inventory's: key=value, YAML or JSON, or @FILE",
    "user": "log in as this user where the inventory does not say so",
    "ask-pass": "ask for the password of the login; without a terminal it is read from stdin",
    "become": "become another user where the inventory does not say so",
    "become-user": "that user (default: root)",
    "ask-become-pass": "ask for sudo's password; without a terminal it is read from stdin",
    "accept-new-host-keys": "take the host key of a host never met (a changed key never)",
    "list-hosts": "print the names of the hosts, and do nothing else",
}
"""The flags of commands that reach hosts, as Ansible has them."""
COVERAGE_HELP = {
    "require-coverage": "percent of the applicable checks that each host must have measured "
    "(without a value 100); with less the exit code is 3, or 1 where something failed",
}

UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
MOST_DIGITS = 9
"""More than any count or number of seconds here has, and far from where Python refuses."""

USUAL = COLLECTIVES[:2]
"""Collectives that are timed without --collectives: what P2P must be decided by."""

ALL = "all"
PROOF = (gate_proof.id,)
"""Checks about hwcheck and not about the node; ``--prove`` asks for them."""

LEAST_BYTES, MOST_BYTES = 8, 64 << 30
"""nccl-tests' own examples begin at 8 bytes (README.md)."""
MOST_REPETITIONS = 100_000
MOST_FACTOR = 1024

SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([KMGkmg]?)B?")
"""A size as nccl-tests takes it."""
_SCALE = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def out_folder(out: str, usual: str = "runs") -> Path:
    """Return the folder of ``--out``. Raises UsageError where it is empty: an unset variable."""
    if not out.strip():
        raise UsageError(f"--out is empty; name a folder, or leave --out out for {usual}")
    return Path(out)


def whole(flag: str, text: str, least: int) -> int:
    """Return the whole number of a flag, ``least`` or more. Raises UsageError."""
    if not text.isdecimal() or len(text) > MOST_DIGITS or int(text) < least:
        most = f", of at most {MOST_DIGITS} digits" if len(text) > MOST_DIGITS else ""
        raise UsageError(f"{flag} {text[:40]}: it takes a whole number from {least}{most}")
    return int(text)


def seconds(flag: str, text: str) -> float:
    """Return the seconds of a duration: ``90``, ``90s``, ``45m``, ``8h``. Raises UsageError."""
    number, unit = text.rstrip("smh"), text.lstrip("0123456789.")
    try:
        length_s = float(number) * UNITS_S[unit]
    except (ValueError, KeyError):
        length_s = 0.0
    if not 1.0 <= length_s < float("inf"):
        raise UsageError(f"{flag} {text}: it takes seconds, or 45m or 8h")
    return length_s


def one_of(flag: str, word: str, choices: Collection[str]) -> str:
    """Return the word of a flag. Raises UsageError where it is none of the choices."""
    if word not in choices:
        raise UsageError(f"{flag} {word}: it is one of {', '.join(choices)}")
    return word


def split(
    flag: str, text: str | None, choices: Sequence[str], noun: str, without: str
) -> list[str]:
    """Return the names of a flag, in the order of ``choices``; none without the flag.

    ``noun`` is what they name, ``without`` what happens without the flag. Raises UsageError.
    """
    if text is None:
        return []
    names = {part.strip() for part in text.split(",")} - {""}
    if not names:  # an unset variable in a script must not run everything
        raise UsageError(f"{flag} {text!r} names no {noun}; leave {flag} out to {without}")
    for name in sorted(names - set(choices)):
        near = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "known: " + ", ".join(choices)
        raise UsageError(f"{flag} {name}: no such {noun}; {hint}")
    return [name for name in choices if name in names]


def select(
    checks: Iterable[str],
    only: str | None,
    skip: str | None,
    collectives: str | None = None,
    *,
    usual: Sequence[str] = USUAL,
    on_demand: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return which of these checks to run, in their order.

    ``only``, ``skip`` and ``collectives`` are comma-separated, None where the flag is not given. A
    collective is a check of its name; without ``only`` and ``collectives`` those of ``usual`` are
    run. ``on_demand`` are checks to run besides. Raises UsageError for an unknown name, with the
    nearest, for a flag that names nothing, and when nothing is left.
    """
    ids = list(checks)
    wanted = split("--only", only, ids, "check", "run all")
    unwanted = split("--skip", skip, ids, "check", "run all")
    timed = split("--collectives", collectives, [*COLLECTIVES, ALL], "collective", "time the usual")
    if ALL in timed:
        timed = list(COLLECTIVES)
    if not wanted:
        of_node = [i for i in ids if i not in ON_DEMAND]
        wanted = [i for i in of_node if i not in COLLECTIVES or i in (timed or usual)]
    for both in [i for i in on_demand if i in unwanted]:
        raise UsageError(f"--skip {both}: another flag asks for it; give one of them")
    chosen = tuple(i for i in ids if i in {*wanted, *timed, *on_demand} and i not in unwanted)
    if not chosen:
        raise UsageError("--skip leaves no check to run")
    return chosen


def timing(
    *,
    legs: str | None,
    minbytes: str,
    maxbytes: str,
    stepfactor: str,
    iters: str,
    warmup_iters: str,
    datatype: str,
) -> Timing:
    """Return how collectives are timed by these flags of nccl-tests.

    An empty text is the default. Raises UsageError.
    """
    default = Timing()
    least = size("--minbytes", minbytes) if minbytes else default.min_bytes
    most = size("--maxbytes", maxbytes) if maxbytes else max(default.max_bytes, least)
    if not minbytes:
        least = min(least, most)
    if least > most:
        raise UsageError(f"--minbytes {minbytes}: it is more than --maxbytes {maxbytes}")
    if datatype:
        one_of("--datatype", datatype, DTYPES)
    return Timing(
        legs=tuple(split("--legs", legs, LEG_NAMES, "leg", "time all that can differ")),
        min_bytes=least,
        max_bytes=most,
        step_factor=_number("--stepfactor", stepfactor, default.step_factor, 2, MOST_FACTOR),
        iterations=_number("--iters", iters, default.iterations, 1, MOST_REPETITIONS),
        warmups=_number("--warmup-iters", warmup_iters, default.warmups, 0, MOST_REPETITIONS),
        dtype=datatype or default.dtype,
    )


def size(flag: str, text: str) -> int:
    """Return the bytes of a size as nccl-tests takes it: ``1048576``, ``1M``, ``0.5G``.

    Suffixes are binary. Raises UsageError.
    """
    match = SIZE.fullmatch(text)
    count = int(float(match.group(1)) * _SCALE[match.group(2).lower()]) if match else 0
    if not LEAST_BYTES <= count <= MOST_BYTES:
        limits = f"{binary_size(LEAST_BYTES)} to {binary_size(MOST_BYTES)}"
        raise UsageError(f"{flag} {text}: it takes bytes, or 64K, 8M, 0.5G, from {limits}")
    return count


def _number(flag: str, text: str, default: int, least: int, most: int) -> int:
    if not text:
        return default
    number = whole(flag, text, least)
    if number > most:
        raise UsageError(f"{flag} {text}: at most {most}")
    return number


def percent(text: str | bool | None) -> float | None:
    """Return the percentage of ``--require-coverage``; None without it. Raises UsageError.

    Invoke has True for a flag without its value.
    """
    if text is None:
        return None
    if text is True:
        return 100.0
    try:
        value = float(str(text).removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 < value <= 100:
        raise UsageError(f"--require-coverage {text}: it takes a percentage above 0 and up to 100")
    return value


def read_cluster(
    hosts: str | None,
    limit: str | None,
    extra_vars: Sequence[str] = (),
    connection: ConnectionFlags = NO_FLAGS,
    *,
    otherwise: str | None = None,
    checks: Mapping[str, Check] | None = None,
    reach: Callable[[Sequence[Host]], None] | None = None,
) -> Cluster:
    """Read the inventory and pass its warnings on. Raises UsageError, and where none is named.

    ``otherwise`` is the inventory where neither ``--hosts`` nor ansible.cfg names one, ``checks``
    are those that its limits and waivers must fit, the site's among them, ``reach`` refuses hosts
    by how they are reached.
    """
    from hwcheck.inventory import inventory  # not above: most commands read none

    for each in extra_vars:
        if SIZE.fullmatch(each):
            raise UsageError(
                f"-e {each}: it takes key=value, YAML or @FILE, as in Ansible; the largest size is "
                f"--maxbytes {each}"
            )
    cluster = inventory.read(
        hosts, limit, extra_vars, connection, otherwise=otherwise, checks=checks, reach=reach
    )
    for warning in cluster.warnings:
        say(f"hwcheck: {warning}")
    return cluster


def list_names(cluster: Cluster) -> None:
    """Print the names of the hosts: ``--list-hosts``."""
    emit("".join(f"{host.name}\n" for host in cluster.hosts))


def this_machine() -> str:
    """Return the inventory of this machine alone that hwcheck brings."""
    path = shipped.brought("inventory/local.yml")
    assert path is not None
    return str(path)


def read_connection(
    *, user: str, ask_pass: bool, become: bool, become_user: str, ask_become_pass: bool
) -> ConnectionFlags:
    """Return what the flags say of every host; passwords are asked for, or read from stdin."""
    password = _ask("SSH password: ") if ask_pass else None
    hint = "[defaults to SSH password]" if password else ""
    become_password = _ask(f"BECOME password{hint}: ") if ask_become_pass else None
    return ConnectionFlags(
        user=user,
        password=password,
        become=become or ask_become_pass,
        become_user=become_user,
        become_password=become_password or password if ask_become_pass else None,
    )


def _ask(prompt: str) -> str:
    tty = sys.stdin is not None and sys.stdin.isatty()
    return getpass.getpass(prompt) if tty else sys.stdin.readline().rstrip("\n")
