"""testinfra on our own sessions: one SSH connection to a host for all of its assertions."""

from __future__ import annotations

from typing import Any

from testinfra.backend.base import BaseBackend, CommandResult

from hwcheck.provision.state.session import AssertSession


class SessionBackend(BaseBackend):  # type: ignore[misc]
    """A testinfra backend over an open session; give it to ``testinfra.host.Host``."""

    NAME = "hwcheck"

    def __init__(self, name: str, session: AssertSession) -> None:
        super().__init__(name)
        self._session = session

    def run(self, command: str, *args: str, **kwargs: Any) -> CommandResult:  # noqa: ARG002
        """Run a command, with its arguments quoted. Raises VisitError when there is no answer."""
        line = self.get_command(command, *args)
        answer = self._session.run(line)
        return self.result(answer.status, line.encode(), answer.out, answer.err)

    def decode(self, data: bytes) -> str:
        """Read as UTF-8, whatever the host says its locale is; nothing it writes is an error."""
        return data.decode("utf-8", "replace")
