"""What the payload answers on a node of the lab, as one request and all its frames."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hwcheck.node.wire import Deframer, Report, Request, to_dict
from hwcheck.results.schema_check import schema_problem


def answers(
    zipped: Path,
    request: Request,
    environment: Mapping[str, str],
    *,
    timeout_s: float,
    start: Sequence[str] = (),
) -> tuple[Report, list[dict[str, Any]]]:
    """Run the payload as the node would; return its report and its frames.

    ``start`` are words of Python's own before the payload. Fails where it does not end well.
    """
    done = subprocess.run(
        [sys.executable, *start, str(zipped)],
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
