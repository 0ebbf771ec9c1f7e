"""One session: commands, their ends, and what must not last."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from hwcheck.connect.connector import Connector
from hwcheck.connect.deadlines import Deadlines, VisitError
from hwcheck.inventory.inventory import Host
from hwcheck.provision.state.session import Answer, AssertSession
from tests.interpreters import interpreter
from tests.lab.waiting import wait_until

HERE = Host("here", "here", connection="local", python=sys.executable)


def opened(host: Host) -> AssertSession:
    connector = Connector(Deadlines(start_s=5), threading.Event())
    connector.prepare([host])
    return AssertSession(host, connector)


@pytest.fixture
def session() -> Iterator[AssertSession]:
    found = opened(HERE)
    yield found
    found.close()


def test_status_and_both_outputs_come_back_as_they_are(session: AssertSession) -> None:
    assert session.run("printf 'a\\377\\n'; echo oops >&2; exit 3") == Answer(
        3, b"a\xff\n", b"oops\n"
    )
    assert session.run("echo $1; kill -9 $$").status == -9


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_other_pythons_of_a_node(version: str) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    found = opened(replace(HERE, python=python))
    assert found.run("echo out; echo err >&2; exit 2") == Answer(2, b"out\n", b"err\n")
    found.close()


def _is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}/fd").exists() or _is_zombie(pid)


def test_a_command_that_does_not_end_is_killed_and_the_next_runs(
    session: AssertSession, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    with pytest.raises(VisitError, match="no end within its time: sleep"):
        session.run(f"sleep 60 & echo $$ $! > {pids}; wait", 0.5)
    for pid in map(int, pids.read_text().split()):
        wait_until(partial(_is_gone, pid), 10)
    assert session.run("echo on").out == b"on\n"


def test_a_command_that_writes_without_end_is_cut_off(session: AssertSession) -> None:
    with pytest.raises(VisitError, match="more than 1 MiB"):
        session.run("yes")
    assert session.run("echo on").out == b"on\n"


def test_nothing_waits_for_input(session: AssertSession) -> None:
    assert session.run("cat").out == b""


def test_what_stands_before_a_request_is_no_request(tmp_path: Path) -> None:
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    sudo.chmod(0o755)
    # A sudo that asks for no password leaves the line for the Python that it starts.
    host = Host(
        "here",
        "here",
        connection="local",
        python=sys.executable,
        become=True,
        become_exe=str(sudo),
        become_password="s3cret",
    )
    found = opened(host)
    assert found.run("echo fine").out == b"fine\n"
    found.close()


def test_the_end_of_the_session_ends_the_command_under_way(tmp_path: Path) -> None:
    found, pid = opened(HERE), tmp_path / "pid"

    def command() -> None:
        with pytest.raises(VisitError, match="the connection was lost"):
            found.run(f"echo $$ > {pid}; sleep 60")

    thread = threading.Thread(target=command)
    thread.start()
    end = time.monotonic() + 10
    while not (pid.exists() and pid.read_text().strip()):
        assert time.monotonic() < end
        thread.join(0.02)
    found._link._stdin.close()  # type: ignore[attr-defined] # as when the connection breaks
    thread.join(10)
    assert not thread.is_alive()
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()
    with pytest.raises(VisitError, match="the connection was lost"):
        found.run("echo after")
    found.close()


def test_a_host_without_python_says_so() -> None:
    with pytest.raises(VisitError, match="not found"):
        opened(Host("here", "here", connection="local", python="/no/such/python3"))


def _is_zombie(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}") and ") Z " in Path(f"/proc/{pid}/stat").read_text()
