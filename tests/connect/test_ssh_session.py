from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import fabric
import paramiko
import pytest

from hwcheck.connect.deadlines import Deadlines, VisitError
from hwcheck.connect.endpoint import Endpoint
from hwcheck.connect.host_keys import HostKeyPolicy, KnownHosts
from hwcheck.connect.login import Login
from hwcheck.connect.ssh_config import SshConfig, SshSettings
from hwcheck.connect.ssh_session import SshSession
from hwcheck.connect.supervisor import Supervisor

QUICK = Deadlines(connect_s=10, banner_s=2, authentication_s=2)
"""Not shorter: on a busy machine the thread of the server is late."""


def session(
    tmp_path: Path, port: int = 22, config: fabric.Config | None = None, **fields: object
) -> SshSession:
    login = Login({"pkey": None, "allow_agent": False, "look_for_keys": False}, "", "no key")
    known_hosts = KnownHosts((str(tmp_path / "known_hosts"),))
    settings = SshSettings("127.0.0.1", port, "ann", **fields)  # type: ignore[arg-type]
    endpoint = Endpoint(settings, login, known_hosts, accept_new=False)
    return SshSession(endpoint, config or SshConfig().fabric, None, QUICK)


def failure(opened: SshSession, stop: threading.Event | None = None) -> VisitError:
    with pytest.raises(VisitError) as caught:
        opened.open(Supervisor(stop or threading.Event()))
    return caught.value


@contextmanager
def server(says: bytes, *, then_close: bool) -> Iterator[int]:
    """Accept connections, say something to each, and close them or keep silent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:  # the test is over
                    return
                connection.sendall(says)
                if then_close:
                    connection.close()
                taken.append(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in taken:
                connection.close()


def test_fabrics_policy_of_accepting_any_key_is_off(tmp_path: Path) -> None:
    plain = fabric.Connection("127.0.0.1")
    assert isinstance(plain.client._policy, paramiko.AutoAddPolicy), "the control: what Fabric does"
    ours = session(tmp_path).connection.client
    assert isinstance(ours._policy, HostKeyPolicy)
    assert not isinstance(ours._policy, paramiko.AutoAddPolicy)
    key = paramiko.ECDSAKey.generate()
    with pytest.raises(VisitError, match="host key: unknown"):
        ours._policy.missing_host_key(ours, "127.0.0.1", key)


def test_the_policy_has_the_name_that_known_hosts_files_use(tmp_path: Path) -> None:
    assert session(tmp_path, 2222)._policy._name == "[127.0.0.1]:2222"
    assert session(tmp_path, 2222, host_key_alias="n1")._policy._name == "n1"


def test_an_agent_is_asked_at_its_own_socket(tmp_path: Path) -> None:
    assert session(tmp_path).connection.client._agent is None
    plain = session(tmp_path)._endpoint
    login = replace(plain.login, agent_socket="/the/agent")
    ours = SshSession(replace(plain, login=login), SshConfig().fabric, None, QUICK)
    assert ours.connection.client._agent._path == "/the/agent"


def test_opening_reads_no_configuration_that_another_thread_may_rebuild(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = fabric.Config()
    merges = []
    monkeypatch.setattr(fabric.Config, "merge", lambda self: merges.append(self))
    opened = session(tmp_path, config=config)
    assert not merges, "building a connection rebuilt the shared configuration"
    called = []
    opened.connection.client.connect = lambda **arguments: called.append(arguments)
    opened.connection._set(_config={})  # as it is for a moment while it is rebuilt
    opened.connection.open()
    assert called[0]["hostname"] == "127.0.0.1"
    with pytest.raises(AttributeError):
        _ = fabric.Connection("h", config=fabric.Config(), gateway=False).no_such_key


@pytest.mark.parametrize(
    ("says", "then_close", "phase", "reason"),
    [
        (b"", False, "banner", "accepted the connection but sent no SSH banner within 2 s"),
        (b"", True, "banner", "closed the connection before the SSH banner"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n" * 100, True, "banner", "no SSH server: "),
        (b"SSH-1.5-old\r\n", False, "key exchange", "Incompatible version (1.5 instead of 2.0)"),
        (b"SSH-2.0-mute\r\n", False, "key exchange", "not finished within 2 s"),
    ],
)
def test_servers_that_are_none(
    tmp_path: Path, says: bytes, then_close: bool, phase: str, reason: str
) -> None:
    started = time.monotonic()
    with server(says, then_close=then_close) as port:
        error = failure(session(tmp_path, port))
    assert (error.phase, error.state) == (phase, "unreachable")
    assert error.reason.text.startswith(reason)
    assert time.monotonic() - started < 20


def test_a_closed_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = failure(session(tmp_path, port))
    assert str(error) == f"connect: 127.0.0.1:{port}: Connection refused"


def test_stop_ends_a_connection_that_hangs(tmp_path: Path) -> None:
    stop = threading.Event()
    with server(b"", then_close=False) as port:
        timer = threading.Timer(0.1, stop.set)
        timer.start()
        error = failure(session(tmp_path, port), stop)
        timer.join()
    assert error.reason.text == "interrupted"


def test_a_proxy_command_says_why(tmp_path: Path) -> None:
    command = ("sh", "-c", "echo no route to 127.0.0.1:2222 for ann >&2")
    error = failure(session(tmp_path, 2222, proxy_command=command))
    expected = "banner: closed the connection before the SSH banner: "
    assert str(error) == expected + "no route to 127.0.0.1:2222 for ann"


def test_a_proxy_command_that_says_nothing(tmp_path: Path) -> None:
    error = failure(session(tmp_path, proxy_command=("true",)))
    assert str(error) == "banner: closed the connection before the SSH banner"


def test_a_proxy_command_that_is_not_there(tmp_path: Path) -> None:
    error = failure(session(tmp_path, proxy_command=("/no/such/command",)))
    assert str(error) == "connect: proxy command /no/such/command: No such file or directory"


def test_the_end_of_the_visit_ends_the_phase_that_it_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visit = Deadlines(connect_s=30, banner_s=30, authentication_s=30, visit_s=0.5).begun()
    started = time.monotonic()
    with server(b"", then_close=False) as port:
        opened = session(tmp_path, port)
        monkeypatch.setattr(opened, "_deadlines", visit)
        opened.connection.connect_kwargs["banner_timeout"] = visit.banner_s
        error = failure(opened)
    assert time.monotonic() - started < 5
    assert (error.phase, error.state) == ("banner", "unreachable")
    assert error.reason.text.startswith("not finished within 0.")
