"""Every node of the lab, by what it answers: each fault is found by its check, with its cause.

A healthy node raises nothing and has no cause. Idle nodes answer through the payload, or what it
does in forks (``every_node``); what they do at work is simulated (``at_work.yml``) and goes through
the real checks, the judge and the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.advise.causes import diagnose
from hwcheck.judge.judge import judge
from hwcheck.judge.records import Judgement, worst
from hwcheck.results.run_folder import Run
from tests.lab import at_work
from tests.lab.at_work import AtWork
from tests.lab.every_node import (
    CONTROLS,
    FAULTS,
    IDLE,
    OTHERS,
    SCENARIOS,
    WITHOUT_NVML,
    declared,
    report,
    run_of,
    title,
)
from tests.lab.scenario import Scenario, load

ONLY_A_REAL_MACHINE: Mapping[str, str] = {}
"""Idle checks whose fault no scenario can present, with the reason."""

HOST_CHECKS = {
    "cabling",
    *("container_files", "container_settings", "nccl_topology_file"),
    *("card_links", "nvme_drives", "partition_keys", "pcie_uplinks", "port_flaps"),
    *("cpu_governor", "disk_free", "file_systems", "host_memory", "hugepages", "infiniband_ports"),
    *("iommu", "kernel", "kernel_faults", "memlock"),
    *("nccl_environment", "numa_balancing", "pcie_acs", "pcie_aer", "peermem", "roce_gids"),
    *("shm_size", "software_versions", "time_sync", "tool_versions", "virtualization", "xid"),
}
"""Checks that ask nothing of NVML."""

NOT_APPLICABLE = "-"
SIGNS = {"pass": ".", "warn": "W", "fail": "F", "inconclusive": "?", NOT_APPLICABLE: NOT_APPLICABLE}
LEGEND = ". pass   W warn   F fail   ? inconclusive   - not applicable"

pytestmark = pytest.mark.timeout(300)
"""The first test waits for its nodes: 15 s on two processors that have nothing else to do."""

Row = dict[str, str]

each_fault = pytest.mark.parametrize(
    "faulty",
    [*CONTROLS, *(pytest.param(faulty, marks=pytest.mark.wide) for faulty in OTHERS)],
    ids=title,
)


@cache
def judged(node: str) -> tuple[Run, Judgement]:
    """Return the run of the node with this title, and what it is judged to be."""
    run = run_of(load(*node.split()))
    return run, judge(run, shipped())


@cache
def row(node: str) -> Row:
    """Return the outcome of each check on the node with this title."""
    found: dict[str, list[str]] = {}
    for finding in judged(node)[1].findings:
        found.setdefault(finding.check, []).append(finding.outcome)
    states = {result.check: result.state for result in report(node).results}
    return {
        check: NOT_APPLICABLE
        if states[check] == "not_applicable" and check not in found
        else worst(found.get(check, ()))
        for check in IDLE
    }


def alarms(row: Row) -> Row:
    """Return what is neither a pass nor without meaning on the node."""
    return {check: out for check, out in row.items() if out not in ("pass", NOT_APPLICABLE)}


def changed(healthy: Row, faulty: Row, blinds: bool = False) -> set[str]:
    """Return the checks that answer otherwise; one that passes raises nothing.

    With ``blinds`` those that are left without an answer are as they may be.
    """
    free = {"pass", "inconclusive"} if blinds else {"pass"}
    return {check for check in healthy if faulty[check] not in {healthy[check], *free}}


@pytest.mark.parametrize("healthy", SCENARIOS, ids=title)
def test_a_healthy_node_raises_nothing(healthy: Scenario) -> None:
    assert alarms(row(title(healthy))) == dict.fromkeys(healthy.unanswered, "inconclusive")


@each_fault
def test_a_fault_is_found_by_its_check(faulty: Scenario) -> None:
    assert faulty.fault is not None
    fault = faulty.fault
    assert row(title(faulty))[fault.check] == fault.outcome
    if fault.subjects:
        of_check = [each for each in judged(title(faulty))[1].findings if each.check == fault.check]
        assert {each.subject for each in of_check if each.outcome != "pass"} == set(fault.subjects)


@each_fault
def test_no_other_check_answers_otherwise(faulty: Scenario) -> None:
    assert faulty.fault is not None
    others = changed(row(faulty.name), row(title(faulty)), faulty.fault.blinds)
    assert others - {faulty.fault.check} == set(faulty.fault.also)


def test_every_idle_check_has_a_fault() -> None:
    found = {faulty.fault.check for faulty in FAULTS if faulty.fault}
    assert found | set(ONLY_A_REAL_MACHINE) == set(IDLE)
    assert not found & set(ONLY_A_REAL_MACHINE)


def test_an_alarm_would_be_seen() -> None:
    row = {"driver": "pass", "xid": "warn", "mig": NOT_APPLICABLE, "vbios": "inconclusive"}
    assert alarms(row) == {"xid": "warn", "vbios": "inconclusive"}


def test_a_change_would_be_seen() -> None:
    healthy = {"driver": "pass", "xid": NOT_APPLICABLE, "kernel": "pass", "mig": "warn"}
    faulty = {"driver": "fail", "xid": "pass", "kernel": "inconclusive", "mig": NOT_APPLICABLE}
    assert changed(healthy, faulty) == {"driver", "kernel", "mig"}
    assert changed(healthy, faulty, blinds=True) == {"driver", "mig"}


def test_without_nvml_the_host_is_checked_as_ever() -> None:
    others = changed(row("h100x8"), row(WITHOUT_NVML))
    assert not others & HOST_CHECKS
    assert row("h100x8").keys() >= HOST_CHECKS


@pytest.mark.wide
def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    table = render({node: row(node) for node in map(title, [*SCENARIOS, *FAULTS])})
    with capsys.disabled():
        print("\n" + table)
    cells = [line.split("  ")[-1].split() for line in table.splitlines() if "x8 link_down " in line]
    assert dict(zip(IDLE, *cells, strict=True))["nvlink_state"] == "F"


def render(rows: Mapping[str, Row]) -> str:
    """Return the table: a row for each node, a column for each check, its name written down."""
    width = max(map(len, rows))
    height = max(map(len, IDLE))
    lines = [
        " " * width + "  " + " ".join(name.rjust(height)[line] for name in IDLE)
        for line in range(height)
    ]
    lines.append("-" * (width + 1 + 2 * len(IDLE)))
    for name, row in rows.items():
        lines.append(name.ljust(width) + "  " + " ".join(SIGNS[row[check]] for check in IDLE))
    asked = sum(row[check] != NOT_APPLICABLE for row in rows.values() for check in IDLE)
    faults = [(rows[title(each)], each.fault) for each in FAULTS if each.fault]
    found = sum(row[fault.check] == fault.outcome for row, fault in faults)
    false = sum(len(alarms(rows[each.name]).keys() - each.unanswered) for each in SCENARIOS)
    lines += ["", LEGEND, f"{len(rows)} nodes, {len(IDLE)} checks, {asked} answers judged: "]
    lines[-1] += f"{found} of {len(FAULTS)} faults found by their check, {false} false alarms"
    return "\n".join(lines)


LEAST_FAULTS = 25
WORKING, FAILING = at_work.healthy(), at_work.faulty()

CAUSES: Mapping[str, str] = {
    "a100_mig ecc_counts_refused": "mig_hides_counters",
    "a100_mig mig_goes_off": "mig_change_pending",
    "a100_mig uncontained_memory_error": "gpu_memory_failing",
    "a100x8 acs_redirects": "acs_redirect",
    "a100x8 clock_runs_free": "clock_unsynchronized",
    "a100x8 disk_full": "disk_full",
    "a100x8 firmware_without_numa": "numa_placement",
    "a100x8 idle_huge_pages": "huge_pages_idle",
    "a100x8 memory_module_gone": "host_memory_missing",
    "a100x8 nouveau": "nouveau_bound",
    "a100x8 root_read_only": "disk_failing",
    "a100x8 swaps": "host_swaps",
    "a100x8 var_shut_down": "disk_failing",
    "a100x8 iommu_translates": "iommu_translates",
    "a100x8 memlock_limited": "memlock_limited",
    "a100x8 noisy_slot": "pcie_noisy",
    "a100x8 numa_balancing_on": "numa_placement",
    "a100x8 one_switch_gone": "nvswitch_lost",
    "a100x8 p2p_level_left_over": "stale_nccl_settings",
    "a100x8 peermem_alone": "peermem_alone",
    "a100x8 powersave": "cpu_power_saving",
    "a100x8 shm_of_a_container": "shm_too_small",
    "a100x8_guest link_down": "nvlink_down",
    "a40x10 tenth_at_8_lanes": "pcie_link_degraded",
    "a40x4_storage compute_port_without_link": "rdma_port_down",
    "a40x4_storage drive_at_one_lane": "pcie_link_degraded",
    "a40x4_storage drive_dead": "nvme_drive_missing",
    "a40x4_storage drive_gone": "nvme_drive_missing",
    "a40x4_storage storage_card_at_two_lanes": "pcie_link_degraded",
    "a40x8 application_clocks_lowered": "clocks_held",
    "a40x8 ecc_off": "ecc_setting",
    "a40x8 exclusive_process": "compute_mode_set",
    "a40x8 inforom_corrupted": "inforom_corrupted",
    "a40x8 millions_corrected": "memory_errors_corrected",
    "a40x8 no_address": "roce_without_address",
    "a40x8 no_gid": "roce_without_address",
    "a40x8 off_the_bus_without_a_code": "gpu_lost",
    "a40x8 one_link_of_a_bridge": "nvlink_down",
    "a40x8 one_pair_unbridged": "bridge_missing",
    "a40x8 p2p_refused_over_nvlink": "p2p_refused_over_nvlink",
    "a40x8 p2p_refused_to_one_pair": "p2p_refused_over_pcie",
    "a40x8 row_remap_pending": "memory_repair_pending",
    "a40x8 small_bar1": "bar1_small",
    "a40x8 small_bar1_of_one": "bar1_small",
    "a40x8 uncorrected_memory_error": "gpu_memory_failing",
    "b200x8 card_without_subnet_manager": "rdma_port_down",
    "b200x8 draws_power_at_idle": "power_wasted",
    "b200x8 fabric_manager_down": "fabric_manager_down",
    "gb200_efa interface_lost": "rdma_port_down",
    "gb200_efa topology_check_on": "efa_topology_check",
    "gb200_guest ats_off": "grace_guest_incomplete",
    "gb200_guest no_command_queues": "grace_guest_incomplete",
    "gb300 link_lost_its_signal": "nvlink_failing",
    "gb300 receive_pipe_failed": "nvlink_failing",
    "gb200 cloned_uuid": "cloned_identity",
    "gb200 degraded_fabric": "fabric_degraded",
    "gb200 imex_down": "imex_down",
    "gb200 link_recovery_failed": "nvlink_failing",
    "gb200 no_cluster": "nvlink_domain_split",
    "gb200 noisy_link": "nvlink_failing",
    "gb200 symbol_errors": "nvlink_failing",
    "gb200 no_peermem": "no_gpudirect",
    "gb200 port_without_link": "rdma_port_down",
    "gb200 wrong_partition": "fabric_partition",
    "gh200 memory_repair_pending": "memory_repair_pending",
    "h100_pod row_remap_failed": "memory_worn",
    "h100_sriov empty_libcuda": "container_libraries_broken",
    "h100_sriov function_outside_the_partition": "rdma_partition_differs",
    "h100_sriov function_without_link": "rdma_port_down",
    "h100_sriov two_toolkits": "tools_differ",
    "h100_sriov locked_memory_limited": "container_settings_unfit",
    "h100_sriov stale_specification": "container_libraries_broken",
    "h100_sriov topology_file_elsewhere": "topology_file_missing",
    "h100_sriov topology_file_empty": "topology_file_missing",
    "h100_vm fabric_not_joined": "fabric_not_joined",
    "h100_vm one_function_missing": "rdma_port_down",
    "h100x8 another_chassis": "not_as_ordered",
    "h100x8 one_end_named_twice": "cabled_elsewhere",
    "h100x8 cable_not_accepted": "cable_not_accepted",
    "h100x8 card_halted": "card_firmware_halted",
    "h100x8 card_too_warm": "card_too_warm",
    "h100x8 drive_does_not_answer": "drive_failing",
    "h100x8 kernel_error": "kernel_broken",
    "h100x8 machine_check": "processor_errors",
    "h100x8 memory_corrected_often": "host_memory_errors_corrected",
    "h100x8 memory_lost": "host_memory_failing",
    "h100x8 no_addresses_for_a_gpu": "gpu_without_addresses",
    "h100x8 process_stuck": "kernel_stalls",
    "h100x8 transfers_refused": "dma_refused",
    "h100x8 a_virtual_machine": "unexpected_machine",
    "h100x8 all_cards_a_generation_older": "pcie_link_degraded",
    "h100x8 another_model": "mixed_models",
    "h100x8 card_at_eight_lanes": "pcie_link_degraded",
    "h100x8 card_two_generations_older": "pcie_link_degraded",
    "h100x8 close_to_slowdown": "cooling",
    "h100x8 compute_prohibited": "compute_mode_set",
    "h100x8 could_not_be_started": "gpu_not_started",
    "h100x8 damaged_packets": "rdma_link_unstable",
    "h100x8 driver_of_another_version": "driver_differs",
    "h100x8 fabric_not_joined": "fabric_not_joined",
    "h100x8 fabric_never_up": "fabric_not_joined",
    "h100x8 gpu_fell_off_the_bus": "gpu_missing",
    "h100x8 gpu_lost": "gpu_lost",
    "h100x8 gpu_needs_a_reset": "gpu_lost",
    "h100x8 gpu_wants_a_reset": "gpu_lost",
    "h100x8 hot_at_idle": "cooling",
    "h100x8 hot_memory": "cooling",
    "h100x8 link_down": "nvlink_down",
    "h100x8 link_downed_is_full": "rdma_link_unstable",
    "h100x8 link_errors": "nvlink_failing",
    "h100x8 memory_left_behind": "memory_held",
    "h100x8 mig_pending": "mig_change_pending",
    "h100x8 narrow_link": "pcie_link_degraded",
    "h100x8 narrow_uplink": "pcie_link_degraded",
    "h100x8 noisy_card": "pcie_noisy",
    "h100x8 nvml_hangs": "driver_hangs",
    "h100x8 nvml_of_another_version": "driver_not_whole",
    "h100x8 one_gpu_ends_processes": "gpu_ends_processes",
    "h100x8 one_memory_sensor_gone": "unlike_its_neighbors",
    "h100x8 one_switch_gone": "nvswitch_lost",
    "h100x8 port_away_for_a_minute": "rdma_link_unstable",
    "h100x8 port_flaps": "rdma_link_unstable",
    "h100x8 port_outside_the_partition": "rdma_partition_differs",
    "h100x8 card_without_driver": "rdma_driver_missing",
    "h100x8 card_without_driver_undeclared": "rdma_driver_missing",
    "h100x8 port_without_link": "rdma_port_down",
    "h100x8 port_without_link_undeclared": "rdma_port_down",
    "h100x8 power_brake": "power_delivery",
    "h100x8 power_capped": "power_limit_lowered",
    "h100x8 slow_at_work": "clocks_held",
    "h100x8 slow_uplink": "pcie_link_degraded",
    "h100x8 small_bar1": "bar1_small",
    "h100x8 vbios_left_behind": "firmware_differs",
    "h100x8 xid_79": "gpu_lost",
    "h100x8 xid_log_flooded": "kernel_log_lost",
    "h100x8 xid_log_lost": "memory_errors_corrected",
    "none should_have_some": "gpu_missing",
    "rtx3090x4 riser_of_one_lane": "pcie_link_degraded",
    "rtx4090_desktop four_of_eight_lanes": "pcie_link_degraded",
    "rtx4090_desktop job_left_behind": "gpu_in_use",
    "rtx4090x4 job_left_behind": "gpu_in_use",
    "rtx4090x4 log_unreadable": "login_unprivileged",
    "rtx4090x4 not_root": "login_unprivileged",
    "rtx4090x4 one_supply_taken_out": "power_budget_short",
    "rtx4090x4 persistence_off": "persistence_off",
    "rtx4090x4 replays": "pcie_noisy",
    "rtx4090x4 two_cables": "power_budget_short",
    "titan_rtx_x2 bridge_badly_seated": "nvlink_down",
    "v100x8 another_kernel": "kernel_differs",
    "v100x8 cuda_older_than_declared": "driver_differs",
    "v100x8 many_retired_pages": "memory_spares_short",
    "v100x8 nccl_left_behind": "nccl_differs",
    "v100x8 no_subnet_manager": "rdma_port_down",
    "v100x8 page_pending": "memory_repair_pending",
    "vgpu_guest job_left_behind": "gpu_in_use",
}
"""The cause by scenario and fault."""


def causes(scenario: Scenario) -> tuple[str, ...]:
    """Return the causes of a node, the likeliest first."""
    return diagnose(*judged(title(scenario)), shipped().rules).by_host.get(title(scenario), ())


def findings_and_causes(node: AtWork) -> tuple[list[str], tuple[str, ...]]:
    """Return what is no pass on a node at work, and its causes, the likeliest first."""
    run = node.run(report(node.node), declared(load(*node.node.split())))
    judgement = judge(run, shipped())
    bad = [
        f"{f.check} {f.metric} {f.subject}: {f.value} {f.reason.text}"
        for f in judgement.findings
        if f.outcome != "pass"
    ]
    return bad, diagnose(run, judgement, shipped().rules).by_host.get(node.name, ())


def name_of(node: AtWork) -> str:
    return node.name


@pytest.mark.parametrize("healthy", SCENARIOS, ids=title)
def test_a_healthy_node_has_no_cause(healthy: Scenario) -> None:
    assert causes(healthy) == (("login_unprivileged",) if healthy.unanswered else ())


@each_fault
def test_the_right_cause_comes_first(faulty: Scenario) -> None:
    assert causes(faulty)[:1] == (CAUSES[title(faulty)],)


@pytest.mark.parametrize("working", WORKING, ids=name_of)
def test_a_healthy_node_at_work_raises_nothing(working: AtWork) -> None:
    assert findings_and_causes(working) == ([], ())


@pytest.mark.parametrize("failing", FAILING, ids=name_of)
def test_the_right_cause_of_what_work_brings_out_comes_first(failing: AtWork) -> None:
    assert findings_and_causes(failing)[1][:1] == (failing.cause,)


def test_the_table_of_nodes_at_work_is_of_rules_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    causes = {node.cause for node in FAILING}
    assert causes <= set(shipped().rules)
    assert len(FAILING) >= LEAST_FAULTS
    assert all(node.doc for node in FAILING)
    with capsys.disabled():
        print(f"\n{len(FAULTS)} faults of idle nodes with {len(set(CAUSES.values()))} causes, ")
        print(f"{len(FAILING)} of nodes at work with {len(causes)}", end=" ")


def test_the_table_is_of_faults_and_rules_that_there_are() -> None:
    assert set(CAUSES) == set(map(title, FAULTS))
    assert set(CAUSES.values()) <= set(shipped().rules)
    assert len(CAUSES) >= LEAST_FAULTS
