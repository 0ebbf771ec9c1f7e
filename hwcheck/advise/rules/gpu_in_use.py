"""Somebody is at work on a GPU."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="A process of somebody else is on a GPU",
    follows="it takes memory and time from what is measured and from the next job",
    fix="find the owner; where the job is over, end the process and see that its memory is free",
    confirm="nvidia-smi pmon -c 1; nvidia-smi --query-compute-apps=pid,name,used_memory "
    "--format=csv",
    source="NVML API Reference Guide, nvmlDeviceGetComputeRunningProcesses",
)
def gpu_in_use(case: Case) -> Sign | None:
    """Look for it. A GPU at work is warm, too."""
    own = case.bad("stray_processes")
    gpus = {finding.subject for finding in own}
    return sign("certain", (*own, *case.of(gpus, "temperature_idle")))
