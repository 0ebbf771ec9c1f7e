"""Runs a playbook and records it: ``provision.json`` and ``provision/events.jsonl``.

This is the only file that imports ansible-runner. The files of ansible-runner, the environment
among them, lie in a private folder that is deleted afterwards. The run folder gets one record for
each event, written here.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_runner.config.runner import RunnerConfig
from ansible_runner.runner import Runner

from hwcheck import __version__
from hwcheck.contract.wire import to_json
from hwcheck.errors import UsageError
from hwcheck.inventory import ansible
from hwcheck.inventory.guard import Lifeline
from hwcheck.provision.events import PlayEvent, play_event
from hwcheck.provision.outcome import HostOutcome, exit_code, host_outcomes, role_vars
from hwcheck.provision.request import PlaybookRequest, roles_path
from hwcheck.results.files import writing_to
from hwcheck.results.folders import write_record
from hwcheck.results.run_folder import utc_now
from hwcheck.text import line

STOP_CHECK_S = 0.5
"""How often ansible-runner looks whether to stop, in seconds."""
SSH_PROMPT = r"SSH password:\s*$"
BECOME_PROMPT = r"BECOME password[^\n]*:\s*$"
CLOSE_S = 10.0

FORMAT = 1
TASK_RAN = ("ok", "changed", "failed", "ignored")

RoleVars = dict[str, dict[str, Any]]
"""By host and by name."""


@dataclass(frozen=True)
class ProvisionRecord:
    """A playbook's run: its flags, and what became of each host. Times are UTC, ISO 8601.

    ``roles`` are those of which a task ran, in order; ``role_vars`` are their variables that the
    play itself set and reported, by host.
    """

    playbook: str
    inventory: str
    limit: str
    tags: str
    check: bool
    started: str
    exit_code: int
    roles: tuple[str, ...]
    hosts: tuple[HostOutcome, ...]
    role_vars: RoleVars = field(default_factory=dict)
    finished: str = field(default_factory=utc_now)
    version: str = __version__
    format: int = FORMAT


def provision(
    request: PlaybookRequest,
    folder: Path,
    stop: threading.Event,
    on_event: Callable[[PlayEvent], None],
) -> ProvisionRecord:
    """Run the playbook and record it in a run folder. ``on_event`` gets every event.

    Raises UsageError where Ansible refuses the playbook, and DiskError.
    """
    started = utc_now()
    roles: dict[str, None] = {}
    with _event_log(folder) as write:

        def take(event: PlayEvent) -> None:
            if event.role and event.kind in TASK_RAN:
                roles.setdefault(event.role)
            write(event)
            on_event(event)

        hosts, reported_vars, code = _Play(request, stop, take).run()
    record = ProvisionRecord(
        playbook=str(request.playbook),
        inventory=request.cluster.source,
        limit=",".join(request.only) or request.cluster.limit or "",
        tags=request.tags or "",
        check=request.check,
        started=started,
        exit_code=code,
        roles=tuple(roles),
        hosts=hosts,
        role_vars=reported_vars,
    )
    write_record(folder / "provision.json", record)
    return record


@contextmanager
def _event_log(folder: Path) -> Iterator[Callable[[PlayEvent], None]]:
    """Give a function that writes one event as a line of JSON, at once: a run may be killed."""
    with writing_to(folder):
        (folder / "provision").mkdir()
        stream = (folder / "provision" / "events.jsonl").open("w", encoding="utf-8")
    with stream:

        def write(event: PlayEvent) -> None:
            with writing_to(folder):
                stream.write(to_json(event) + "\n")
                stream.flush()

        yield write


class _Play:
    """One run of a playbook. ``on_event`` gets every event, in the thread that runs."""

    def __init__(
        self, request: PlaybookRequest, stop: threading.Event, on_event: Callable[[PlayEvent], None]
    ) -> None:
        self._request = request
        self._stop = stop
        self._on_event = on_event
        self._stats: dict[str, Any] | None = None
        self._reasons: dict[str, str] = {}
        self._at_work: set[str] = set()
        self._task_began = False
        self._other_output: list[str] = []
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
            if not self._task_began:
                name = self._request.playbook.name
                raise UsageError(f"{name}: ansible-playbook: {self._refusal()}")
            for host in self._at_work:
                self._reasons.setdefault(host, f"ansible-playbook ended: {self._refusal()}")
        complete = self._stats is not None and status in (0, 2, 4, 6)
        stats = self._stats or {}
        hosts = host_outcomes(self._request.hosts, stats, self._reasons, self._at_work)
        return hosts, role_vars(stats), exit_code(hosts, complete=complete)

    def _run(self, private: Path, sockets: Path) -> int | None:
        (private / "env").mkdir(mode=0o700)
        settings = {"pexpect_timeout": STOP_CHECK_S, "suppress_output_file": True}
        (private / "env" / "settings").write_text(json.dumps(settings))
        connection = self._request.cluster.flags
        typed = {SSH_PROMPT: connection.password, BECOME_PROMPT: connection.become_password}
        config = RunnerConfig(
            private_data_dir=str(private),
            project_dir=str(Path.cwd()),  # its ansible.cfg counts, as by hand
            playbook=str(self._request.playbook),
            inventory=self._request.cluster.source,
            cmdline=shlex.join(self._request.arguments()),
            envvars=_environment(sockets),
            # Typed at Ansible's prompt: it is in no file, no argument and no variable.
            passwords={prompt: each for prompt, each in typed.items() if each is not None} or None,
            quiet=True,
        )
        config.prepare()
        with Lifeline(private / "lifeline") as lifeline:
            config.command = lifeline.guarded(config.command)

            def cut_when_stopped() -> bool:
                # ansible-runner's own way to cancel it would leave Ansible's workers behind.
                if self._stop.is_set():
                    lifeline.cut()
                return False

            runner = Runner(config, event_handler=self._take, cancel_callback=cut_when_stopped)
            _, status = runner.run()
        return int(status) if status is not None else None

    def _take(self, event: dict[str, Any]) -> bool:
        """Take one event; False tells ansible-runner to keep nothing of it."""
        try:
            if event.get("event") == "playbook_on_stats":
                self._stats = event.get("event_data") or {}
            record = play_event(event, self._request.hide)
            if record is None:
                self._other_output.append(str(event.get("stdout", "")))
            else:
                self._pass_on(record)
        except Exception as error:  # it must come out of run(), not end in a log of the runner
            self._failure = self._failure or error
            self._stop.set()
        return False

    def _pass_on(self, event: PlayEvent) -> None:
        self._task_began = self._task_began or event.kind == "task"
        if event.host:
            self._at_work.add(event.host)
        if event.kind in ("failed", "unreachable"):
            where = f"{event.role}: {event.task}" if event.role else event.task
            self._reasons[event.host] = f"{where}: {event.text}"
        self._on_event(event)

    def _refusal(self) -> str:
        output = "\n".join(self._other_output)
        lines = [each.strip() for each in output.splitlines() if each.strip()]
        errors = [each for each in lines if "ERROR" in each]
        error = (errors or lines[-1:] or ["it printed nothing"])[0]
        return line(self._request.hide(error.removeprefix("[ERROR]:").removeprefix("ERROR!")))


def _environment(sockets: Path) -> dict[str, str]:
    return {
        **ansible.reach_environment(),
        # Unless this is set, ansible-runner switches it off.
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_ROLES_PATH": roles_path(),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets),
        "ANSIBLE_NOCOWS": "1",
        # A task that has no terminal of the node's would not end with its connection.
        "ANSIBLE_PIPELINING": "0",
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
