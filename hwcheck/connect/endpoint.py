"""SSH servers and how to log in there: the inventory and the ssh configuration together."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from hwcheck.connect.host_keys import KnownHosts
from hwcheck.connect.login import Login, LoginKeys
from hwcheck.connect.ssh_arguments import SshArguments, ssh_arguments
from hwcheck.connect.ssh_config import Jump, SshConfig, SshSettings, key_file
from hwcheck.errors import Complaints, HostError, UsageError
from hwcheck.inventory.inventory import Host

QUESTIONS_AT_ONCE = 16
"""How many ssh processes may be asked at the same time; some of them wait for a name server."""


@dataclass(frozen=True)
class Endpoint:
    """One SSH server: where it is, the host keys that are trusted, and what to log in with.

    ``jumps`` are all hops on the way, also those before the first one that its settings name.
    """

    settings: SshSettings
    login: Login
    known_hosts: KnownHosts
    accept_new: bool
    jumps: tuple[Jump, ...] = ()
    password: str | None = field(default=None, repr=False)


class Resolver:
    """Makes endpoints. Key files and known_hosts files are read once for all hosts."""

    def __init__(self, config: SshConfig, *, accept_new: bool) -> None:
        self._config = config
        self._accept_new = accept_new
        self._keys = LoginKeys()
        self._known_hosts: dict[tuple[tuple[str, ...], tuple[str, ...]], KnownHosts] = {}
        self._hops: dict[Jump, Endpoint] = {}

    def hosts(self, hosts: Iterable[Host], complaints: Complaints) -> dict[str, Endpoint]:
        """Return the endpoint of each host, by name. ssh is asked about many at the same time.

        What is wrong with a host is noted.
        """
        arguments = []
        for host in hosts:
            with complaints.noting():
                arguments.append((host, ssh_arguments(host)))
        pool = ThreadPoolExecutor(QUESTIONS_AT_ONCE)
        endpoints = {}
        try:
            answers = [pool.submit(self._settings, host, words) for host, words in arguments]
            for (host, words), answer in zip(arguments, answers, strict=True):
                with complaints.noting():
                    endpoints[host.name] = self._of_host(host, words, answer.result())
        finally:
            pool.shutdown(cancel_futures=True)
        return endpoints

    def hop(self, jump: Jump) -> Endpoint:
        """Return a hop's endpoint. As with ssh, the target's options do not apply to it.

        Raises UsageError that names the hop.
        """
        if jump not in self._hops:
            try:
                settings = self._config.settings(jump.host, jump.words())
                self._hops[jump] = self._endpoint(settings, (), None)
            except UsageError as error:
                raise UsageError(f"jump host {jump.host}: {error}") from None
        return self._hops[jump]

    def _settings(self, host: Host, arguments: SshArguments) -> SshSettings:
        try:
            return self._config.settings(host.address, arguments.words)
        except UsageError as error:
            raise HostError("", host.name, str(error)) from None

    def _of_host(self, host: Host, arguments: SshArguments, settings: SshSettings) -> Endpoint:
        try:
            keys = tuple(key_file(name, settings.tokens) for name in arguments.identity_files)
            endpoint = self._endpoint(settings, keys, host.password)
            return replace(endpoint, jumps=self._way(settings.jumps))
        except (UsageError, ValueError) as error:
            raise HostError("", host.name, str(error)) from None

    def _way(self, jumps: tuple[Jump, ...]) -> tuple[Jump, ...]:
        """Return the hops and those before them: the first may itself be behind a jump host.

        The way between the hops is the one that is named.
        """
        way = jumps
        while way and (before := self.hop(way[0]).settings.jumps):
            if not {jump.host for jump in before}.isdisjoint(jump.host for jump in way):
                names = ", ".join(jump.host for jump in before + way)
                raise UsageError(f"ssh configuration: ProxyJump leads in a circle: {names}")
            way = before + way
        return way

    def _endpoint(
        self, settings: SshSettings, named_keys: tuple[str, ...], password: str | None
    ) -> Endpoint:
        files = settings.user_known_hosts_files, settings.global_known_hosts_files
        if files not in self._known_hosts:
            self._known_hosts[files] = KnownHosts(*files)
        return Endpoint(
            settings=settings,
            login=self._keys.login(
                named_keys,
                settings.identity_files,
                agent_socket=settings.agent_socket,
                identities_only=settings.identities_only,
            ),
            known_hosts=self._known_hosts[files],
            accept_new=self._accept_new or settings.accept_new,
            password=password,
        )
