"""What to do about hosts that gave no whole answer: by the phase in which the visit ended."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hwcheck.advise.records import Action
from hwcheck.advise.remedies import REMEDY_OF
from hwcheck.fold import fold
from hwcheck.results import phases
from hwcheck.results.run_folder import HostRecord, Run
from hwcheck.text import line


@dataclass(frozen=True)
class Hint:
    """Likely cause, what to do, and how to see the trouble.

    ``remote`` is a command for the host, ``local`` one for this machine (``{host}``: an address);
    with ``verbose`` the way there is the trouble.
    """

    cause: str
    fix: str
    remote: str = ""
    local: str = ""
    verbose: bool = False


def _no_way(cause: str, fix: str) -> Hint:
    return Hint(cause, fix, "true", verbose=True)


BY_PHASE: Mapping[str, Hint] = {
    phases.NAME_LOOKUP: Hint(
        "the name has no address here: it is mistyped, or not in DNS or /etc/hosts; of the host "
        "itself nothing is known",
        "correct the name or set ansible_host; where it should be in DNS, look at the resolver of "
        "this machine",
        local="getent hosts {host}",
    ),
    phases.JUMP_HOST: _no_way(
        "the jump host on the way cannot be used; of the hosts behind it nothing is known",
        "get the jump host to answer, or correct ProxyJump; then run again",
    ),
    phases.CONNECT: _no_way(
        "the host is down, its sshd is stopped, or the address, port or proxy is wrong",
        "power the host on, start sshd, or correct ansible_host and ansible_port",
    ),
    phases.BANNER: _no_way(
        "something accepts connections but does not speak SSH: an overloaded host or a proxy",
        "look at the host's console for load or memory pressure and restart sshd",
    ),
    phases.KEY_EXCHANGE: _no_way(
        "the two sides share no algorithm, or the host stopped answering",
        "compare the server's algorithms with this machine's and update the older side",
    ),
    phases.HOST_KEY: Hint(
        "the host's key is not the one in known_hosts, or is not there yet",
        "compare the fingerprint with the host's console; for a host that is really new add its "
        "key or use --accept-new-host-keys; after a reinstall remove the old line (the command "
        "needs -p PORT where the inventory has one, and must run on the jump host where there is "
        "one)",
        local="ssh-keyscan {host} | ssh-keygen -lf -",
    ),
    phases.AUTHENTICATION: _no_way(
        "the host does not accept this user or key",
        "correct ansible_user and ansible_ssh_private_key_file, or add the public key to the "
        "host's authorized_keys",
    ),
    phases.SESSION: _no_way(
        "the host let us in but opens no session: session limits, a full disk or a broken shell",
        "look at sshd's log on the host, MaxSessions, and the user's login shell",
    ),
    phases.BECOME: Hint(
        "the change to another user did not work",
        "install sudo where it is missing; correct ansible_become_exe, ansible_become_user, "
        "ansible_become_method and the password, or the sudoers file",
        "sudo -n true",
    ),
    phases.PYTHON: Hint(
        "no python3, or one that is older than 3.8",
        "install Python 3.8 or newer, or name one in ansible_python_interpreter",
        "python3 --version",
    ),
    phases.PUSH: Hint(
        "the payload did not arrive whole: a full disk or a connection that broke",
        "free space in the user's home directory and run again",
        "df -h ~",
    ),
    "cache": Hint(
        "the folder ~/.cache/hwcheck cannot be used: a full or read-only disk, or another owner",
        "make it a directory of the user's own with mode 0700, and free some space",
        "ls -ld ~/.cache ~/.cache/hwcheck",
    ),
    phases.RUN: Hint(
        "the host stopped answering while it measured: a crash, a reboot or a hung driver",
        "look at the host's kernel log around the time of the run, then run again",
        "sudo dmesg -T | tail -n 50",
    ),
}
BY_STATE: Mapping[str, Hint] = {
    "invalid": _no_way(
        "the host's answer broke the protocol, so nothing that it said is trusted",
        "look at its log in the run folder; a shell profile that never stops printing, or a "
        "tampered payload, does this",
    ),
    "not_visited": Hint(
        "the run ended before this host's turn",
        "run again; --limit names the hosts that are left",
    ),
}
UNKNOWN = _no_way(
    "the visit ended without a whole answer",
    "look at the host's log in the run folder and at the host's own logs",
)


def visit_actions(run: Run, outcomes: Mapping[str, str]) -> list[Action]:
    """Return one action for each kind of visit that ended early.

    ``outcomes`` are the judged outcomes by host name. Hosts with the same state and phase, and
    with reasons that differ in names and numbers only, are one kind.
    """
    groups: dict[tuple[str, str, str, str], list[HostRecord]] = {}
    addresses = {plan.name: plan.address for plan in run.meta.hosts}
    for record in run.records:
        if record.state == "reported":
            continue
        outcome = outcomes.get(record.host, "inconclusive")
        reason = alike(record.reason.text, (record.host, addresses[record.host]))
        groups.setdefault((outcome, record.state, record.phase, reason), []).append(record)
    return [
        _action(outcome, members, addresses[members[0].host], run.meta.inventory)
        for (outcome, *_), members in groups.items()
    ]


def _action(outcome: str, records: list[HostRecord], address: str, inventory: str) -> Action:
    first = records[0]
    hint = _hint(first)
    hosts = tuple(record.host for record in records)
    fix = hint.fix
    if hint.remote and not inventory:
        fix += "; add the user, port, key and jump host of the inventory to the command"
    return Action(
        check="",
        outcome=outcome,
        cause=hint.cause,
        fix=fix,
        command=_command(hint, first.host, address, inventory),
        role="",
        hosts=hosts,
        evidence=tuple(_evidence(records)),
    )


def _command(hint: Hint, host: str, address: str, inventory: str) -> str:
    """Return the command for one host.

    Only the inventory knows the user, port, key and jump; so Ansible goes there the way we did.
    """
    if not hint.remote:
        return hint.local.replace("{host}", _quoted(address))
    remote = shlex.quote(hint.remote)
    if not inventory:
        verbose = "-v " if hint.verbose else ""
        return f"ssh {verbose}{_quoted(address)} {remote}"
    verbose = " -vvvv" if hint.verbose else ""
    return f"ansible {_quoted(host)} -i {_quoted(inventory)} -m raw -a {remote}{verbose}"


def _quoted(text: str) -> str:
    return shlex.quote(line(text, 200))


def _hint(record: HostRecord) -> Hint:
    if record.state in BY_STATE:
        return BY_STATE[record.state]
    if record.ended_by_us:
        remedy = REMEDY_OF[record.reason.code]
        return Hint(remedy.cause, remedy.fix)
    return BY_PHASE.get(record.phase, UNKNOWN)


def _evidence(records: Iterable[HostRecord]) -> Iterable[str]:
    by_reason: dict[str, list[str]] = {}
    for record in records:
        phase = f" ({record.phase})" if record.phase else ""
        text = line(f"{record.state.replace('_', ' ')}{phase}: {record.reason}", 400)
        by_reason.setdefault(text, []).append(record.host)
    shown = list(by_reason.items())[:3]
    for text, hosts in shown:
        yield f"{fold(hosts)}: {text}"
    if len(by_reason) > len(shown):
        yield f"and {len(by_reason) - len(shown)} alike, with other names and numbers"


def alike(reason: str, names: Iterable[str]) -> str:
    """Return a reason with these names and all numbers left out: what hosts have in common."""
    text = line(reason)
    for name in names:
        text = text.replace(name, "HOST") if name else text
    return re.sub(r"\d+", "0", text)
