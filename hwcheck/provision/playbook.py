"""Runs a playbook with ansible-runner; the only file that touches it.

Its files (the environment among them) lie in a private folder that is gone afterwards. What the run
folder gets is written by us, event by event.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_runner.config.runner import RunnerConfig
from ansible_runner.runner import Runner

from hwcheck.errors import UsageError
from hwcheck.inventory import ansible
from hwcheck.provision.events import Happening, happening
from hwcheck.provision.outcome import HostOutcome, exit_code, host_outcomes, role_vars
from hwcheck.provision.request import Request, roles_path
from hwcheck.text import line

ASK_S = 0.5
"""How often ansible-runner asks whether to stop, in seconds."""
PROMPT = r"BECOME password[^\n]*:\s*$"
CLOSE_S = 10.0

RoleVars = dict[str, dict[str, Any]]
"""By host and by name."""


class Play:
    """One run of a playbook. ``heard`` gets every event, in the thread that runs."""

    def __init__(
        self, request: Request, stop: threading.Event, heard: Callable[[Happening], None]
    ) -> None:
        self._request = request
        self._stop = stop
        self._heard = heard
        self._stats: dict[str, Any] | None = None
        self._reasons: dict[str, str] = {}
        self._said: list[str] = []
        self._failure: Exception | None = None

    def run(self) -> tuple[tuple[HostOutcome, ...], RoleVars, int]:
        """Run it; return what became of each host, what the play set of roles, and the exit code.

        Raises UsageError where Ansible refuses the playbook or the inventory: nothing was done.
        """
        with tempfile.TemporaryDirectory(prefix="hwcheck-") as name, _control_paths() as sockets:
            status = self._run(Path(name), sockets)
        if self._failure is not None:
            raise self._failure
        if self._stats is None and not self._stop.is_set():
            raise UsageError(f"{self._request.playbook.name}: ansible-playbook: {self._refusal()}")
        complete = self._stats is not None and status in (0, 2, 4, 6)
        stats = self._stats or {}
        hosts = host_outcomes(self._request.hosts, stats, self._reasons)
        return hosts, role_vars(stats), exit_code(hosts, complete=complete)

    def _run(self, private: Path, sockets: Path) -> int | None:
        (private / "env").mkdir(mode=0o700)
        settings = {"pexpect_timeout": ASK_S, "suppress_output_file": True}
        (private / "env" / "settings").write_text(json.dumps(settings))
        password = self._request.become.password
        config = RunnerConfig(
            private_data_dir=str(private),
            project_dir=str(Path.cwd()),  # its ansible.cfg counts, as by hand
            playbook=str(self._request.playbook),
            inventory=self._request.cluster.source,
            cmdline=shlex.join(self._request.arguments()),
            envvars=_environment(sockets),
            # Typed where Ansible asks for it: it is in no file, no argument and no variable.
            passwords={PROMPT: password} if password is not None else None,
            quiet=True,
        )
        config.prepare()
        runner = Runner(config, event_handler=self._take, cancel_callback=self._stop.is_set)
        _, status = runner.run()
        return int(status) if status is not None else None

    def _take(self, event: dict[str, Any]) -> bool:
        """Take one event; False tells ansible-runner to keep nothing of it."""
        try:
            if event.get("event") == "playbook_on_stats":
                self._stats = event.get("event_data") or {}
            found = happening(event, self._request.hide)
            if found is None:
                self._said.append(str(event.get("stdout", "")))
            else:
                self._note(found)
        except Exception as error:  # it must come out of run(), not end in a log of the runner
            self._failure = self._failure or error
            self._stop.set()
        return False

    def _note(self, found: Happening) -> None:
        if found.kind in ("failed", "unreachable"):
            where = f"{found.role}: {found.task}" if found.role else found.task
            self._reasons[found.host] = f"{where}: {found.text}"
        self._heard(found)

    def _refusal(self) -> str:
        lines = [one.strip() for text in self._said for one in text.splitlines() if one.strip()]
        errors = [one for one in lines if "ERROR" in one]
        said = (errors or lines[-1:] or ["it said nothing"])[0]
        return line(self._request.hide(said.removeprefix("[ERROR]:").removeprefix("ERROR!")))


def _environment(sockets: Path) -> dict[str, str]:
    programs = str(Path(sys.executable).parent)
    return {
        **ansible.plain_environment(),
        "PATH": os.pathsep.join([programs, os.environ.get("PATH", os.defpath)]),
        # ansible-runner switches it off where nobody says so.
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_ROLES_PATH": roles_path(),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets),
        "ANSIBLE_NOCOWS": "1",
    }


@contextmanager
def _control_paths() -> Iterator[Path]:
    """Give ssh a folder for its shared connections, and close those at the end.

    A socket's path may have 108 bytes, so it lies in /tmp whatever TMPDIR says.
    """
    with tempfile.TemporaryDirectory(prefix="hw-", dir="/tmp") as name:
        try:
            yield Path(name)
        finally:
            for socket in Path(name).iterdir():
                subprocess.run(
                    ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "nobody"],  # noqa: S607
                    capture_output=True,
                    timeout=CLOSE_S,
                    check=False,
                )
