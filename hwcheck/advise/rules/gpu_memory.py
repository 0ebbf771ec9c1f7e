"""GPUs whose memory or arithmetic is in doubt."""

from __future__ import annotations

import re

from hwcheck.advise.rule import HostFindings, Sign, rule, sign

XIDS = ("xid", "faults_under_load")
"""Checks whose subjects end with the number of an Xid."""
MEMORY = re.compile(r"xid (48|64|92|94|95|140|156|157|160|161|168)$")


@rule(
    title="GPU memory has errors, some of which could not be corrected",
    effect="jobs end with an error, and after an uncontained error results of the whole GPU are "
    "in doubt",
    fix="drain the node, reset the GPU or reboot, test its memory, and have the board "
    "replaced when it comes back",
    confirm="nvidia-smi -q -d ECC,ROW_REMAPPER; sudo dmesg | grep -E 'Xid.*: (48|64|92|94|95)'",
    source="NVIDIA Xid catalog; NVIDIA GPU Memory Error Management; NVML API Reference Guide, "
    "nvmlDeviceGetTotalEccErrors",
)
def gpu_memory_failing(host: HostFindings) -> Sign | None:
    """Counters and kernel log are two views of one memory."""
    errors = (
        *host.bad("ecc_errors"),
        *host.bad("errors_under_load", "new_uncorrected_errors", "new_corrected_errors"),
        *(f for check in XIDS for f in host.bad(check) if MEMORY.search(f.subject)),
    )
    return sign("certain", errors)


@rule(
    title="A bad memory row or page is in use until the GPU is reset",
    effect="the next job may run into the bad cell again",
    fix="drain the node, then reset the GPU (row remapping) or load the driver again (retired "
    "pages), or reboot",
    confirm="nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT",
    source="NVIDIA GPU Memory Error Management, row remapping and dynamic page retirement",
)
def memory_repair_pending(host: HostFindings) -> Sign | None:
    """The driver says so itself."""
    remaps = host.bad("row_remap", "row_remap_pending")
    return sign("certain", (*remaps, *host.bad("retired_pages", "retired_pages_pending")))


@rule(
    title="GPU memory is worn: spare rows or pages run out",
    effect="errors that were repaired so far will end jobs",
    fix="run NVIDIA's field diagnostics and have the board replaced",
    confirm="nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT",
    source="NVIDIA GPU Memory Error Management, RMA policy thresholds",
)
def memory_worn(host: HostFindings) -> Sign | None:
    """These are counts since the board was made."""
    rows = host.bad("row_remap", "row_remap_failure", "row_remap_banks_exhausted")
    return sign("certain", (*rows, *host.bad("retired_pages", "retired_pages")))


@rule(
    title="ECC is not set as on the other GPUs",
    effect="memory errors go unnoticed where it is off, and memory and bandwidth differ between "
    "GPUs",
    fix="set it as on all nodes of the cluster (nvidia-smi -e 1 or 0), then reboot",
    confirm="nvidia-smi --query-gpu=index,ecc.mode.current,ecc.mode.pending --format=csv",
    source="NVML API Reference Guide, nvmlDeviceGetEccMode and nvmlDeviceGetDefaultEccMode",
)
def ecc_setting(host: HostFindings) -> Sign | None:
    """Memory bandwidth that differs follows from it."""
    modes = host.bad("ecc_mode")
    gpus = {finding.subject for finding in modes}
    return sign("certain", (*modes, *host.bad_on(gpus, "hbm_bandwidth")))


@rule(
    title="A GPU computes wrongly under load, and nothing else reports it",
    effect="silent data corruption: training diverges or ends in NaN, and nobody knows why",
    fix="take the GPU out of service, repeat the load with it alone, and have the board replaced",
    confirm="nvidia-smi -q -d ECC; run the load again with this GPU alone",
    source="derived: the same inputs give bit-equal products on like GPUs, so most of them name "
    "the odd one out",
)
def computes_wrongly(host: HostFindings) -> Sign | None:
    """Products of like GPUs are compared bit by bit."""
    return sign("certain", host.bad("compute_errors"))
