"""How hosts are reached: over SSH, through shared gateways, or by a process on this machine."""

from __future__ import annotations

import math
import os
import pwd
import threading
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path

from hwcheck.connect.deadlines import Deadlines, VisitError
from hwcheck.connect.duplicates import DuplicateHosts
from hwcheck.connect.endpoint import Endpoint, Resolver
from hwcheck.connect.links import Link, LocalLink
from hwcheck.connect.remote_command import interpreter, shell_line
from hwcheck.connect.ssh_config import Jump, SshConfig
from hwcheck.connect.ssh_session import SshSession
from hwcheck.connect.supervisor import Supervisor
from hwcheck.errors import Complaints, HostError, UsageError
from hwcheck.inventory.inventory import Host
from hwcheck.results.phases import BECOME, JUMP_HOST, PYTHON


@dataclass
class _Gateway:
    """A hop that all hosts behind it share; ``error`` is why it cannot be used in this run."""

    endpoint: Endpoint
    lock: threading.Lock = field(default_factory=threading.Lock)
    session: SshSession | None = None
    error: VisitError | None = None


class Connector:
    """Starts the commands that visits run over. Safe to use from several threads.

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
        self._config = SshConfig(ssh_config)
        self._resolver = Resolver(self._config, accept_new=accept_new_host_keys)
        self._endpoints: dict[str, Endpoint] = {}
        self._gateways: dict[tuple[Jump, ...], _Gateway] = {}

    def lasting(self, visit_s: float = math.inf, run_s: float | None = None) -> Connector:
        """Return another one for the same hosts, whose visits last no longer than this.

        ``run_s`` is how long the payload may run, None where that is as before.
        """
        other = copy(self)
        run_s = self.deadlines.run_s if run_s is None else run_s
        other.deadlines = replace(self.deadlines, visit_s=visit_s, run_s=run_s)
        return other

    def prepare(self, hosts: Iterable[Host]) -> None:
        """Check what can be checked without a connection: options, keys, commands, duplicates.

        Raises UsageError that names all hosts with a mistake.
        """
        hosts = list(hosts)
        complaints = Complaints()
        for host in hosts:
            with complaints.noting():
                interpreter(host)
                if host.connection not in ("ssh", "local"):
                    problem = f"ansible_connection: {host.connection} is not supported"
                    raise HostError("", host.name, f"{problem}; use ssh or local")
        over_ssh = [host for host in hosts if host.connection == "ssh"]
        endpoints = self._resolver.hosts(over_ssh, complaints)
        self._endpoints.update(endpoints)
        duplicates = DuplicateHosts()
        for host in hosts:
            with complaints.noting():
                if host.connection == "local":
                    duplicates.add_local(host.name)
                elif host.name in endpoints:
                    endpoint = endpoints[host.name]
                    duplicates.add(host.name, endpoint, self._hops(host.name, endpoint.jumps))
        complaints.refuse()

    def has_gateway(self) -> bool:
        """Whether a host that ``prepare`` has seen is behind a jump host."""
        return bool(self._gateways)

    def as_reached(self, host: Host) -> Host:
        """Return a host that ``prepare`` has seen; who is that user already becomes nobody.

        As with Ansible, the same user needs no sudo.
        """
        if not host.become:
            return host
        local = host.connection == "local"
        user = _current_user() if local else self._endpoints[host.name].settings.user
        return replace(host, become=False) if user == host.become_user else host

    def start(self, host: Host, arguments: list[str], deadlines: Deadlines | None = None) -> Link:
        """Run the Python of a host that ``prepare`` has seen. Raises VisitError.

        ``deadlines`` are those of this visit; without them it has the connector's.
        """
        words = [*interpreter(host), *arguments]
        if host.connection == "local":
            return LocalLink(words, BECOME if host.become else PYTHON)
        endpoint = self._endpoints[host.name]
        session = self._session(endpoint, endpoint.jumps, deadlines or self.deadlines)
        return session.run(shell_line(words), self.supervisor)

    def close(self) -> None:
        """Close the gateways."""
        for gateway in self._gateways.values():
            if gateway.session is not None:
                gateway.session.close()

    def _hops(self, name: str, jumps: tuple[Jump, ...]) -> list[Endpoint]:
        """Return the endpoints of a host's hops, each of which becomes a gateway."""
        try:
            endpoints = [self._resolver.hop(jump) for jump in jumps]
        except UsageError as error:
            raise HostError("", name, str(error)) from None
        for count, endpoint in enumerate(endpoints, 1):
            self._gateways.setdefault(jumps[:count], _Gateway(endpoint))
        return endpoints

    def _session(
        self,
        endpoint: Endpoint,
        hops: tuple[Jump, ...],
        deadlines: Deadlines,
        *,
        shared: bool = False,
    ) -> SshSession:
        """Open a connection behind these hops."""
        gateway = self._gateway(hops, deadlines).connection if hops else None
        session = SshSession(endpoint, self._config.fabric, gateway, deadlines, shared=shared)
        session.open(self.supervisor)
        return session

    def _gateway(self, hops: tuple[Jump, ...], deadlines: Deadlines) -> SshSession:
        gateway = self._gateways[hops]
        with gateway.lock:
            if gateway.error is not None:  # asking again would cost every host behind it the wait
                raise gateway.error
            if gateway.session is None or not gateway.session.connection.is_connected:
                try:
                    gateway.session = self._session(
                        gateway.endpoint, hops[:-1], deadlines, shared=True
                    )
                except VisitError as error:
                    reason = f"jump host {hops[-1].host}: {error}"
                    gateway.error = VisitError(JUMP_HOST, reason)
                    raise gateway.error from None
            return gateway.session


def connection_check(*, accept_new_host_keys: bool) -> Callable[[Iterable[Host]], None]:
    """Return ``prepare`` of a connector, for a command whose own connectors come later."""
    deadlines, never = Deadlines(), threading.Event()
    return Connector(deadlines, never, accept_new_host_keys=accept_new_host_keys).prepare


def _current_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # an account that this machine has no name for
        return str(os.getuid())
