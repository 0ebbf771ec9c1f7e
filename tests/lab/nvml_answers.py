"""What unmodified pynvml gets from the library, in a process of its own."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab import nvml

ROOT = Path(__file__).parents[2]

ASK = """
import ctypes, json, sys
from pynvml import *

def plain(answer):
    if hasattr(answer, "_fields_"):
        return {name: plain(getattr(answer, name)) for name, *_ in answer._fields_
                if not name.startswith("_")}
    if isinstance(answer, (list, tuple, ctypes.Array)):
        return [plain(each) for each in answer]
    if isinstance(answer, bytes):
        return answer.decode()
    if hasattr(answer, "__dict__") and not isinstance(answer, (int, str)):
        return {name: plain(value) for name, value in vars(answer).items()}
    return answer

def filled(structure, function, *arguments):
    function(*arguments, ctypes.byref(structure))
    return structure

def ask(question):
    try:
        return plain(eval(question))
    except NVMLError as error:
        return "error: " + str(error)

started = ask("nvmlInit()")
gpus = []
if started is None:
    for index in range(nvmlDeviceGetCount()):
        try:
            gpus.append(nvmlDeviceGetHandleByIndex(index))
        except NVMLError as error:
            gpus.append(None)
gpu = gpus[0] if gpus else None
print(json.dumps({"nvmlInit()": started}), flush=True)
for line in sys.stdin:
    print(json.dumps(ask(json.loads(line))), flush=True)
"""


@dataclass(frozen=True)
class Stand:
    """A library and the scenario file that it reads."""

    library: Path
    scenario: Path

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of a process that loads the library."""
        own = {"LD_LIBRARY_PATH": str(self.library), "HWLAB_NVML": str(self.scenario)}
        return {**os.environ, **own, "PYTHONPATH": str(ROOT), **more}

    def says(self, scenario: Mapping[str, Any]) -> None:
        """Let the library say this from now on."""
        nvml.write(self.scenario, scenario)

    def asker(self, **more: str) -> Asker:
        """Start a process that has loaded the library and answers questions."""
        process = subprocess.Popen(
            [sys.executable, "-c", ASK],
            env=self.environment(**more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return Asker(process)

    def answers(self, questions: Sequence[str], **more: str) -> dict[str, Any]:
        """Ask each question, an expression over pynvml with ``gpu`` and ``gpus``."""
        with self.asker(**more) as asker:
            return {"nvmlInit()": asker.started, **{each: asker.ask(each) for each in questions}}


class Asker:
    """A process with the library in it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process, self._output = process, process.stdout
        self.started = self.answer()["nvmlInit()"]

    def ask(self, question: str) -> Any:
        """Return the answer, or ``error: `` and NVML's words."""
        self.send(question)
        return self.answer()

    def send(self, question: str) -> None:
        """Ask and do not wait."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()

    def has_answered(self, within_s: float = 0) -> bool:
        """Return whether there is an answer to what was sent, waiting so long for it."""
        return bool(select.select([self._output], [], [], within_s)[0])

    def answer(self) -> Any:
        """Wait for the answer to what was sent."""
        line = self._output.readline()
        assert line, "the process ended: its standard error says why"
        return json.loads(line)

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
