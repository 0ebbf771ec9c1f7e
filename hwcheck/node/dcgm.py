"""NVIDIA's own diagnostic, ``dcgmi diag``: started, and stopped with whoever asked for it."""

from __future__ import annotations

import os
import shutil

from hwcheck.contract.check import CouldNotMeasure, NotApplicable
from hwcheck.node.nccl_tests import process

LEVEL = 4
"""The longest of its levels: memory tests and the pulse test besides (DCGM User Guide)."""
LIMIT_S = 4 * 3600.0
"""On eight GPUs level 4 takes one to two hours; who waits three for it calls it hung."""
PLACES = ("/usr/bin", "/usr/local/bin")


def diagnose(payload: str) -> str:
    """Return what ``dcgmi diag -r 4 -j`` writes.

    DCGM's host engine does the work, and goes on with it when dcgmi is killed; on SIGTERM dcgmi
    has it stop (NVIDIA/DCGM, dcgmi/Diag.cpp). Raises NotApplicable where DCGM is not installed,
    CouldNotMeasure where it gives no answer.
    """
    program = shutil.which("dcgmi", path=os.pathsep.join((os.environ.get("PATH", ""), *PLACES)))
    if program is None:
        raise NotApplicable("DCGM is not installed")
    command = [program, "diag", "-r", str(LEVEL), "-j"]
    ended = process.run(
        command, dict(os.environ), payload, process.within(LIMIT_S), ends_at_term=True
    )
    if ended.why:
        reasons = {"time": "gave no answer within %g h" % (LIMIT_S / 3600)}
        raise CouldNotMeasure("%s %s" % (" ".join(command), reasons.get(ended.why, "wrote on")))
    return ended.output
