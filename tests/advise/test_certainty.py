"""Certain is only what a reading says itself: the list of these, and nothing else makes it so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import pytest

from hwcheck import checks
from hwcheck.advise.catalogue import shipped
from hwcheck.advise.rule import HostFindings
from hwcheck.checks.faults_under_load import OF_KIND
from hwcheck.checks.shared import xids
from hwcheck.checks.xid import METRICS
from hwcheck.contract.reasons import CODES, Reason, of_former_run
from hwcheck.judge.peers import _is_compared
from hwcheck.judge.records import Finding
from hwcheck.results.run_folder import HostRecord
from tests.advise.nodes import diagnosed
from tests.advise.test_rules import BY_CAUSE

STATED: Mapping[str, tuple[str, str]] = {
    "bar1_small": ("bar1_total_bytes", "the size of the window and of the memory were read"),
    "cable_not_accepted": ("cable_refused", "the card says that it does not accept it"),
    "card_firmware_halted": ("card_halted", "the driver asked the firmware and had no answer"),
    "card_too_warm": ("card_hot", "the card says it of itself or its module"),
    "clock_unsynchronized": ("clock_synchronized", "the kernel's own flag"),
    "cloned_identity": ("gpus_of_this_uuid", "two boards gave one identifier"),
    "compute_mode_set": ("compute_mode takes_work takes_several_processes", "the mode was read"),
    "computes_wrongly": (
        "wrong_products agrees_with_most digest",
        "a product is unlike the GPU's own first, or unlike that of most GPUs",
    ),
    "container_libraries_broken": (
        "driver_library unusable_libraries",
        "the files were looked at; empty ones load nowhere",
    ),
    "container_settings_unfit": (
        "settings_whole nvidia_program default_memlock_unlimited default_shm_mib",
        "the runtime's file was read",
    ),
    "disk_full": ("disk_free_gib", "what statvfs says is what is free"),
    "driver_differs": ("driver_version cuda_driver_version", "both versions were read"),
    "driver_not_whole": (
        "driver_loaded nvml_driver_version nvml_status=Driver_Not_Loaded "
        "nvml_status=LIB_RM_VERSION_MISMATCH nvml_status=NVML_Shared_Library_Not_Found",
        "the kernel has no module, or NVML names a library or version that does not fit",
    ),
    "ecc_setting": (
        "ecc_enabled ecc_differs_from_default ecc_change_pending",
        "the modes were read",
    ),
    "efa_topology_check": ("topology_check_off", "the driver's parameter was read"),
    "fabric_degraded": ("fabric_degraded", "the fabric's own mask names it"),
    "fabric_manager_down": ("fabric_manager", "the table of processes was read whole"),
    "fabric_not_joined": ("fabric_state fabric_status", "the state of each GPU was read"),
    "fabric_partition": ("fabric_unhealthy", "the fabric's own mask names it"),
    "firmware_differs": ("vbios inforom_image firmware part_firmware", "the versions were read"),
    "gpu_in_use": ("compute_processes", "NVML names the process"),
    "gpu_lost": (
        "gpu_answer recovery_action answers_on_the_bus gpu_answer_after_load "
        "nvml_status=GPU_is_lost nvml_status=GPU_requires_restart "
        "xid_79 xid_143 xid_154 gpu_unavailable",
        "the driver, or the bus, says it of the GPU",
    ),
    "gpu_memory_failing": (
        "ecc_uncorrected_volatile new_uncorrected_errors xid_48 xid_94 xid_95 xid_140 "
        "double_bit_ecc fatal_poison non_fatal_poison ras_ecc",
        "ECC counts what it could not correct, and the driver reports it",
    ),
    "gpu_missing": (
        "pci_gpus nvml_gpus seen_by_nvml container_gpus",
        "they were counted; the title leaves open why",
    ),
    "gsp_failed": ("xid_119 xid_120", "the driver says it of its own firmware on the GPU"),
    "host_memory_errors_corrected": (
        "memory_corrected",
        "the memory controller counts what it corrects",
    ),
    "host_memory_failing": (
        "memory_uncorrected",
        "the memory controller says that it could not correct it",
    ),
    "host_swaps": ("swap_used_percent", "the kernel counts what it swapped out"),
    "huge_pages_idle": ("huge_pages_unused_percent", "the kernel counts them"),
    "inforom_corrupted": ("inforom_valid", "its checksum was computed"),
    "kernel_broken": ("kernel_bugs", "the kernel's own words, and no restart since"),
    "grace_guest_incomplete": (
        "card_ats command_queues",
        "the card's register and the firmware's table were read",
    ),
    "kernel_differs": ("kernel_release", "both versions were read"),
    "memlock_limited": ("memlock_unlimited", "the limit of the login was read"),
    "memory_errors_corrected": (
        "ecc_corrected_volatile ecc_corrected_per_hour new_corrected_errors xid_92 "
        "single_bit_ecc_storm",
        "ECC counts what it corrected, and the driver reports storms of it",
    ),
    "rdma_driver_missing": ("card_use", "the bus shows the card and what its driver made of it"),
    "memory_missing": ("xid_168", "the driver says that memory is missing"),
    "memory_repair_pending": (
        "row_remap_pending retired_pages_pending xid_156 dram_retirement",
        "the driver's own flag",
    ),
    "memory_spares_short": (
        "row_remap_banks_exhausted row_remap_uncorrectable row_remap_correctable retired_pages",
        "the driver counts its spares and what they were taken for",
    ),
    "memory_worn": (
        "row_remap_failure sram_threshold_exceeded retired_pages xid_64 xid_157 xid_161 "
        "dram_retirement_failure",
        "the flags and counts that NVIDIA's policy goes by",
    ),
    "mig_differs": ("mig_enabled", "the modes were read"),
    "mig_change_pending": ("mig_change_pending", "both modes were read"),
    "mixed_models": ("gpu_model", "the names were read"),
    "more_gpus": ("pci_gpus nvml_gpus container_gpus", "they were counted"),
    "nccl_differs": ("nccl_version system_nccl_version", "both versions were read"),
    "nouveau_bound": ("kernel_driver", "the kernel names the driver of the device"),
    "nvme_drive_missing": (
        "nvme_drives nvme_state",
        "they were counted, and the kernel names the state",
    ),
    "cabled_elsewhere": ("ports_at_this_end", "the far end says it of itself"),
    "no_gpudirect": ("gpudirect_rdma", "the modules and the kind of the driver were read"),
    "nvlink_failing": (
        "nvlink_recovery_failed_errors",
        "the link counts that it could not be trained again",
    ),
    "nvml_refuses_p2p": ("p2p_refused_by_nvml", "CUDA and NVML were asked of one pair"),
    "p2p_refused_over_nvlink": ("nvlink_read nvlink_write", "the driver's own word for the pair"),
    "p2p_refused_over_pcie": (
        "unlike_other_pairs refused_like_all",
        "the driver's own word for the pair",
    ),
    "pcie_link_degraded": (
        "pcie_link_width uplink_width uplink_generation pcie_width pcie_generation "
        "card_link_generation card_link_share card_link_width card_link_width_max",
        "the link and what both ends can were read",
    ),
    "peermem_alone": ("peermem_alone", "the modules, the driver's kind and the kernel were read"),
    "persistence_off": ("persistence_mode", "the mode was read"),
    "power_budget_short": (
        "power_limit_w power_planned_w",
        "sums over what the inventory declares",
    ),
    "power_delivery": ("xid_54", "the driver says that auxiliary power is not connected"),
    "power_limit_lowered": ("power_limit_percent power_limit_w", "both limits were read"),
    "roce_without_address": ("routable_gids", "the table of addresses was read"),
    "scratch_read_only": (
        "tmp_read_only shm_read_only mounted_read_only",
        "statvfs and the table of mounts say how they are mounted",
    ),
    "shm_too_small": ("shm_size_mib shm_free_mib", "the size of the file system was read"),
    "stale_nccl_settings": ("debugging_settings", "the settings in force were read"),
    "torch_differs": ("torch_version", "both versions were read"),
    "tools_differ": (
        "only_version container_toolkit_version dcgm_version",
        "the names of the libraries were read, on this host and on the others",
    ),
    "topology_file_missing": ("topology_file", "the file was looked at"),
    "unexpected_machine": ("hypervisor", "the machine names what is below it"),
}
"""By cause: the metrics that state it themselves, and why whoever reads them can know."""

STATED_OTHERWISE: Mapping[str, str] = {
    "not_as_ordered": "the part says of itself what it is, and the inventory what was ordered",
    "login_unprivileged": "the reason of the check says that it needs root",
    "kernel_log_lost": "the reason of the check says that the log lost its beginning",
    "cuda_refuses_p2p": "the answers of CUDA and of NVML for one pair were read",
    "driver_below_floor": "the version was read, and a dated table has the floor",
    "tools_below_floor": "the version was read, and a dated table has the floor",
    "firmware_below_floor": "the version was read, and a dated table has the floor",
    "gpu_not_started": "the kernel log has the driver's words for it",
    "gpu_without_addresses": "the kernel log has the driver's words for it",
    "nccl_defect": "the version was read, and the table names the defect that it has",
    "mig_hides_counters": "the reason of the check says that MIG is on",
    "nccl_p2p_default": "two versions of NCCL were read, and its source decides by version",
    "nccl_too_old": "NCCL's log has the words of the defect",
    "nvls_unused": "NCCL's log says that multicast could not be bound",
    "shm_too_small": "NCCL's log says that no space is left in /dev/shm",
    "gpu_missing": "no GPU is on the bus",
    "rdma_driver_missing": "the reason of the check names the cards on the bus and their driver",
}
"""Causes that are certain by a reason or a log, or by several readings together."""

STATUS = (
    *("Driver Not Loaded", "LIB_RM_VERSION_MISMATCH", "NVML Shared Library Not Found"),
    *("GPU is lost", "GPU requires restart", "Timeout", "Unknown Error"),
    *("Insufficient Permissions", "NVML did not answer within 50 s: gpu2 does not open"),
    *("Insufficient External Power", "Interrupt Request Issue", "Corrupted infoROM"),
)
SUBJECTS = ("node", "gpu1", "gpu0-gpu1", "leg default", "port mlx5_0/1", "pci 0000:20:00.0")


def lone_findings() -> Iterator[tuple[str, Finding]]:
    """Yield every finding that a check can bring about, with its name in ``STATED``."""
    for name, check in checks.load().items():
        for metric in check.metrics:
            if name in ("xid", "faults_under_load") and metric.name.endswith("_events"):
                continue
            values = (7, 9) if metric.unit == "GPUs" else (False,)
            for outcome, subject, value in product(("warn", "fail"), SUBJECTS, values):
                finding = Finding("n1", name, outcome, metric.name, subject, value, wanted=8)
                if metric.limits or _is_compared(metric):
                    yield metric.name, finding
    for status in STATUS:
        finding = Finding("n1", "driver", "fail", "nvml_status", "node", status)
        yield "nvml_status=" + status.replace(" ", "_"), finding
    codes = (*xids.XID_CATALOG, xids.RECOVERY, 999)
    for code in codes:
        for metric in METRICS.values():
            for check in ("xid", "faults_under_load"):
                subject = f"pci 0000:20:00.0 xid {code}"
                yield f"xid_{code}", Finding("n1", check, "fail", metric, subject, 1)
    for kind in OF_KIND:
        finding = Finding(
            "n1", "faults_under_load", "warn", "watch_events", f"pci 0000:20:00.0 {kind}", 1
        )
        yield kind, finding


def stated() -> dict[str, set[str]]:
    """Return by cause each reading that makes it certain by itself."""
    by_cause: dict[str, set[str]] = {}
    managed = {("nvswitch_fabric", "fabric_manager"): {"node": True}}
    for name, finding in lone_findings():
        readings = managed if name.startswith("fabric_st") else {}
        if finding.metric == "nvml_status":
            code = of_former_run(str(finding.value)).code
            readings = {("driver", "nvml_status_code"): {"node": code}}
        host = HostFindings(
            "n1",
            HostRecord("n1", "reported"),
            (finding,),
            {f"gpu{n}": "NVIDIA H100 80GB HBM3" for n in range(8)},
            readings,
        )
        for rule in shipped().rules.values():
            sign = rule.look(host)
            if sign is not None and sign.confidence == "certain":
                by_cause.setdefault(rule.cause, set()).add(name)
    return by_cause


def test_only_a_reading_that_states_a_cause_makes_it_certain() -> None:
    declared = {cause: set(metrics.split()) for cause, (metrics, _) in STATED.items()}
    assert stated() == declared


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_reason_alone_makes_certain_only_what_it_says(code: str) -> None:
    finding = Finding("n1", "power_cap", "inconclusive", reason=Reason(code, "why"))
    host = HostFindings("n1", HostRecord("n1", "reported"), (finding,))
    signs = {rule.cause: rule.look(host) for rule in shipped().rules.values()}
    certain = {cause for cause, sign in signs.items() if sign and sign.confidence == "certain"}
    assert certain <= set(STATED_OTHERWISE)


@pytest.mark.parametrize("cause", sorted(shipped().rules))
def test_a_cause_that_no_reading_states_is_never_certain(cause: str) -> None:
    cases = [case for case in BY_CAUSE[cause]["fires"] if case["confidence"] == "certain"]
    assert not cases or cause in {**STATED, **STATED_OTHERWISE}


def test_the_lists_are_of_rules_that_there_are() -> None:
    assert {*STATED, *STATED_OTHERWISE} <= set(shipped().rules)


def test_nvml_that_does_not_answer_is_a_driver_that_hangs() -> None:
    says = {"driver_loaded": True, "nvml_status": "x", "nvml_status_code": "no_answer"}
    case = {"samples": {"driver": says}}
    (diagnosis,) = diagnosed(("n1", case)).diagnoses
    assert (diagnosis.cause, diagnosis.confidence) == ("driver_hangs", "likely")
