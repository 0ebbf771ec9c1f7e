"""``ansible_ssh_args`` and its like: what of ssh's command line is honored, and what is refused."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host

# Accepted without effect: hwcheck holds one connection for one visit, so there is nothing to
# share or to persist; heartbeats do what ServerAlive does; compression costs more CPU than it
# saves at these sizes; the rest says how ssh talks to a person or what a session may forward,
# and no visit does either.
WITHOUT_EFFECT = {
    "batchmode",
    "compression",
    "connectionattempts",
    "controlmaster",
    "controlpath",
    "controlpersist",
    "forwardagent",
    "forwardx11",
    "loglevel",
    "preferredauthentications",
    "requesttty",
    "serveralivecountmax",
    "serveraliveinterval",
    "tcpkeepalive",
}
FLAGS_WITHOUT_EFFECT = {"-C", "-q", "-T", "-A", "-a", "-x", "-v", "-vv", "-vvv"}
FLAG_OPTIONS = {
    "-J": "ProxyJump",
    "-i": "IdentityFile",
    "-l": "User",
    "-p": "Port",
}
JUMP = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^@,\s]+)@)?(?P<host>[^\s@:,\[\]]+|\[[0-9A-Fa-f:.%\w]+\])"
    r"(?::(?P<port>\d+))?/?\Z"
)

# What means something to a shell; between double quotes, of that, what still does.
SHELL_SYNTAX = re.compile(r"[;|&<>()$`]")
SUBSTITUTION = re.compile(r"[$`]")
QUOTED = re.compile(r"\\.|'[^']*'|\"(?P<double>(?:\\.|[^\"\\])*)\"", re.DOTALL)
ASSIGNMENT = re.compile(r"\s*[A-Za-z_]\w*=")


@dataclass(frozen=True, order=True)
class Jump:
    """One hop of ProxyJump; user and port are None where the ssh configuration decides."""

    host: str
    user: str | None = None
    port: int | None = None


@dataclass(frozen=True)
class SshOptions:
    """The options of one host; None and empty stand for the ssh configuration or the default.

    ``jumps`` are in the order of travel. ``proxy_command`` is split as a shell would and is run
    without one. ``accept_new`` stands for StrictHostKeyChecking=accept-new.
    """

    user: str | None = None
    port: int | None = None
    identity_files: tuple[str, ...] = ()
    identities_only: bool = False
    identity_agent: str = ""
    jumps: tuple[Jump, ...] = ()
    proxy_command: tuple[str, ...] = ()
    known_hosts_files: tuple[str, ...] = ()
    accept_new: bool = False
    connect_timeout_s: float | None = None


def parse(host: Host) -> SshOptions:
    """Return the options that ``host.ssh_args`` give.

    As with ssh, the first value of an option wins (IdentityFile adds up). Raises UsageError that
    names the host and the option when one is unknown, malformed or would weaken host key checks.
    """
    options = SshOptions()
    seen: set[str] = set()
    for key, value in _pairs(host):
        name = key.lower()
        if name in WITHOUT_EFFECT or (name in seen and name != "identityfile"):
            continue
        seen.add(name)
        try:
            options = _apply(options, name, value)
        except ValueError as error:
            raise _refused(host, f"{key}={value}", str(error)) from None
    return options


def parse_jumps(text: str) -> tuple[Jump, ...]:
    """Return the hops of a ProxyJump value. Raises ValueError when one is malformed."""
    if text.lower() == "none":
        return ()
    return tuple(_jump(part.strip()) for part in text.split(","))


def parse_port(value: str) -> int:
    """Return a port number. Raises ValueError for what is none."""
    if not value.isdecimal() or not 0 < int(value) < 65536:
        raise ValueError("not a port number")
    return int(value)


def split_command(text: str) -> tuple[str, ...]:
    """Return the words of a ProxyCommand, which is run without a shell.

    Raises ValueError when it wants one, or when a quote is not closed.
    """
    words = shlex.split(text)
    shell = ASSIGNMENT.match(text) or SHELL_SYNTAX.search(QUOTED.sub(_live, text))
    if shell:
        problem = f"it runs without a shell, which `{shell[0].strip()}` wants"
        raise ValueError(f"{problem}; write sh -c '...' around it")
    if words[:1] == ["exec"]:  # habit from ssh, which hands the line to a shell
        del words[0]
    return () if text.lower() == "none" else tuple(words)


def _live(quoted: re.Match[str]) -> str:
    """Return what a shell would act on within a quoted part of a command."""
    return "".join(SUBSTITUTION.findall(quoted["double"] or ""))


def _jump(text: str) -> Jump:
    match = JUMP.match(text)
    if match is None or text.startswith("-"):
        raise ValueError("not [user@]host[:port]")
    port = match["port"]
    return Jump(match["host"].strip("[]"), match["user"], parse_port(port) if port else None)


def _pairs(host: Host) -> Iterator[tuple[str, str]]:
    words = iter(host.ssh_args)
    for word in words:
        flag, value = word[:2], word[2:]
        if word in FLAGS_WITHOUT_EFFECT:
            continue
        if flag != "-o" and flag not in FLAG_OPTIONS:
            raise _refused(host, word, "not supported")
        value = value or next(words, "")
        if not value:
            raise _refused(host, word, "its value is missing")
        if flag == "-o":
            yield _split_option(host, value)
        else:
            yield FLAG_OPTIONS[flag], value


def _split_option(host: Host, text: str) -> tuple[str, str]:
    match = re.match(r"\s*(\w+)(?:\s*=\s*|\s+)(.+)\Z", text, re.DOTALL)
    if match is None:
        raise _refused(host, f"-o {text}", "not Name=value")
    value = match[2].strip()
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
    return match[1], value


def _apply(options: SshOptions, name: str, value: str) -> SshOptions:
    if name == "user":
        return replace(options, user=value)
    if name == "port":
        return replace(options, port=parse_port(value))
    if name == "identityfile":
        return replace(options, identity_files=(*options.identity_files, value))
    if name == "identitiesonly":
        return replace(options, identities_only=_yes(value))
    if name == "identityagent":
        return replace(options, identity_agent=value)
    if name == "proxyjump":
        return replace(options, jumps=parse_jumps(value))
    if name == "proxycommand":
        return replace(options, proxy_command=split_command(value))
    if name == "userknownhostsfile":
        return replace(options, known_hosts_files=tuple(value.split()))
    if name == "stricthostkeychecking":
        return replace(options, accept_new=_accept_new(value))
    if name == "connecttimeout":
        return replace(options, connect_timeout_s=_seconds(value))
    raise ValueError("not supported")


def _accept_new(value: str) -> bool:
    if value in ("no", "off"):
        raise ValueError("it would accept a changed host key; use accept-new")
    if value not in ("yes", "ask", "accept-new"):
        raise ValueError("neither yes nor accept-new")
    return value == "accept-new"


def _yes(value: str) -> bool:
    if value not in ("yes", "no"):
        raise ValueError("neither yes nor no")
    return value == "yes"


def _seconds(value: str) -> float:
    if not value.isdecimal() or int(value) == 0:
        raise ValueError("not a number of seconds")
    return float(value)


def _refused(host: Host, option: str, why: str) -> UsageError:
    return UsageError(f"{host.name}: ssh option {option}: {why}; change its ansible_ssh_*args")
