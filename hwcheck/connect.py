"""Open connections through Fabric: verified host keys, a bound on every phase, clear errors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fabric
import paramiko

from hwcheck.endpoint import Endpoint, Resolver
from hwcheck.errors import UsageError
from hwcheck.host_keys import HostKeyPolicy
from hwcheck.inventory import Host
from hwcheck.links import Link, LocalLink, hang_up, run_over
from hwcheck.phases import (
    AUTHENTICATION,
    BANNER,
    CONNECT,
    KEY_EXCHANGE,
    SESSION,
    Deadlines,
    VisitError,
)
from hwcheck.remote_command import interpreter, shell_line
from hwcheck.sockets import Proxy, tcp
from hwcheck.ssh_options import Jump
from hwcheck.supervisor import Supervisor

# paramiko logs tracebacks of what is reported here in one line.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

KEY_EXCHANGES_FIRST = ("curve25519-sha256@libssh.org",)
CIPHERS_FIRST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")


@dataclass
class _Open:
    """A connection and what it stands on."""

    connection: fabric.Connection
    name: str
    sock: Any = None
    proxy: Proxy | None = None

    def close(self) -> None:
        transport = self.connection.client.get_transport()
        if transport is not None:
            hang_up(self.sock, transport)
        if self.proxy is not None:
            self.proxy.close()
        elif self.sock is not None:
            self.sock.close()


@dataclass
class _Gateway:
    """A hop that all hosts behind it share; ``error`` is why it cannot be used in this run."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    opened: _Open | None = None
    error: VisitError | None = None


class Connector:
    """Opens what a visit runs over. Safe to use from several threads.

    ``stop`` ends every phase that is under way. ``ssh_config`` replaces ~/.ssh/config and
    /etc/ssh/ssh_config.
    """

    def __init__(
        self,
        deadlines: Deadlines,
        stop: threading.Event,
        *,
        accept_new_host_keys: bool = False,
        ssh_config: Path | None = None,
    ) -> None:
        self.deadlines = deadlines
        self.supervisor = Supervisor(stop)
        # Merged once and shared: that is most of what a Fabric connection costs. Its constructor
        # writes to it, hence the lock.
        path = str(ssh_config) if ssh_config else None
        self._config = fabric.Config(runtime_ssh_path=path)
        self._build_lock = threading.Lock()
        self._resolver = Resolver(self._config, accept_new=accept_new_host_keys)
        self._endpoints: dict[str, Endpoint] = {}
        self._gateways: dict[tuple[Jump, ...], _Gateway] = {}

    def prepare(self, hosts: Iterable[Host]) -> None:
        """Check what can be checked without a connection: options, keys, commands.

        Raises UsageError that names the host.
        """
        for host in hosts:
            interpreter(host)
            if host.connection == "ssh":
                endpoint = self._endpoints[host.name] = self._resolver.host(host)
                for count in range(1, len(endpoint.jumps) + 1):
                    self._resolver.jump(endpoint.jumps[count - 1])
                    self._gateways.setdefault(endpoint.jumps[:count], _Gateway())
            elif host.connection != "local":
                raise UsageError(
                    f"{host.name}: ansible_connection: {host.connection} is not supported; "
                    "use ssh or local"
                )

    def start(self, host: Host, arguments: list[str]) -> Link:
        """Run the host's Python with these arguments; ``prepare`` has seen the host.

        Raises VisitError.
        """
        words = [*interpreter(host), *arguments]
        if host.connection == "local":
            return LocalLink(words)
        opened = self._open(self._endpoints[host.name])
        seconds = self.deadlines.authentication_s
        late = f"no answer to the command within {seconds:g} s"
        try:
            with self.supervisor.bound(seconds, opened.close, SESSION, late):
                transport = opened.connection.transport
                return run_over(transport, shell_line(words), seconds, [opened.close])
        except BaseException:
            opened.close()
            raise

    def close(self) -> None:
        """Close the gateways."""
        for gateway in self._gateways.values():
            if gateway.opened is not None:
                gateway.opened.close()

    def _open(self, endpoint: Endpoint) -> _Open:
        gateway = self._gateway(endpoint.jumps) if endpoint.jumps else None
        opened = self._build(endpoint, gateway)
        name = f"{opened.connection.host}:{opened.connection.port}"
        limits = self.deadlines
        total_s = limits.banner_s + 2 * limits.authentication_s
        late = f"not finished within {limits.authentication_s:g} s"
        try:
            self._attach(opened, endpoint)
            with self.supervisor.bound(total_s, opened.close, AUTHENTICATION, late):
                opened.connection.open()
        except VisitError:
            opened.close()
            raise
        except Exception as error:
            explained = _explain(error, opened, endpoint, limits)
            opened.close()
            self.supervisor.check(explained.phase)
            raise explained from None
        assert name
        return opened

    def _build(self, endpoint: Endpoint, gateway: fabric.Connection | None) -> _Open:
        with self._build_lock:
            connection = fabric.Connection(
                endpoint.address,
                user=endpoint.user,
                port=endpoint.port,
                config=self._config,
                # Never None: Fabric would build gateways of its own, which accept any host key.
                gateway=gateway or False,
                connect_kwargs={"compress": False},
            )
        connection.connect_timeout = None  # "timeout" below, which need not be whole seconds
        name = endpoint.alias or connection.host.lower()
        if connection.port != paramiko.config.SSH_PORT and not endpoint.alias:
            name = f"[{name}]:{connection.port}"
        policy = HostKeyPolicy(endpoint.known, name, accept_new=endpoint.accept_new)
        connection.client.set_missing_host_key_policy(policy)
        limits = self.deadlines
        connection.connect_kwargs = {
            **endpoint.login.arguments,
            "password": endpoint.password,
            "compress": False,
            "timeout": limits.banner_s + limits.authentication_s,
            "banner_timeout": limits.banner_s,
            "auth_timeout": limits.authentication_s,
            "channel_timeout": limits.connect_s,
            "transport_factory": _transport_factory(policy),
        }
        return _Open(connection, f"{connection.host}:{connection.port}")

    def _attach(self, opened: _Open, endpoint: Endpoint) -> None:
        """Give the connection its byte stream; Fabric opens the one through a gateway itself."""
        connection = opened.connection
        if connection.gateway:
            return
        if endpoint.proxy_command:
            opened.proxy = Proxy(
                endpoint.proxy_command, connection.host, connection.port, connection.user
            )
            opened.sock = opened.proxy.sock
        else:
            seconds = endpoint.connect_s or self.deadlines.connect_s
            check = self.supervisor.check
            opened.sock = tcp(connection.host, connection.port, seconds, check)
        connection.connect_kwargs["sock"] = opened.sock

    def _gateway(self, jumps: tuple[Jump, ...]) -> fabric.Connection:
        gateway = self._gateways[jumps]
        with gateway.lock:
            if gateway.error is not None:
                raise gateway.error
            if gateway.opened is None or not gateway.opened.connection.is_connected:
                try:
                    endpoint = self._resolver.jump(jumps[-1])
                    gateway.opened = self._open_hop(endpoint, jumps[:-1])
                except VisitError as error:
                    where = f"jump host {jumps[-1].host}: {error}"
                    gateway.error = VisitError(CONNECT, where)
                    raise gateway.error from None
            return gateway.opened.connection
