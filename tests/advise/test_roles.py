"""Every cause and every remedy names the role that mends it, and no other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from hwcheck import checks, shipped
from hwcheck.advise import causes
from tests.advise.nodes import diagnosed

OF_CAUSE: Mapping[str, tuple[str, str]] = {
    "acs_redirect": ("pcie_p2p", r"ECAP_ACS|acs"),
    "clocks_held": ("gpu_settings", "gpu_settings_application_clocks"),
    "compute_mode_set": ("gpu_settings", "gpu_settings_compute_mode"),
    "cpu_power_saving": ("system_tuning", "system_tuning_cpu_governor"),
    "cuda_refuses_p2p": ("pcie_p2p", r"iommu"),
    "dma_refused": ("pcie_p2p", r"iommu"),
    "driver_below_floor": ("nvidia_driver", "nvidia_driver_version"),
    "driver_differs": ("nvidia_driver", "nvidia_driver_version"),
    "driver_not_whole": ("nvidia_driver", "nvidia_driver_kernel_modules"),
    "efa_topology_check": ("nvidia_driver", "nvidia_driver_module_options"),
    "fabric_manager_down": ("nvidia_fabricmanager", "nvidia_fabricmanager_service"),
    "huge_pages_idle": ("system_tuning", "system_tuning_hugepages"),
    "iommu_translates": ("pcie_p2p", r"iommu"),
    "imex_down": ("nvidia_imex", "nvidia_imex_addresses"),
    "memlock_limited": ("rdma", "rdma_memlock_kib"),
    "nccl_differs": ("nccl", "nccl_version"),
    "nccl_p2p_default": ("nccl", "nccl_version"),
    "nccl_too_old": ("validation_env", "torch"),
    "nccl_defect": ("validation_env", "torch"),
    "no_gpudirect": ("rdma", "rdma_gpu_memory"),
    "nouveau_bound": ("nvidia_driver", "nvidia_driver_nouveau_off"),
    "peermem_alone": ("nvidia_driver", "nvidia_driver_kernel_modules"),
    "persistence_off": ("nvidia_driver", "nvidia_driver_persistence_daemon"),
    "power_limit_lowered": ("gpu_settings", "gpu_settings_power_limit_w"),
    "torch_differs": ("validation_env", "torch"),
}
"""By cause: its role, and what the role's variables have of it."""

HARDWARE = "hands, a reset or the vendor mend hardware"
SITE = "the site decides: firmware, hypervisor, container, inventory, network or somebody's process"
SEVERAL = "what is set in several places is mended where it is set"

WITHOUT: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("bridge_missing", "cloned_identity", "computes_wrongly", "cooling", "driver_hangs"),
            *("fabric_degraded", "fabric_not_joined", "gpu_lost", "gpu_memory_failing"),
            *("ecc_not_offered", "gpu_missing", "inforom_corrupted", "memory_errors_corrected"),
            "memory_missing",
            *("memory_repair_pending", "memory_spares_short", "memory_worn", "mixed_models"),
            *("nvlink_down", "nvlink_failing", "nvswitch_lost", "pcie_link_degraded"),
            "nvswitch_off_the_bus",
            *("pcie_noisy", "power_budget_short", "power_delivery", "rdma_port_down"),
            *("thermal_contact", "p2p_collapses", "p2p_through_cpu", "disk_failing"),
            *("gpu_ends_processes", "gpu_not_started", "host_memory_missing", "power_wasted"),
            *("board_power_differs", "gpu_error_reported", "gsp_failed", "slow_at_work"),
            "power_sensor_broken",
            *("not_as_ordered", "cabled_elsewhere", "nvme_drive_missing", "rdma_link_unstable"),
            *("cable_not_accepted", "card_firmware_halted", "card_too_warm", "drive_failing"),
            *("host_memory_errors_corrected", "host_memory_failing", "processor_errors"),
            *("kernel_broken", "kernel_stalls", "nvml_refuses_p2p", "small_messages_slow"),
            "cuda_refuses_nvlink",
            *("became_worse", "comes_and_goes", "gets_worse"),
        ),
        HARDWARE,
    ),
    **dict.fromkeys(
        (
            *("bar1_small", "clock_unsynchronized", "container_keeps_back", "disk_full"),
            *("ecc_setting", "fabric_partition", "firmware_differs", "gpu_in_use", "ipc_blocked"),
            *("kernel_differs", "kernel_log_lost", "login_unprivileged", "mig_change_pending"),
            *("mig_hides_counters", "more_gpus", "network_plugin_fails", "numa_calls_blocked"),
            *("nvml_unusable", "p2p_in_a_vm", "p2p_refused_over_nvlink", "p2p_refused_over_pcie"),
            *("roce_without_address", "shm_too_small", "unexpected_machine", "vm_without_fabric"),
            *("wrong_network_transport", "firmware_below_floor", "host_swaps"),
            *("host_memory_held", "mig_differs", "numa_layout_differs", "scratch_read_only"),
            *(
                "memory_held",
                "pcie_slots_limited",
                "rdma_cards_missing",
                "rdma_driver_missing",
                "rdma_partition_differs",
                "nvlink_domain_split",
            ),
            *("container_libraries_broken", "topology_file_missing", "nccl_p2p_fails"),
            "gpu_without_addresses",
            "container_settings_unfit",
            *("container_settings_unfit", "tools_below_floor", "tools_differ"),
            "grace_guest_incomplete",
        ),
        SITE,
    ),
    **dict.fromkeys(
        (
            *("nvls_unused", "numa_placement", "one_nic_used", "p2p_corrupts", "p2p_hangs"),
            *("nccl_contradicts", "nccl_way_differs", "gpudirect_unused", "cpu_scaling_differs"),
            *("stale_nccl_settings", "uvm_hmm", "lacks_what_others_have", "unlike_its_neighbors"),
        ),
        SEVERAL,
    ),
}
"""Causes that no role mends, and why."""

OF_CHECK: Mapping[str, str] = {
    "application_clocks": "clocks_held",
    "compute_mode": "compute_mode_set",
    "cpu_governor": "cpu_power_saving",
    "cuda_driver": "driver_differs",
    "driver": "driver_not_whole",
    "hugepages": "huge_pages_idle",
    "imex": "imex_down",
    "iommu": "iommu_translates",
    "memlock": "memlock_limited",
    "nvswitch_fabric": "fabric_manager_down",
    "pcie_acs": "acs_redirect",
    "peermem": "no_gpudirect",
    "persistence_mode": "persistence_off",
    "power_cap": "power_limit_lowered",
    "software_versions": "torch_differs",
}
"""By check whose remedy names a role: the cause that names the same."""

NUMA_BALANCING = ("system_tuning", "system_tuning_numa_balancing")
"""The remedy of the check numa_balancing alone: its cause may lie in the firmware as well."""

VERSIONS = {
    "driver: {driver_version: 550.90.07}": ({"driver_version": "570.86.15"}, "nvidia_driver"),
    "cuda_driver: {cuda_driver_version: 12.0}": (
        {"cuda_driver_version": "12.8"},
        "nvidia_driver",
    ),
    "software_versions: {nccl_version: 2.20.5}": ({"nccl_version": "2.27.5"}, "nccl"),
    "software_versions: {torch_version: 2.7.0}": ({"torch_version": "2.8.0"}, "validation_env"),
    "kernel: {kernel_release: 6.8.0-31}": ({"kernel": "6.8.0-60"}, ""),
}
"""What a host has: what is declared, and the role that installs it."""


def variables_of(role: str) -> str:
    """Return what a role says that it sets."""
    folder = shipped.find(f"roles/{role}")
    assert folder is not None, f"there is no role {role}"
    files = ("defaults/main.yml", "meta/argument_specs.yml")
    return "\n".join((Path(folder) / file).read_text("utf-8") for file in files)


def test_each_cause_is_in_one_of_the_lists() -> None:
    assert not set(OF_CAUSE) & set(WITHOUT)
    assert {*OF_CAUSE, *WITHOUT} == set(causes.shipped())


@pytest.mark.parametrize("cause", sorted(causes.shipped()))
def test_a_cause_names_the_role_that_mends_it(cause: str) -> None:
    role, sets = OF_CAUSE.get(cause, ("", ""))
    assert causes.shipped()[cause].role == role
    if role:
        assert re.search(sets, variables_of(role)), f"{role} says nothing of {sets}"


@pytest.mark.parametrize("name", sorted(checks.load()))
def test_a_remedy_names_the_role_that_mends_it(name: str) -> None:
    remedy = checks.load()[name].remedy
    if name == "numa_balancing":
        role, sets = NUMA_BALANCING
        assert remedy.role == role
        assert sets in variables_of(role)
    else:
        assert remedy.role == (OF_CAUSE[OF_CHECK[name]][0] if name in OF_CHECK else "")


@pytest.mark.parametrize("has", VERSIONS)
def test_a_version_that_differs_names_the_role_that_installs_it(has: str) -> None:
    declared, role = VERSIONS[has]
    check, metric, value = re.fullmatch(r"(\w+): \{(\w+): (.*)\}", has).groups()  # type: ignore[union-attr]
    case = {"expect": declared, "samples": {check: {metric: value}}}
    (diagnosis,) = diagnosed(("n1", case)).diagnoses
    assert diagnosis.role == role


def test_a_role_that_does_not_set_it_would_be_seen() -> None:
    assert not re.search(OF_CAUSE["no_gpudirect"][1], variables_of("system_tuning"))
    assert not re.search(OF_CAUSE["nccl_differs"][1], variables_of("validation_env"))
