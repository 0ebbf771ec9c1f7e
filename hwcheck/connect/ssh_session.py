"""One SSH connection through Fabric: verified host key, a bound on every phase, clear errors."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import fabric
import paramiko

from hwcheck.connect.deadlines import Deadlines, VisitError
from hwcheck.connect.endpoint import Endpoint
from hwcheck.connect.gateway import GatewaySocket, GatewayTransport, QuietTransport
from hwcheck.connect.host_keys import HostKeyPolicy
from hwcheck.connect.links import ChannelLink, run_over
from hwcheck.connect.login import Agent
from hwcheck.connect.sockets import Proxy, tcp
from hwcheck.connect.supervisor import Supervisor
from hwcheck.results.phases import AUTHENTICATION, BANNER, CONNECT, KEY_EXCHANGE, SESSION

# paramiko logs tracebacks of what is reported here in one line.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

# Least CPU first, of what every supported sshd offers.
KEY_EXCHANGES_FIRST = ("curve25519-sha256@libssh.org",)
CIPHERS_FIRST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")

LOOK_S = 0.5
"""How often an idle connection looks at its deadlines: paramiko's 0.1 s is a load with 50 hosts."""


class _Connection(fabric.Connection):  # type: ignore[misc]
    """A connection that leaves the shared configuration as it is.

    An attribute that Fabric does not know is a key of that configuration: setting one rebuilds all
    of it, which is empty for a moment.
    """

    authentication = SimpleNamespace(strategy_class=None)  # ``open`` reads it, from any thread
    __setattr__ = object.__setattr__

    def resolve_connect_kwargs(self, connect_kwargs: dict[str, Any]) -> dict[str, Any]:
        return connect_kwargs  # the endpoint has merged them with the configuration's

    def open_gateway(self) -> GatewaySocket:
        return GatewaySocket(super().open_gateway())


class SshSession:
    """A connection and what it stands on. ``close`` may be called twice and from any thread."""

    def __init__(
        self,
        endpoint: Endpoint,
        config: fabric.Config,
        gateway: fabric.Connection | None,
        deadlines: Deadlines,
        *,
        shared: bool = False,
    ) -> None:
        """Build it; nothing is sent. ``shared``: this one is the gateway of others."""
        self._transport = GatewayTransport if shared else QuietTransport
        self._endpoint = endpoint
        self._deadlines = deadlines
        self._sock: socket.socket | None = None
        self._proxy: Proxy | None = None
        self._attached = 0.0
        self.connection = _Connection(
            endpoint.settings.hostname,
            user=endpoint.settings.user,
            port=endpoint.settings.port,
            config=config,
            # Never None: Fabric would build gateways of its own, which accept any host key.
            gateway=gateway or False,
            forward_agent=False,
            connect_timeout=0,
            inline_ssh_env=False,
        )
        self.connection.connect_timeout = None  # whole seconds; "timeout" takes its place
        # Fabric's constructor has set one that accepts every key.
        self._policy = HostKeyPolicy(
            endpoint.known_hosts, endpoint.settings.host_key_name, accept_new=endpoint.accept_new
        )
        self.connection.client.set_missing_host_key_policy(self._policy)
        if endpoint.login.agent_socket:  # paramiko makes its own, at SSH_AUTH_SOCK, only without
            self.connection.client._agent = Agent(endpoint.login.agent_socket)
        self.connection.connect_kwargs = self._arguments()

    def open(self, supervisor: Supervisor) -> None:
        """Connect and log in. Raises VisitError."""
        try:
            self._attach(supervisor.check)
            self._attached = time.monotonic()
            wait_s = self._deadlines.banner_s + 2 * self._deadlines.authentication_s
            wait_s = self._deadlines.within(wait_s)
            late = f"not finished within {wait_s:.3g} s"
            with supervisor.bound(wait_s, self.close, AUTHENTICATION, late):
                self.connection.open()
        except VisitError as error:
            phase = self._phase() if error.phase == AUTHENTICATION else error.phase
            self.close()
            if phase == error.phase:
                raise
            raise VisitError(phase, error.reason.text, error.state, error.reason.code) from None
        except Exception as error:
            explained = self._explain(error)
            self.close()
            raise explained from None

    def run(self, line: str, supervisor: Supervisor) -> ChannelLink:
        """Run one command over a channel of its own; closing it closes the connection too."""
        seconds = self._deadlines.within(self._deadlines.authentication_s)
        late = f"no answer to the command within {seconds:.3g} s"
        try:
            with supervisor.bound(seconds, self.close, SESSION, late):
                return run_over(self.connection.transport, line, seconds, self.close)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Hang up at once."""
        if self._sock is not None:
            try:
                # The transport's thread wakes up now, not at its next look at the socket.
                self._sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                self._sock.close()  # it was not connected any more
        transport = self.connection.client.get_transport()
        if transport is not None:
            transport.close()
        if self._sock is not None:
            self._sock.close()
        if self._proxy is not None:
            self._proxy.close()

    def _arguments(self) -> dict[str, Any]:
        limits = self._deadlines
        return {
            **self._endpoint.login.arguments,
            "password": self._endpoint.password,
            "compress": False,
            "timeout": limits.banner_s + limits.authentication_s,  # banner and key exchange
            "banner_timeout": limits.banner_s,
            "auth_timeout": limits.authentication_s,
            "channel_timeout": limits.connect_s,
            "transport_factory": _transport_factory(self._transport, self._policy),
        }

    def _attach(self, check: Callable[[str], None]) -> None:
        """Give the connection its byte stream; Fabric opens the one through a gateway itself."""
        connection, settings = self.connection, self._endpoint.settings
        if connection.gateway:
            return
        if settings.proxy_command:
            self._proxy = Proxy(settings.proxy_command)
            self._sock = self._proxy.sock
        else:
            seconds = self._deadlines.within(settings.connect_s or self._deadlines.connect_s)
            self._sock = tcp(settings.hostname, settings.port, seconds, check, settings.family)
        connection.connect_kwargs["sock"] = self._sock

    def _phase(self) -> str:
        """Return how far the connection is."""
        transport = self.connection.client.get_transport()
        if transport is None:
            return CONNECT
        if not transport.remote_version:
            return BANNER
        return AUTHENTICATION if transport.initial_kex_done else KEY_EXCHANGE

    def _explain(self, error: Exception) -> VisitError:
        phase, text = self._phase(), str(error) or type(error).__name__
        if phase == CONNECT:
            where = f"{self.connection.host}:{self.connection.port}"
            return VisitError(CONNECT, f"the jump host cannot reach {where}: {text}")
        if phase == BANNER:
            return VisitError(BANNER, self._no_banner(text))
        if phase == KEY_EXCHANGE:
            late = f"not finished within {self._deadlines.authentication_s:g} s"
            reason = late if text == "No existing session" else text
            return VisitError(KEY_EXCHANGE, reason)
        return VisitError(AUTHENTICATION, self._refusal(error, text))

    def _no_banner(self, text: str) -> str:
        if "protocol version" in text:
            return f"no SSH server: {text[:200]}"
        seconds = self._deadlines.banner_s
        if time.monotonic() - self._attached >= seconds:
            return f"accepted the connection but sent no SSH banner within {seconds:g} s"
        last_line = self._proxy.last_line() if self._proxy is not None else ""
        reason = f": {last_line}" if last_line else ""
        return f"closed the connection before the SSH banner{reason}"

    def _refusal(self, error: Exception, text: str) -> str:
        who = f"user {self.connection.user} with {self._endpoint.login.text}"
        if self._endpoint.password is not None:
            who += " and a password"
        if "timeout" in text.lower():
            return f"no answer within {self._deadlines.authentication_s:g} s for {who}"
        if isinstance(error, paramiko.BadAuthenticationType):
            return f"refused for {who}; the server takes {', '.join(error.allowed_types)}"
        if isinstance(error, paramiko.AuthenticationException) and "EOF" not in text:
            return f"refused for {who}"
        return f"{text} for {who}"


def _transport_factory(
    kind: type[paramiko.Transport], policy: HostKeyPolicy
) -> Callable[..., paramiko.Transport]:
    def make(sock: Any, **arguments: Any) -> paramiko.Transport:
        transport = kind(sock, **arguments)
        sock.settimeout(LOOK_S)
        options = transport.get_security_options()
        options.kex = _first(KEY_EXCHANGES_FIRST, options.kex)
        options.ciphers = _first(CIPHERS_FIRST, options.ciphers)
        options.key_types = policy.preferred_types(tuple(options.key_types))
        return transport

    return make


def _first(wanted: tuple[str, ...], offered: Any) -> tuple[str, ...]:
    return tuple(sorted(offered, key=lambda name: name not in wanted))
