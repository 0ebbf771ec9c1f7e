"""A GPU does not answer any more."""

from __future__ import annotations

import re

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule

XIDS = ("xid", "faults_under_load")
LOST = re.compile(r"xid (79|143)$")
RECOVERY = re.compile(r"xid 154$")
WANTED = ("restart_events", "reset_events")


@rule(
    title="A GPU is lost: it fell off the bus, or takes no work until it is reset",
    follows="every job on the node ends, and tools that open all GPUs fail or hang",
    fix="drain the node; reset the GPU, or power the node off and on; when it happens again, "
    "reseat the board and its power cables, then have it replaced",
    confirm="sudo dmesg | grep -E 'Xid.*: (79|143|154)'; nvidia-smi -L; lspci -d 10de:",
    source="NVIDIA Xid catalog, Xid 79, 143 and 154; NVML API Reference Guide, "
    "NVML_ERROR_GPU_IS_LOST",
)
def gpu_lost(case: Case) -> Sign | None:
    """Look for it. What cannot be measured while a GPU is lost follows from it."""
    lost = (*case.bad("gpu_lost"), *case.bad("faults_under_load", "gpu_answer_after_load"))
    logged = [f for check in XIDS for f in case.bad(check) if LOST.search(f.subject)]
    logged += [f for check in XIDS for f in case.bad(check, *WANTED) if RECOVERY.search(f.subject)]
    counted = case.bad("gpu_count") if lost or logged else ()
    blinded = [f for f in case.findings if f.outcome == "inconclusive"] if lost else []
    return sign("certain", (*lost, *logged, *counted, *blinded))
