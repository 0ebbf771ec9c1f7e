"""One connection for each host of a worker, opened when its first assertion needs it."""

from __future__ import annotations

import threading

import testinfra.host

from hwcheck.connect.connector import Connector
from hwcheck.connect.deadlines import Deadlines, VisitError
from hwcheck.inventory.inventory import Cluster, Host
from hwcheck.provision.state.backend import SessionBackend
from hwcheck.provision.state.session import AssertSession

GATEWAY_LOGINS = 8
"""Fewer than the 10 from which on sshd refuses some (sshd_config(5), MaxStartups 10:30:100)."""


class Connections:
    """Opens sessions and keeps them until ``leave``. Raises UsageError where no host can be tried.

    It may be built before a fork: nothing is opened by then.
    """

    def __init__(self, cluster: Cluster, *, accept_new_host_keys: bool = False) -> None:
        self._connector = Connector(
            Deadlines(), threading.Event(), accept_new_host_keys=accept_new_host_keys
        )
        self._connector.prepare(cluster.hosts)
        self._open: dict[str, tuple[AssertSession, testinfra.host.Host]] = {}
        self._errors: dict[str, VisitError] = {}

    def host(self, host: Host) -> testinfra.host.Host:
        """Return testinfra's host. Raises VisitError, at once where it could not be reached."""
        if host.name in self._errors:
            raise self._errors[host.name]
        if host.name not in self._open:
            try:
                session = AssertSession(host, self._connector)
            except VisitError as error:
                self._errors[host.name] = error
                raise
            self._open[host.name] = session, _spoken_to(host.name, session)
        return self._open[host.name][1]

    def most_at_once(self, wanted: int) -> int:
        """Return how many processes may connect at the same time, at most ``wanted``.

        Each has a connection of its own to a jump host, whose sshd begins to turn new ones away.
        """
        return min(wanted, GATEWAY_LOGINS) if self._connector.has_gateway() else wanted

    def leave(self, host: Host) -> None:
        """Close the host's session, if it has one."""
        if host.name in self._open:
            self._open.pop(host.name)[0].close()

    def close(self) -> None:
        """Close the gateways."""
        self._connector.close()


def _spoken_to(name: str, session: AssertSession) -> testinfra.host.Host:
    backend = SessionBackend(name, session)
    host = testinfra.host.Host(backend)
    backend.set_host(host)
    return host
