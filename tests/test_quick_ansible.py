"""The server of Ansible's programs and of hwcheck is as what it stands in for.

It outlives callers that are killed or cannot be served.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.waiting import wait_until
from tests.quick_ansible.ansible import KEY_BYTES, SERVER

pytestmark = pytest.mark.skipif(
    "HWCHECK_TEST_ANSIBLE" in os.environ, reason="another ansible-core is started as it is"
)
KEY = os.urandom(KEY_BYTES)
COMMAND = (sys.executable, "-m", "ansible", "inventory", "--list", "-i", "one,")
HWCHECK = Path(sys.executable).with_name("hwcheck")


def ansible(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(COMMAND, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("text", [None, b"", b'{"who": [', b'{"who": []}'])
def test_a_caller_that_was_killed_before_it_had_asked(text: bytes | None, tmp_path: Path) -> None:
    for _ in range(2):
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(os.environ[SERVER])
            if text is not None:
                socket.send_fds(server, [KEY], [0, 1, 2])
                server.sendall(text)
            server.shutdown(socket.SHUT_WR)
            assert server.recv(1) == b""
    assert '"one"' in ansible(tmp_path).stdout


def test_a_configuration_that_ansible_refuses_is_refused_each_time(tmp_path: Path) -> None:
    (tmp_path / "ansible.cfg").write_text("[defaults]\nforks = many\n")
    for _ in range(3):
        refusal = ansible(tmp_path)
        assert refusal.returncode == 5
        assert "DEFAULT_FORKS" in refusal.stderr
    (tmp_path / "ansible.cfg").unlink()
    assert '"one"' in ansible(tmp_path).stdout


PYTHON = """\
#!/bin/sh
tr '\\0' ' ' </proc/$PPID/cmdline >parent.new
mv parent.new parent
exec sleep 600
"""
INVENTORY = "all: {hosts: {here: {ansible_connection: local, ansible_python_interpreter: PYTHON}}}"


def validate(folder: Path) -> subprocess.Popen[str]:
    """Validate a host that does not answer, until its interpreter has been started."""
    (folder / "python").write_text(PYTHON)
    (folder / "python").chmod(0o755)
    (folder / "here.yml").write_text(INVENTORY.replace("PYTHON", f"{folder}/python"))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [HWCHECK, "validate", "--hosts", "here.yml", "--only", "kernel"]
    process = subprocess.Popen(command, cwd=folder, text=True, start_new_session=True, **pipes)  # type: ignore[call-overload]
    wait_until((folder / "parent").exists, 60)
    return process  # type: ignore[no-any-return]


@pytest.mark.parametrize("quick", [True, False])
def test_hwcheck_ends_by_a_signal_as_it_does_by_itself(
    quick: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not quick:
        request.getfixturevalue("real_ansible")
    with validate(tmp_path) as process:
        assert ("quick_ansible/server.py" in (tmp_path / "parent").read_text()) == quick
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "here: lost after" in err
    assert err.endswith("python: interrupted\n")


def test_hwcheck_that_is_killed_is_gone(tmp_path: Path) -> None:
    with validate(tmp_path) as process:
        assert "quick_ansible/server.py" in (tmp_path / "parent").read_text()
        process.kill()
        process.communicate(timeout=60)  # its end of the pipes is closed
    assert process.returncode == -signal.SIGKILL


def test_hwcheck_answers_as_it_does_by_itself(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def answers() -> list[tuple[int, str, str]]:
        found = []
        for words in (["--version"], ["report", "nothing"], ["validate", "--nosuch"]):
            done = subprocess.run([HWCHECK, *words], cwd=tmp_path, capture_output=True, text=True)
            found.append((done.returncode, done.stdout, done.stderr))
        return found

    quick = answers()
    assert [code for code, _, _ in quick] == [0, 2, 2]
    request.getfixturevalue("real_ansible")
    assert answers() == quick
