"""`hwcheck state`, `provision` and `rollout`: what their user sees of mistakes and of Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HWCHECK = Path(sys.executable).parent / "hwcheck"
HERE = "all:\n  hosts:\n    here: {ansible_connection: local, ansible_python_interpreter: PYTHON}\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("state", "--forks", "0"), "--forks 0: it takes a whole number from 1"),
        (
            ("state", "--roles", "nosuch"),
            "nosuch: no role with assertions; known: container_toolkit",
        ),
        (("state", "--hosts", "nosuch.yml"), "no such inventory: nosuch.yml"),
        (("provision", "--playbook", "nosuch.yml"), "no such playbook: nosuch.yml"),
        (("provision", "--hosts", "nosuch.yml"), "no such inventory: nosuch.yml"),
        (("rollout", "--hosts", "here.yml", "--batch", "0"), "--batch 0: it takes a whole number"),
        (("rollout", "--hosts", "here.yml", "--canary", "n9"), "--canary n9: no such host"),
    ],
)
def test_a_mistake_is_one_line_and_2(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    (tmp_path / "here.yml").write_text(HERE.replace("PYTHON", sys.executable))
    done = subprocess.run([HWCHECK, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert why in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_variable_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    text = HERE.replace("PYTHON", f"{sys.executable}, nccl_version: '{{{{ nosuch }}}}'")
    (tmp_path / "here.yml").write_text(text)
    line = [HWCHECK, "state", "--hosts", "here.yml"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "here: nccl_version: 'nosuch' is undefined" in done.stderr


def test_it_says_more_where_that_is_asked(tmp_path: Path) -> None:
    (tmp_path / "here.yml").write_text(HERE.replace("PYTHON", sys.executable))
    line = [HWCHECK, "state", "--hosts", "here.yml", "--roles", "nccl", "-e", "nccl_conf=absent"]
    few, more = (
        subprocess.run([*line, *words], cwd=tmp_path, capture_output=True, text=True).stdout
        for words in ([], ["-v"])
    )
    assert "test_nccl.py::" in more
    assert "test_nccl.py::" not in few


def test_ctrl_c_ends_it_and_its_workers(tmp_path: Path, real_ansible: None) -> None:
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\necho $PPID >{tmp_path}/worker\nexec sleep 600\n")
    script.chmod(0o755)
    (tmp_path / "slow.yml").write_text(HERE.replace("PYTHON", str(script)))
    line = [HWCHECK, "state", "--hosts", "slow.yml"]
    with subprocess.Popen(
        line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        worker, end = tmp_path / "worker", time.monotonic() + 60
        while not (worker.exists() and worker.read_text().strip()):
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert err.endswith("hwcheck: interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(worker.read_text()), 0)
