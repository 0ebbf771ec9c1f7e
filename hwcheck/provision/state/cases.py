"""Which assertions there are: every test, for every host and value that it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Cluster, Host
from hwcheck.provision.role_vars import RoleVars, defaults
from hwcheck.provision.state.asserts import NOTHING_WANTED, Asserts

PREFIX = "test_"
APPLIED_BY = {"nvidia_repository": "nvidia_driver"}
"""Roles that come in with another one, and by the other one's tag."""


@dataclass(frozen=True)
class AssertCase:
    """One assertion: what ``variable`` of ``role`` wants of a host. ``label`` tells its element.

    ``problem`` says why it is not known what the role wants there, if so.
    """

    host: Host
    role: str
    variable: str
    label: str
    wanted: Any = field(repr=False)
    role_vars: Mapping[str, Any] = field(repr=False)
    problem: str = ""

    @property
    def id(self) -> str:
        """Return what stands between the brackets of the test's name."""
        return f"{self.host.name}-{self.label}" if self.label else self.host.name


def roles_with_assertions() -> tuple[str, ...]:
    """Return the roles that have a test file here."""
    files = sorted(Path(__file__).parent.glob(f"{PREFIX}*.py"))
    return tuple(file.stem.removeprefix(PREFIX) for file in files)


class Cases:
    """The cases of a run; ``of`` is called once for each test. ``role_vars`` are by host."""

    def __init__(
        self, cluster: Cluster, roles: Sequence[str], role_vars: Mapping[str, RoleVars]
    ) -> None:
        self._cluster = cluster
        self._roles = roles
        self._role_vars = role_vars
        self.counts = dict.fromkeys((host.name for host in cluster.hosts), 0)

    def of(self, function: Callable[..., None]) -> list[AssertCase]:
        """Return the cases of a test, host by host. Raises UsageError for one without @asserts."""
        role = function.__module__.rpartition(".")[2].removeprefix(PREFIX)
        if role not in self._roles:
            return []
        about = getattr(function, "asserts", None)
        if not isinstance(about, Asserts):
            raise UsageError(f"{function.__name__}: say with @asserts which variable it is about")
        cases = [case for host in self._cluster.hosts for case in self._for(host, role, about)]
        for case in cases:
            self.counts[case.host.name] += 1
        return cases

    def _for(self, host: Host, role: str, about: Asserts) -> Iterator[AssertCase]:
        of_host = self._role_vars[host.name]
        if problem := of_host.problem(role):
            yield AssertCase(host, role, about.variable, "", None, {}, problem)
            return
        variables = {name: of_host.values[name] for name in defaults(role)}
        value = variables[about.variable]
        if not about.when(variables) or _nothing(value):
            return
        if not about.each:
            yield AssertCase(host, role, about.variable, "", value, variables)
            return
        for label, element in _elements(value):
            yield AssertCase(host, role, about.variable, label, element, variables)


def _nothing(value: Any) -> bool:
    return not isinstance(value, bool) and (value in NOTHING_WANTED or value in ([], {}))


def _elements(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, wanted in value.items():
            yield str(name), (name, wanted)
        return
    for number, wanted in enumerate(value):
        yield str(wanted) if isinstance(wanted, str) else str(number), wanted
