"""What the ssh configuration says of one host, as ``ssh -G`` prints it.

ssh itself follows Include and Match, canonicalizes names and lets the first value of a setting win.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import fabric
import paramiko
from invoke.util import yaml

from hwcheck.connect.ssh_arguments import split_command
from hwcheck.errors import UsageError
from hwcheck.text import line

ANSWER_S = 30.0
"""How long ssh may take: it runs what follows ``Match exec``, and asks the name server for
``CanonicalizeHostname``."""

# Not [user@]host:port, which Fabric would take apart, and no option of a proxy command.
ADDRESS = re.compile(r"(?![^:]*:[^:]*\Z)[A-Za-z0-9_.:%][A-Za-z0-9_.:%-]*\Z")
JUMP = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^@,\s]+)@)?(?P<host>[^\s@:,\[\]]+|\[[0-9A-Fa-f:.%\w]+\])"
    r"(?::(?P<port>\d+))?/?\Z"
)
# What a known_hosts file would read as several names, as a pattern, a hash, a mark or a comment.
NO_NAME = re.compile(r"[\s,*?!|]|\A[@#]")
FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}
TOKEN = re.compile(r"%(.?)", re.DOTALL)
VARIABLE = re.compile(r"\$\{([^}]*)\}?")


@dataclass(frozen=True, order=True)
class Jump:
    """One hop of ProxyJump; user and port are None where the ssh configuration decides."""

    host: str
    user: str | None = None
    port: int | None = None

    def words(self) -> list[str]:
        """Return its user and port as options of ssh."""
        options = {"-l": self.user, "-p": self.port}
        return [f"{flag}{value}" for flag, value in options.items() if value is not None]


@dataclass(frozen=True)
class SshSettings:
    """The settings of one host.

    ``agent_socket`` is empty where no agent is to be asked. ``jumps`` are in the order of travel.
    ``proxy_command`` is split as a shell would and is run without one. ``connect_s`` is None where
    nothing bounds it. ``family`` is AF_INET or AF_INET6 where AddressFamily asks for one, else 0.
    ``tokens`` are what ``%h`` and its like stand for, by their letter.
    """

    hostname: str
    port: int
    user: str
    host_key_alias: str = ""
    user_known_hosts_files: tuple[str, ...] = ()
    global_known_hosts_files: tuple[str, ...] = ()
    accept_new: bool = False
    identity_files: tuple[str, ...] = ()
    identities_only: bool = False
    agent_socket: str = ""
    jumps: tuple[Jump, ...] = ()
    proxy_command: tuple[str, ...] = ()
    connect_s: float | None = None
    family: int = 0
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def host_key_name(self) -> str:
        """The name under which known_hosts files have the key."""
        name = (self.host_key_alias or self.hostname).lower()
        plain = self.host_key_alias or self.port == paramiko.config.SSH_PORT
        return name if plain else f"[{name}]:{self.port}"


def fabric_config() -> fabric.Config:
    """Return what Fabric's own files say, ~/.fabric.yaml among them; of ssh's it reads none.

    Raises UsageError for one that cannot be read.
    """
    try:
        return fabric.Config(ssh_config=paramiko.SSHConfig())
    except OSError as error:  # of a HOME that is another user's
        raise UsageError(f"{error.filename}: {error.strerror}") from None
    except yaml.YAMLError as error:  # it names the file
        raise UsageError(f"Fabric's configuration: {line(str(error), 300)}") from None


class SshConfig:
    """The configuration files of ssh; ``path`` takes the place of the user's and the system's.

    Safe to use from several threads. Raises UsageError, as ``fabric_config`` does.
    """

    def __init__(self, path: Path | None = None) -> None:
        # Merged once and shared: that is most of what a Fabric connection costs.
        self.fabric = fabric_config()
        path = path or self.fabric.ssh_config_path
        file = os.path.expanduser(path) if path else "none"
        other = path or not self.fabric.load_ssh_configs
        self._command = ["ssh", "-G", "-T", *([f"-F{file}"] if other else [])]

    def settings(self, address: str, words: Sequence[str] = ()) -> SshSettings:
        """Ask ssh about a host; ``words`` are options on its command line.

        Raises UsageError, one line, for what ssh or we refuse.
        """
        _check_address(address)
        fields = self._ask([*words, "--", address])
        try:
            return _settings(address, fields)
        except ValueError as error:
            raise UsageError(f"ssh configuration: {error}") from None

    def _ask(self, words: Sequence[str]) -> dict[str, list[str]]:
        try:
            done = subprocess.run(
                [*self._command, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="surrogateescape",
                timeout=ANSWER_S,
            )
        except subprocess.TimeoutExpired:
            problem = f"ssh -G gave no answer within {ANSWER_S:g} s"
            hint = "does a Match exec or a name server of CanonicalizeHostname hang?"
            raise UsageError(f"ssh configuration: {problem}; {hint}") from None
        except OSError as error:
            raise UsageError(
                f"cannot run ssh, which reads the ssh configuration: {error.strerror}; install "
                "OpenSSH's client (openssh-client or openssh-clients)"
            ) from None
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if ": terminating, " not in line]
            problem = "; ".join(lines)[:500].replace("command-line line 0", "ansible_ssh_*args")
            raise UsageError(f"ssh configuration: {problem or 'ssh -G failed without a word'}")
        fields: dict[str, list[str]] = {}
        for answer in done.stdout.split("\n"):
            keyword, _, value = answer.partition(" ")
            fields.setdefault(keyword.lower(), []).append(value)
        return fields


def _check_address(address: str) -> None:
    if not ADDRESS.match(address):
        hint = "; name the user as ansible_user in an inventory file" if "@" in address else ""
        raise UsageError(f"not a host name or an address: {address!r}{hint}")


def _settings(address: str, fields: Mapping[str, list[str]]) -> SshSettings:
    """Read what ssh has printed. Raises UsageError and ValueError."""

    def text(keyword: str) -> str:
        value = fields.get(keyword, [""])[0]
        return "" if value == "none" else value

    for keyword, instead in {
        "revokedhostkeys": "write its keys as @revoked lines into known_hosts",
        "knownhostscommand": "write the keys that it prints into known_hosts",
    }.items():
        if text(keyword):
            raise ValueError(f"{keyword} {text(keyword)}: not supported; {instead}")
    _check_address(text("hostname"))
    if NO_NAME.search(text("hostkeyalias")):
        raise ValueError(
            f"HostKeyAlias {text('hostkeyalias')}: known_hosts would not read it as one name; "
            "write a single name"
        )
    account = pwd.getpwuid(os.getuid())
    tokens = {
        "%": "%",
        "d": account.pw_dir,
        "h": text("hostname"),
        "n": address,
        "p": text("port"),
        "r": text("user"),
        "u": account.pw_name,
    }
    timeout = text("connecttimeout")
    key_files = [name for name in fields.get("identityfile", ()) if name != "none"]
    return SshSettings(
        hostname=text("hostname"),
        port=int(text("port")),
        user=text("user"),
        host_key_alias=text("hostkeyalias"),
        user_known_hosts_files=_files("UserKnownHostsFile", text("userknownhostsfile")),
        global_known_hosts_files=_files("GlobalKnownHostsFile", text("globalknownhostsfile")),
        accept_new=text("stricthostkeychecking") == "accept-new",
        identity_files=tuple(key_file(name, tokens) for name in key_files),
        identities_only=text("identitiesonly") == "yes",
        agent_socket=_agent_socket(fields.get("identityagent", ["SSH_AUTH_SOCK"])[0]),
        jumps=_jumps(_expanded(text("proxyjump"), tokens)),
        proxy_command=_proxy_command(text("proxycommand"), tokens),
        connect_s=float(timeout) if timeout.isdecimal() and int(timeout) else None,
        family=FAMILIES.get(text("addressfamily"), 0),
        tokens=tokens,
    )


def key_file(text: str, tokens: Mapping[str, str]) -> str:
    """Return the path that the value of an IdentityFile stands for: ``ssh -G`` does not expand it.

    Raises ValueError for what cannot be expanded.
    """
    try:
        return VARIABLE.sub(_variable, _expanded(_with_home(text), tokens))
    except ValueError as error:
        raise ValueError(f"IdentityFile {text}: {error}") from None


def _expanded(text: str, tokens: Mapping[str, str]) -> str:
    """Replace the tokens in a text. Raises ValueError for one that is unknown here."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in tokens:
            raise ValueError(f"{match[0]} cannot be expanded; write what it stands for")
        return tokens[match[1]]

    return TOKEN.sub(value, text)


def _with_home(path: str) -> str:
    """Return a path with the home folder for ``~``: as with ssh not HOME, but the account's."""
    if path == "~" or path.startswith("~/"):
        return pwd.getpwuid(os.getuid()).pw_dir + path[1:]
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        raise ValueError(f"{path.partition('/')[0]} is no user here")
    return expanded


def _variable(match: re.Match[str]) -> str:
    if match[1] not in os.environ:
        raise ValueError(f"{match[0]} is no variable that is set; set it, or write the path")
    return os.environ[match[1]]


def _without_token(keyword: str, text: str) -> str:
    """Return a path that ssh has expanded; versions before 8.4 do it to fewer settings."""
    if TOKEN.search(text) or VARIABLE.search(text):
        raise ValueError(f"{keyword} {text}: this ssh does not expand it; write the path")
    return _with_home(text)


def _files(keyword: str, text: str) -> tuple[str, ...]:
    names = [_without_token(keyword, name) for name in text.split()]
    if len(names) > 1 and not all(map(os.path.isabs, names)):
        # ssh prints a space within a name like one between two names.
        raise ValueError(f"{keyword} {text}: write absolute paths without spaces")
    return tuple(names)


def _agent_socket(text: str) -> str:
    if text == "SSH_AUTH_SOCK" or (text.startswith("$") and not text.startswith("${")):
        return os.environ.get(text.removeprefix("$"), "")
    return "" if text == "none" else _without_token("IdentityAgent", text)


def _jumps(text: str) -> tuple[Jump, ...]:
    jumps = []
    for part in text.split(",") if text else ():
        match = JUMP.match(part.strip())
        if match is None:
            raise ValueError(f"ProxyJump {text}: not [user@]host[:port]")
        port = int(match["port"]) if match["port"] else None
        jumps.append(Jump(match["host"].strip("[]"), match["user"], port))
    return tuple(jumps)


def _proxy_command(text: str, tokens: Mapping[str, str]) -> tuple[str, ...]:
    try:
        return tuple(_expanded(word, tokens) for word in split_command(text))
    except ValueError as error:
        raise ValueError(f"ProxyCommand {text}: {error}") from None
