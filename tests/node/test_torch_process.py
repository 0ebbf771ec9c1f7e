from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.node import torch_process

ROOT = str(Path(torch_process.__file__).parents[2])

CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from hwcheck.node import torch_process
send, fd = torch_process.sender()
print("chatter")
send({"arguments": sys.argv[1:], "fd": fd, "orders": sys.stdin.read()})
"""


def start(boot: str, tmp_path: Path, python: str = sys.executable) -> tuple[str, str]:
    """Return what the child sent and what it printed."""
    orders, log = tmp_path / "orders", tmp_path / "log"
    orders.write_bytes(b"orders")
    with orders.open("rb") as stdin, log.open("wb") as stream:
        process = torch_process.start(python, boot, ROOT, stdin, stream.fileno())
        assert process.stdout is not None
        sent = process.stdout.read().decode()
        process.wait(30)
        torch_process.end(process)
    return sent, log.read_text()


def test_messages_leave_on_stdout_and_chatter_goes_to_the_log(tmp_path: Path) -> None:
    sent, log = start(CHILD, tmp_path)
    message = json.loads(sent)
    assert message.pop("fd") > 2
    assert message == {"arguments": [ROOT], "orders": "orders"}
    assert log == "chatter\n"


def test_a_module_in_the_current_folder_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("print('planted')\n")
    monkeypatch.chdir(tmp_path)
    planted = start("import json", tmp_path)
    assert planted[0] == "planted\n"
    assert "planted" not in "".join(start(torch_process.BOOT % "json.tool", tmp_path))


def test_a_child_that_will_not_end_is_killed(tmp_path: Path) -> None:
    boot = "import threading; threading.Event().wait()"
    process = torch_process.start(sys.executable, boot, ROOT, subprocess.DEVNULL, 2)
    torch_process.end(process)
    assert process.returncode == -9


def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    wanted = r"^/no/python cannot be started \(No such file.*\): set hwcheck_torch_python to an"
    with pytest.raises(CouldNotMeasure, match=wanted):
        start(CHILD, tmp_path, "/no/python")


def test_a_death_is_told_with_the_last_line() -> None:
    assert torch_process.death(-9, "py", "") == (
        "py, started to import torch, was killed by signal 9: "
    )
    assert torch_process.death(3, "py", "one\ntwo").endswith("exited with code 3: two")


def test_what_torch_lacks_is_told_with_the_interpreter() -> None:
    def absent() -> str:
        raise ImportError("No module named 'torch'", name="torch")

    def broken() -> str:
        raise ImportError("libcudart.so: cannot open")

    where = f"under {sys.executable}: set hwcheck_torch_python to an interpreter that has it"
    assert torch_process.torch_problem(absent) == "no torch " + where
    assert torch_process.torch_problem(broken) == (
        "torch cannot be imported (libcudart.so: cannot open) " + where
    )
    assert torch_process.torch_problem(lambda: "torch 2 has no CUDA") == (
        "torch 2 has no CUDA " + where
    )
    assert torch_process.torch_problem(lambda: "") == ""
