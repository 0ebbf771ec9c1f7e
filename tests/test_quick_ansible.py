"""The server of Ansible's programs outlives callers that are killed or cannot be served."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.quick_ansible.ansible import KEY_BYTES, SERVER

pytestmark = pytest.mark.skipif(
    "HWCHECK_TEST_ANSIBLE" in os.environ, reason="another ansible-core is started as it is"
)
KEY = os.urandom(KEY_BYTES)
COMMAND = (sys.executable, "-m", "ansible", "inventory", "--list", "-i", "one,")


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
