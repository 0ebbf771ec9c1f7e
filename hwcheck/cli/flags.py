"""Flags that several commands have, declared once, and from their values to what they mean."""

from __future__ import annotations

import functools
import getpass
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from hwcheck import shipped
from hwcheck.checks import ON_DEMAND
from hwcheck.checks.gate_proof import gate_proof
from hwcheck.cli.command import SIZE, flag, option, together
from hwcheck.cli.output import emit, say
from hwcheck.cli.values import Folder, Percent, Whole, split
from hwcheck.contract.wire import COLLECTIVES, Timing
from hwcheck.errors import UsageError
from hwcheck.inventory.defaults import NO_FLAGS, ConnectionFlags
from hwcheck.text import binary_size

if TYPE_CHECKING:
    from hwcheck.contract.check import Check
    from hwcheck.inventory.inventory import Cluster, Host

REACHING = "Hosts, and how to reach them"
"""The section of these flags in a help."""
HOSTS_HELP = (
    "Ansible inventory (file, folder or script), or hosts as node1,node[02-04] (default: the "
    "inventory that ansible.cfg names)"
)


def hosts_flag(help: str = HOSTS_HELP, **attributes: Any) -> Callable[..., Any]:  # noqa: A002
    """Return ``--hosts``, which a shell completes with files."""
    return option("-i", "--hosts", type=click.Path(), metavar="INVENTORY", help=help, **attributes)


def limit_flag(**attributes: Any) -> Callable[..., Any]:
    """Return ``--limit``."""
    return option(
        "-l",
        "--limit",
        metavar="PATTERN",
        help="Ansible pattern of hosts (h100:!node03), hosts as hwcheck prints them "
        "(node[02-03]), or @FILE with a host a line",
        **attributes,
    )


def forks_flag(**attributes: Any) -> Callable[..., Any]:
    """Return ``--forks``."""
    return option("-f", "--forks", type=Whole(1), section=REACHING, **attributes)


out_flag = option(
    "--out",
    type=Folder("runs"),
    default="runs",
    help="folder in which the run folder is made (default: runs)",
)
json_flag = flag("--json", "as_json", help="print a machine-readable summary on stdout")
force_flag = flag("--force", help="load nodes that are at work")
coverage_flag = option(
    "--require-coverage",
    is_flag=False,
    flag_value="100",
    type=Percent(),
    metavar="[PERCENT]",
    help="percent of the applicable checks that each host must have measured (without a value "
    "100); with less the exit code is 3, or 1 where something failed",
)

accept_flag = flag(
    "--accept-new-host-keys",
    section=REACHING,
    help="take the host key of a host never met (a changed key never)",
)
extra_vars_flag = option(
    "-e",
    "--extra-vars",
    multiple=True,
    metavar="VARS",
    section=REACHING,
    help="variables that come before the inventory's: key=value, YAML or JSON, or @FILE",
)
login_flags = together(
    option(
        "-u",
        "--user",
        metavar="USER",
        default="",
        section=REACHING,
        help="log in as this user where the inventory does not say so",
    ),
    flag(
        "-k",
        "--ask-pass",
        section=REACHING,
        help="ask for the password of the login; without a terminal it is read from stdin",
    ),
    flag(
        "-b",
        "--become",
        section=REACHING,
        help="become another user where the inventory does not say so",
    ),
    option(
        "--become-user",
        metavar="USER",
        default="",
        section=REACHING,
        help="that user (default: root)",
    ),
    flag(
        "-K",
        "--ask-become-pass",
        section=REACHING,
        help="ask for sudo's password; without a terminal it is read from stdin",
    ),
)
list_hosts_flag = flag(
    "--list-hosts", section=REACHING, help="print the names of the hosts, and do nothing else"
)
verbose_flag = flag(
    "-v",
    "--verbose",
    section=REACHING,
    help="say more: what every host is doing, and what did not change",
)


def reading(hosts_help: str = HOSTS_HELP, *, limit: bool = True) -> Callable[..., Any]:
    """Return what gives a command the flags of an inventory, and of the login to its hosts.

    Without ``limit`` it is always about all of them. The command takes what those of the login say
    as ``connection``.
    """
    inventory_flags = [hosts_flag(hosts_help, section=REACHING)]
    if limit:
        inventory_flags.append(limit_flag(section=REACHING))
    return together(*inventory_flags, extra_vars_flag, login_flags, _with_connection)


def reaching(
    hosts_help: str = HOSTS_HELP,
    *,
    forks: int | None = 32,
    forks_help: str = "hosts at once (default 32)",
) -> Callable[..., Any]:
    """Return what gives a command all the flags of those that reach hosts, as Ansible has them."""
    return together(
        reading(hosts_help),
        accept_flag,
        forks_flag(default=forks, help=forks_help),
        list_hosts_flag,
        verbose_flag,
    )


def _with_connection(body: Callable[..., None]) -> Callable[..., None]:
    """Hand a command what the flags of the login say as one ``connection``."""

    @functools.wraps(body)
    def connected(
        *,
        user: str,
        ask_pass: bool,
        become: bool,
        become_user: str,
        ask_become_pass: bool,
        **flags: Any,
    ) -> None:
        _say_what_is_not_used()
        connection = read_connection(
            user=user,
            ask_pass=ask_pass,
            become=become,
            become_user=become_user,
            ask_become_pass=ask_become_pass,
        )
        body(connection=connection, **flags)

    return connected


def _say_what_is_not_used() -> None:
    """Say that Fabric's options of a connection, from its own files, have no effect."""
    # Not above: to import Fabric takes a tenth of a second.
    from hwcheck.connect.ssh_config import fabric_config

    if fabric_config().get("connect_kwargs"):
        say(NOT_USED)


NOT_USED = (
    "hwcheck: Fabric's own connection options (-t, connect_kwargs) are not used; "
    "the inventory and the ssh configuration say how to connect"
)

USUAL = COLLECTIVES[:2]
"""Collectives that are timed without --collectives: what P2P must be decided by."""

ALL = "all"
PROOF = (gate_proof.id,)
"""Checks about hwcheck and not about the node; ``--prove`` asks for them."""

MOST_REPETITIONS = 100_000
MOST_FACTOR = 1024


def select(
    checks: Iterable[str],
    only: str | None,
    skip: str | None,
    collectives: Sequence[str] | None = None,
    *,
    usual: Sequence[str] = USUAL,
    on_demand: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return which of these checks to run, in their order.

    ``only`` and ``skip`` are comma-separated, None where the flag is not given. A
    collective is a check of its name; without ``only`` and ``collectives`` those of ``usual`` are
    run. ``on_demand`` are checks to run besides. Raises UsageError for an unknown name, with the
    nearest, for a flag that names nothing, and when nothing is left.
    """
    ids = list(checks)
    wanted = split("--only", only, ids, "check", "run all")
    unwanted = split("--skip", skip, ids, "check", "run all")
    timed = COLLECTIVES if ALL in (collectives or ()) else tuple(collectives or ())
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
    legs: Sequence[str] = (),
    minbytes: int | None = None,
    maxbytes: int | None = None,
    stepfactor: int | None = None,
    iters: int | None = None,
    warmup_iters: int | None = None,
    datatype: str | None = None,
) -> Timing:
    """Return how collectives are timed by these flags of nccl-tests; without one it is usual.

    Raises UsageError.
    """
    usual = Timing()
    least = usual.min_bytes if minbytes is None else minbytes
    most = max(usual.max_bytes, least) if maxbytes is None else maxbytes
    if minbytes is None:
        least = min(least, most)
    if least > most:
        sizes = f"--minbytes {binary_size(least)}: it is more than --maxbytes {binary_size(most)}"
        raise UsageError(sizes)
    return Timing(
        legs=tuple(legs),
        min_bytes=least,
        max_bytes=most,
        step_factor=usual.step_factor if stepfactor is None else stepfactor,
        iterations=usual.iterations if iters is None else iters,
        warmups=usual.warmups if warmup_iters is None else warmup_iters,
        dtype=datatype or usual.dtype,
    )


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
