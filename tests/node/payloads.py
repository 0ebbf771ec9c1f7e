"""Run the payload's main in a process of its own and read what it sends, as a controller does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml

from hwcheck.contract.wire import CheckResult, Deframer, Report, Request, to_dict
from hwcheck.results.schema_check import schema_problem

ROOT = Path(__file__).parents[2]
TOKEN = "0123abcd"
CODE = "import json, sys; from hwcheck import checks; from hwcheck.node.main import main; "
START = "sys.exit(main(json.loads(sys.argv[1]), 'no zip', checks.load))"


@dataclass(frozen=True)
class Answer:
    """What came: the frames in order, everything that is no frame, the report, its results."""

    frames: list[dict[str, Any]]
    noise: list[str]
    log: str
    report: Report
    results: Mapping[str, CheckResult]


def run_payload(
    checks: tuple[str, ...],
    host_root: Path,
    scratch: Path,
    *,
    python: str = sys.executable,
    library: Path | None = None,
    deviation: str = "",
    before: str = "",
) -> Answer:
    """Run the named checks; ``before`` is Python run ahead of main.

    The interpreter sees this package and pynvml and nothing else, as it does in the zip.
    """
    modules = scratch / "modules"
    modules.mkdir(exist_ok=True)
    shutil.copy(pynvml.__file__, modules / "pynvml.py")
    if not (modules / "hwcheck").exists():
        (modules / "hwcheck").symlink_to(ROOT / "hwcheck")
    env = {**os.environ, "PYTHONPATH": str(modules), "PYTHONDONTWRITEBYTECODE": "1"}
    env |= {"LD_LIBRARY_PATH": str(library or "")}
    if library is not None:
        env["HWLAB_NVML"] = str(library / (deviation or "scenario"))
    request = Request(token=TOKEN, checks=checks, host_root=str(host_root))
    process = subprocess.Popen(
        [python, "-c", CODE + before + START, json.dumps(to_dict(request))],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # as the bootstrap does: the lifeline ends the process group
    )
    with process:
        try:
            # stdin stays open until the end: it is the lifeline.
            assert process.stdout
            assert process.stderr
            output, log = process.stdout.read(), process.stderr.read().decode()
            assert process.wait(60) == 0, log
        finally:
            process.kill()
    frames, noise = Deframer(TOKEN).feed(output)
    # A sign of life may follow it, while the payload ends.
    (body,) = (frame["report"] for frame in frames if frame["kind"] == "report")
    assert schema_problem(body, "report") == ""
    report = Report.from_dict(body)
    return Answer(frames, noise, log, report, {result.check: result for result in report.results})
