"""GPUs whose memory or arithmetic is in doubt."""

from __future__ import annotations

import re

from hwcheck.advise.rule import HostFindings, Sign, rule, sign
from hwcheck.judge.records import NEIGHBORS, Finding
from hwcheck.results.site_limits import ABSENT

CORRECTED = re.compile(r"(xid 92|single_bit_ecc_storm)$")
UNCORRECTED = re.compile(r"(xid (48|94|95|140)|double_bit_ecc|(non_)?fatal_poison)$")
REPAIR_PENDING = re.compile(r"(xid 156|dram_retirement)$")
BEYOND_REPAIR = re.compile(r"(xid (64|157|161)|dram_retirement_failure)$")
LESS_MEMORY = re.compile(r"xid 168$")
CONFIRM = "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT; sudo dmesg | grep Xid"
GUIDE = "NVIDIA GPU Memory Error Management"


def _corrected(host: HostFindings) -> tuple[Finding, ...]:
    return (
        *host.bad("ecc_errors", "ecc_corrected_volatile", "ecc_corrected_per_hour"),
        *host.bad("errors_under_load", "new_corrected_errors"),
        *host.logged(CORRECTED),
    )


def _uncorrected(host: HostFindings) -> tuple[Finding, ...]:
    return (
        *host.bad("ecc_errors", "ecc_uncorrected_volatile"),
        *host.bad("errors_under_load", "new_uncorrected_errors"),
        *host.bad("nccl_diagnostics", "ras_ecc"),
        *host.logged(UNCORRECTED),
    )


def _pending(host: HostFindings) -> tuple[Finding, ...]:
    return (
        *host.bad("row_remap", "row_remap_pending"),
        *host.bad("retired_pages", "retired_pages_pending"),
        *host.logged(REPAIR_PENDING),
    )


def _short_of_spares(host: HostFindings) -> tuple[Finding, ...]:
    pages = host.bad("retired_pages", "retired_pages")
    few = (finding for finding in pages if finding.outcome == "warn")
    counts = ("row_remap_banks_exhausted", "row_remap_uncorrectable", "row_remap_correctable")
    return (*host.bad("row_remap", *counts), *few)


def _with_same_gpus(
    host: HostFindings, first: tuple[Finding, ...], *follow: tuple[Finding, ...]
) -> tuple[Finding, ...]:
    """Return the first findings, and of the others those about the same GPUs."""
    gpus = {host.gpu_of(finding.subject) for finding in first}
    return (*first, *(f for findings in follow for f in host.of_gpus(gpus, findings)))


@rule(
    title="GPU memory corrects many more errors than is usual; none was lost",
    effect="results are right, and jobs run on: a cell that is corrected again and again may fail "
    "for good later",
    fix="keep the node in service; see whether the rate goes on, cool the GPU where its memory is "
    "hot, and drain it only when an error that could not be corrected, or a row remap, follows",
    confirm=CONFIRM,
    source="NVIDIA Xid catalog, Xid 92; " + GUIDE + ", Overview: correctable errors of HBM ask for "
    "nothing",
)
def memory_errors_corrected(host: HostFindings) -> Sign | None:
    """The counters and the log say that they were corrected."""
    return sign("certain", _corrected(host))


@rule(
    title="GPU memory has had errors that could not be corrected",
    effect="the job that met one ended, or went on with damaged data; after Xid 95 results of the "
    "whole GPU are in doubt",
    fix="drain the node, reset the GPU or reboot, so that the driver repairs the cell, and test "
    "its memory under load; have the board replaced when such errors come back",
    confirm=CONFIRM,
    source="NVIDIA Xid catalog, Xid 48, 94, 95 and 140; " + GUIDE + ", Response to Uncorrectable "
    "Contained ECC Errors; NVML API Reference Guide, nvmlDeviceGetTotalEccErrors",
)
def gpu_memory_failing(host: HostFindings) -> Sign | None:
    """Counters and kernel log are two views of one memory, and products go wrong by it."""
    errors = _uncorrected(host)
    products = host.bad("compute_errors")
    return sign("certain", _with_same_gpus(host, errors, _corrected(host), products))


@rule(
    title="The repair of a bad memory row or page waits for a reset of the GPU",
    effect="until then the driver keeps the page out of use where the board can (A100, H100, "
    "B200); on other boards the next job may meet the bad cell again",
    fix="drain the node, then reset the GPU (row remapping) or load the driver again (retired "
    "pages), or reboot; that is all, unless the repair fails or such errors come back",
    confirm=CONFIRM,
    source=GUIDE + ", Row Remapping, Dynamic Page Offlining and Supported GPUs; NVIDIA Dynamic "
    "Page Retirement; NVIDIA Xid catalog, Xid 63 and 156",
)
def memory_repair_pending(host: HostFindings) -> Sign | None:
    """The driver says so itself; the error that asked for the repair is part of it."""
    errors = (*_uncorrected(host), *_corrected(host), *_short_of_spares(host))
    return sign("certain", _with_same_gpus(host, _pending(host), errors))


@rule(
    title="GPU memory is beyond repair: a bad row or page could not be replaced, or its SRAM "
    "failed too often",
    effect="the next job that meets the bad cell ends, and no reset mends it",
    fix="drain the node, run NVIDIA's field diagnostic and have the board replaced: this is what "
    "NVIDIA's policy takes a board back for",
    confirm=CONFIRM,
    source=GUIDE + ", RMA Policy: the row-remapping failure flag and SRAM Threshold Exceeded; "
    "NVIDIA Xid catalog, Xid 64, 157 and 161; NVIDIA/DCGM, DCGM_LIMIT_MAX_RETIRED_PAGES (63)",
)
def memory_worn(host: HostFindings) -> Sign | None:
    """These flags are set for the rest of the board's life; what came before leads to them."""
    pages = host.bad("retired_pages", "retired_pages")
    failed = (
        *host.bad("row_remap", "row_remap_failure"),
        *host.bad("ecc_errors", "sram_threshold_exceeded"),
        *(finding for finding in pages if finding.outcome == "fail"),
        *host.logged(BEYOND_REPAIR),
    )
    before = (*_pending(host), *_uncorrected(host), *_corrected(host), *_short_of_spares(host))
    return sign("certain", _with_same_gpus(host, failed, before, host.bad("compute_errors")))


@rule(
    title="Spare rows or pages of GPU memory run short",
    effect="none for now: all that went bad was replaced. The next bad row of such a bank, or the "
    "last pages, cannot be",
    fix="keep the node in service and watch it; run NVIDIA's field diagnostic at the next service "
    "and plan the exchange of the board, which NVIDIA's policy does not replace yet",
    confirm=CONFIRM,
    source="NVML API Reference Guide, nvmlRowRemapperHistogramValues_t; " + GUIDE + ", RMA Policy; "
    "NVIDIA/DCGM, dcgm_gpu_hardware_limits, soft limit of retired pages (15)",
)
def memory_spares_short(host: HostFindings) -> Sign | None:
    """The driver counts its spares."""
    return sign("certain", _short_of_spares(host))


@rule(
    title="A GPU has another amount of memory than others of its model",
    effect="a job that fits on the others ends there for want of memory",
    fix="look for Xid 168 and 160 and for ECC that is set otherwise; reset the GPU, and have the "
    "board replaced where memory stays away",
    confirm="nvidia-smi --query-gpu=index,name,memory.total,ecc.mode.current --format=csv; sudo "
    "dmesg | grep -E 'Xid.*: (160|168)'",
    source="NVIDIA Xid catalog, Xid 160 and 168; NVML API Reference Guide, nvmlDeviceGetMemoryInfo",
)
def memory_missing(host: HostFindings) -> Sign | None:
    """ECC that is set otherwise takes a share of some boards; another model has its own."""
    other_models = {finding.subject for finding in host.bad("gpu_model", "gpu_model")}
    sizes = [
        finding
        for finding in (*host.bad("gpu_model"), *host.bad("bar1_size", "memory_total_bytes"))
        if finding.metric.startswith("memory_") and finding.subject not in other_models
    ]
    logged = host.logged(LESS_MEMORY)
    return sign("certain" if logged else "likely", (*sizes, *logged))


@rule(
    title="ECC is not set as it should be: unlike the board's default or the other GPUs, or a "
    "change waits for a reset",
    effect="memory errors go unnoticed where it is off, and memory and bandwidth differ between "
    "GPUs",
    fix="set it as on all nodes of the cluster (nvidia-smi -e 1 or 0), then reboot",
    confirm="nvidia-smi --query-gpu=index,ecc.mode.current,ecc.mode.pending --format=csv",
    source="NVML API Reference Guide, nvmlDeviceGetEccMode and nvmlDeviceGetDefaultEccMode",
)
def ecc_setting(host: HostFindings) -> Sign | None:
    """Memory and its bandwidth that differ follow from it."""
    modes = host.bad("ecc_mode")
    gpus = {finding.subject for finding in modes}
    sizes = (f for f in host.bad_on(gpus, "gpu_model") if f.metric.startswith("memory_"))
    return sign("certain", (*modes, *sizes, *host.bad_on(gpus, "hbm_bandwidth")))


@rule(
    title="A GPU offers no ECC, and others of its model do: that part of its infoROM is not read",
    effect="its memory errors are neither corrected nor counted, and nobody hears of them",
    fix="power the node off and on; where it stays so bring the infoROM to the others' version "
    "with the vendor's tool, and have the board replaced when that fails (nvidia-smi -e "
    "cannot switch what is not offered)",
    confirm="nvidia-smi --query-gpu=index,inforom.ecc,ecc.mode.current --format=csv; sudo dmesg | "
    "grep -i inforom",
    source="NVML API Reference Guide, nvmlDeviceGetEccMode: requires NVML_INFOROM_ECC; the "
    "majority of the GPUs of one model in the node",
)
def ecc_not_offered(host: HostFindings) -> Sign | None:
    """It is certain that it is missing; the infoROM is where boards of one model keep it."""
    absent = host.bad("ecc_mode", ABSENT)
    return sign("likely", (f for f in absent if f.basis == NEIGHBORS))


@rule(
    title="A GPU computes wrongly under load, and nothing else reports it",
    effect="silent data corruption: training diverges or ends in NaN, and nobody knows why",
    fix="take the GPU out of service, repeat the load with it alone, and have the board replaced",
    confirm="nvidia-smi -q -d ECC; run the load again with this GPU alone",
    source="derived: the same inputs give bit-equal products on like GPUs, so most of them name "
    "the odd one out",
)
def computes_wrongly(host: HostFindings) -> Sign | None:
    """Products of like GPUs are compared bit by bit; where no result has a majority, all differ."""
    wrong = host.bad("compute_errors")
    gpus = {finding.subject for finding in wrong}
    unlike_itself = any(finding.metric == "wrong_products" for finding in wrong)
    few = 2 * len(gpus) < len(host.models)
    return sign("certain" if unlike_itself or few else "likely", wrong)
