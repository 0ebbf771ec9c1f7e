"""Where and how one SSH connection goes: inventory, ssh arguments and ~/.ssh/config together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import fabric

from hwcheck.connect import agent, ssh_options
from hwcheck.connect.host_keys import USER_FILES, KnownHosts
from hwcheck.connect.private_keys import Login, PrivateKeys
from hwcheck.connect.ssh_options import Jump, SshOptions
from hwcheck.connect.tokens import Connection, expand
from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host

# Not [user@]host:port, which Fabric would take apart, and no option of a proxy command.
ADDRESS = re.compile(r"(?![^:]*:[^:]*\Z)[A-Za-z0-9_.:%][A-Za-z0-9_.:%-]*\Z")


@dataclass(frozen=True)
class Endpoint:
    """One SSH server and how to log in there.

    ``address`` is what Fabric looks up in the ssh configuration; user and port are None where
    that decides. ``hostname`` and ``ssh_port`` are what it finds. ``alias`` is HostKeyAlias.
    """

    address: str
    user: str | None
    port: int | None
    login: Login
    known: KnownHosts
    accept_new: bool
    hostname: str = ""
    ssh_port: int = 22
    alias: str = ""
    jumps: tuple[Jump, ...] = ()
    proxy_command: tuple[str, ...] = ()
    connect_s: float | None = None
    password: str | None = field(default=None, repr=False)


class Resolver:
    """Makes endpoints. Key files and known_hosts files are read once for all hosts."""

    def __init__(self, config: fabric.Config, *, accept_new: bool) -> None:
        self._config = config
        self._accept_new = accept_new
        self._port: int = config.port
        self._keys = PrivateKeys()
        self._known: dict[tuple[str, ...], KnownHosts] = {}
        self._agents: dict[str, int] = {}

    def host(self, host: Host) -> Endpoint:
        """Resolve a host of the inventory. Raises UsageError that names it."""
        options = ssh_options.parse(host)
        named = (*([host.private_key_file] if host.private_key_file else []),)
        try:
            return self._endpoint(
                host.address,
                host.user or options.user,
                host.port or options.port,
                options,
                (*named, *options.identity_files),
                host.password,
            )
        except UsageError as error:
            raise UsageError(f"{host.name}: {error}") from None

    def jump(self, jump: Jump) -> Endpoint:
        """Resolve a hop. As with ssh, the target's options do not apply to it."""
        return self._endpoint(jump.host, jump.user, jump.port, SshOptions(), (), None)

    def way(self, jumps: tuple[Jump, ...]) -> tuple[Jump, ...]:
        """Return the hops and those before them: the first may itself be behind a jump host.

        The way between the hops is the one that is named. ``Host *`` with a ProxyJump leads to the
        jump host through itself: nothing is before that.
        """
        way = jumps
        while way:
            before = self.jump(way[0]).jumps
            if not before or not {jump.host for jump in before}.isdisjoint(j.host for j in way):
                break
            way = before + way
        return way

    def _endpoint(
        self,
        address: str,
        user: str | None,
        port: int | None,
        options: SshOptions,
        named: tuple[str, ...],
        password: str | None,
    ) -> Endpoint:
        if not ADDRESS.match(address):
            hint = "; name the user as ansible_user in an inventory file" if "@" in address else ""
            raise UsageError(f"not a host name or an address: {address!r}{hint}")
        found = self._config.base_ssh_config.lookup(address)
        accept_new = options.accept_new or found.get("stricthostkeychecking") == "accept-new"
        jumps, command = _route(options, found)
        ssh_port = port or _port(found.get("port", str(self._port)))
        alias = found.get("hostkeyalias", "")
        connection = Connection(
            address=address,
            hostname=found["hostname"],
            port=ssh_port,
            user=user or found.get("user") or str(self._config.user),
            alias=alias,
            jump=jumps[-1].host if jumps else "",
        )
        return Endpoint(
            address=address,
            user=user,
            port=port,
            login=self._login(named, options, found, connection),
            known=self._known_hosts(options, found, connection),
            accept_new=self._accept_new or accept_new,
            hostname=found["hostname"],
            ssh_port=ssh_port,
            alias=alias,
            jumps=jumps,
            proxy_command=command,
            connect_s=options.connect_timeout_s or _number(found.get("connecttimeout")),
            password=password,
        )

    def _login(
        self,
        named: tuple[str, ...],
        options: SshOptions,
        found: Mapping[str, Any],
        connection: Connection,
    ) -> Login:
        """Choose keys. An agent with keys that IdentityAgent names and nobody here asks is refused.

        One without keys adds none, as ``IdentityAgent none`` does.
        """
        only = options.identities_only or found.get("identitiesonly") == "yes"
        text = options.identity_agent or found.get("identityagent", "")
        origin = "ssh option" if options.identity_agent else "ssh configuration:"
        try:
            socket = agent.named_socket(text, connection)
        except ValueError as error:
            raise UsageError(f"{origin} IdentityAgent {text}: {error}") from None
        other = socket != agent.usual_socket()
        files = found.get("identityfile", ())
        login = self._keys.login(named, files, identities_only=only or other)
        locked = other and login.arguments["allow_agent"]  # a named key with a passphrase
        if other and (locked or not (named or only)) and self._keys_of(socket):
            raise UsageError(
                f"{origin} IdentityAgent {text}: only the agent at SSH_AUTH_SOCK can be asked; "
                f"set SSH_AUTH_SOCK={socket}"
            )
        if locked:
            raise UsageError(
                f"private key {named[0]}: protected by a passphrase, and {origin} "
                f"IdentityAgent {text} leads to no agent with a key"
            )
        return login

    def _keys_of(self, socket: str) -> int:
        if socket not in self._agents:
            self._agents[socket] = agent.keys(socket)
        return self._agents[socket]

    def _known_hosts(
        self, options: SshOptions, found: Mapping[str, Any], connection: Connection
    ) -> KnownHosts:
        configured = tuple(found.get("userknownhostsfile", "").split())
        origin = "ssh option" if options.known_hosts_files else "ssh configuration:"
        named = options.known_hosts_files or configured or USER_FILES
        try:
            files = tuple(expand(name, connection) for name in named)
        except ValueError as error:
            text = " ".join(named)
            raise UsageError(f"{origin} UserKnownHostsFile {text}: {error}") from None
        if files not in self._known:
            self._known[files] = KnownHosts(files)
        return self._known[files]


def _route(
    options: SshOptions, found: Mapping[str, Any]
) -> tuple[tuple[Jump, ...], tuple[str, ...]]:
    """Return the jumps or the proxy command; the inventory's come before the configuration's."""
    if options.jumps or options.proxy_command:
        return options.jumps, options.proxy_command
    if "proxyjump" in found:
        try:
            return ssh_options.parse_jumps(found["proxyjump"]), ()
        except ValueError as error:
            raise UsageError(f"ssh configuration: ProxyJump: {error}") from None
    command = found.get("proxycommand") or ""
    try:
        return (), ssh_options.split_command(command)
    except ValueError as error:
        raise UsageError(f"ssh configuration: ProxyCommand {command}: {error}") from None


def _port(text: str) -> int:
    try:
        return ssh_options.parse_port(text)
    except ValueError as error:
        raise UsageError(f"ssh configuration: Port {text}: {error}") from None


def _number(text: str | None) -> float | None:
    return float(text) if text and text.isdecimal() and int(text) else None
