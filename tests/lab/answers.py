"""What the payload answers on a node of the lab: run as there, or in a fork that has it loaded."""

from __future__ import annotations

import compileall
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from types import TracebackType
from typing import Any

from hwcheck.connect import payload
from hwcheck.contract.wire import Deframer, Report, Request, to_dict
from hwcheck.results.schema_check import schema_problem
from tests.lab import forked_answers, kernel_answers
from tests.lab.scenario import libraries

ROOT = Path(__file__).parents[2]
ONE_AT_A_TIME = Lock()


@cache
def kept_payload() -> TemporaryDirectory[str]:
    """Return the payload as a node keeps it after its first visit: unpacked, its code compiled."""
    folder = TemporaryDirectory(prefix="hwlab-payload-")
    zipfile.ZipFile(io.BytesIO(payload.build().data)).extractall(folder.name)
    compileall.compile_dir(folder.name, quiet=1)
    return folder


def answers(
    request: Request,
    environment: Mapping[str, str],
    *,
    timeout_s: float,
    start: Sequence[str] = (),
) -> tuple[Report, list[dict[str, Any]]]:
    """Run the payload as the node would; return its report and its frames.

    ``start`` are words of Python's own before the payload. Fails where it does not end well.
    """
    with ONE_AT_A_TIME:
        folder = kept_payload().name
    done = subprocess.run(
        [sys.executable, *start, folder],
        input=json.dumps(to_dict(request)).encode(),
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, f"{request.host_root}: {done.stderr.decode()}"
    frames, _ = Deframer(request.token).feed(done.stdout)
    # A sign of life may follow it, while the payload ends.
    (report,) = (frame["report"] for frame in frames if frame["kind"] == "report")
    assert schema_problem(report, "report") == ""
    return Report.from_dict(report), frames


class Forks:
    """Asks one node after the other, each in a fork of one process (``forked_answers``).

    A context manager. ``gpus`` is whether its nodes have an NVML.
    """

    def __init__(self, *, gpus: bool) -> None:
        self._gpus = gpus

    def __enter__(self) -> Forks:
        library = libraries() / kernel_answers.LIBRARY
        environment = {"PYTHONPATH": str(ROOT), "LD_PRELOAD": str(library)}
        if self._gpus:
            environment["LD_LIBRARY_PATH"] = str(libraries())
        self._server = subprocess.Popen(
            [sys.executable, forked_answers.__file__],
            env={"PATH": os.environ["PATH"], **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(timeout=60)

    def ask(self, request: Request, environment: Mapping[str, str]) -> Report:
        """Return what a node reports; ``environment`` names the files that its kernel and NVML
        answer from."""
        answer = self.order(request, environment)
        assert answer is not None, f"{request.host_root}: no answer"
        report = {"facts": answer[forked_answers.FACTS], "results": answer["results"]}
        return Report.from_dict({**report, "duration_s": 1.0})

    def order(self, request: Request, environment: Mapping[str, str], trace: bool = False) -> Any:
        """Return an order's answer as it is, None where its fork did not live to give one."""
        order = {"environment": environment, "request": to_dict(request), "trace": trace}
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())
