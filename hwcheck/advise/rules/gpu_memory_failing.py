"""Memory errors that ECC could not correct."""

from __future__ import annotations

import re

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule

XIDS = ("xid", "faults_under_load")
MEMORY = re.compile(r"xid (48|64|92|94|95|140|156|157|160|161|168)$")


@rule(
    title="GPU memory has errors, some of which could not be corrected",
    follows="jobs end with an error, and after an uncontained error results of the whole GPU are "
    "in doubt",
    fix="drain the node, reset the GPU or reboot, test its memory, and have the board "
    "replaced when it comes back",
    confirm="nvidia-smi -q -d ECC,ROW_REMAPPER; sudo dmesg | grep -E 'Xid.*: (48|64|92|94|95)'",
    source="NVIDIA Xid catalog; NVIDIA GPU Memory Error Management; NVML API Reference Guide, "
    "nvmlDeviceGetTotalEccErrors",
)
def gpu_memory_failing(case: Case) -> Sign | None:
    """Look for it. Counters and kernel log are two views of one memory."""
    own = (
        *case.bad("ecc_errors"),
        *case.bad("errors_under_load", "new_uncorrected_errors", "new_corrected_errors"),
        *(f for check in XIDS for f in case.bad(check) if MEMORY.search(f.subject)),
    )
    return sign("certain", own)
