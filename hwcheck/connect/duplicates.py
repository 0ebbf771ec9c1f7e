"""Two names for one node, which would be loaded twice at once and reported twice."""

from __future__ import annotations

import ipaddress
from collections.abc import Hashable, Iterable

from hwcheck.connect.endpoint import Endpoint
from hwcheck.errors import HostError

SSH_PORT = 22
THIS_MACHINE = "this machine"
LOCAL_NAMES = {"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"}

Place = tuple[str, int]


class DuplicateHosts:
    """Refuses a second name for the same address, port and route; no name is looked up.

    Port 22 of a loopback address is this machine; another port may be a tunnel's end.
    """

    def __init__(self) -> None:
        self._names: dict[Hashable, str] = {}
        self._local = ""

    def add_local(self, name: str) -> None:
        """Note a host with a local connection (``inventory.read`` lets one of them pass).

        Raises HostError where SSH leads to this machine too.
        """
        self._local = self._local or name
        if THIS_MACHINE in self._names:
            raise _duplicate(self._names[THIS_MACHINE], name, THIS_MACHINE)

    def add(self, name: str, endpoint: Endpoint, hops: Iterable[Endpoint]) -> None:
        """Note a host that is reached over these hops. Raises HostError for a second name."""
        place = _place(endpoint)
        route: tuple[Hashable, ...] = tuple(_place(hop) for hop in hops)
        # The same address behind another hop or proxy may be another site's.
        route = route or tuple(word.lower() for word in endpoint.settings.proxy_command)
        here = not route and place[0] == THIS_MACHINE
        where = THIS_MACHINE if here else f"{place[0]}:{place[1]}"
        first = self._names.setdefault(THIS_MACHINE if here else (route, place), name)
        if here and self._local:
            first = self._local
        if first != name:
            raise _duplicate(first, name, where)


def _duplicate(first: str, second: str, where: str) -> HostError:
    problem = f"{first} is {where} too; remove one or change its ansible_host"
    return HostError("", second, problem)


def _place(endpoint: Endpoint) -> Place:
    name, port = endpoint.settings.hostname.lower().rstrip("."), endpoint.settings.port
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        local = only_local = name in LOCAL_NAMES or name.endswith(".localhost")
    else:
        address = getattr(address, "ipv4_mapped", None) or address
        name = str(address)
        local = address.is_loopback or address.is_unspecified
        # Tunnels are told apart by 127.0.0.2, 127.0.0.3 as well as by their ports.
        only_local = local and name in ("127.0.0.1", "::1", "0.0.0.0", "::")  # noqa: S104
    if only_local:
        name = "localhost"
    return (THIS_MACHINE if local and port == SSH_PORT else name), port
