"""The hosts by groups of checks, rack by rack: where in the room something is wrong, and what.

A host of which every group is well has no row of its own: its rack counts it. So the map of a
thousand hosts is as long as the list of those that are not well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hwcheck.fold import fold
from hwcheck.judge.records import MULTI_HOST, OUTCOMES, TRAINING, worst
from hwcheck.render.view import HostView
from hwcheck.text import line

GROUPS: Mapping[str, tuple[str, ...]] = {
    "GPUs": (
        *("gpu_count", "gpu_lost", "gpu_model", "serials", "vbios", "inforom", "mig", "xid"),
        *("compute_errors", "compute_mode", "dcgm_diag", "sustained_tflops", "kernel_faults"),
        *("faults_under_load", "errors_under_load", "bar1_size", "grace_guest"),
    ),
    "GPU memory": ("ecc_errors", "ecc_mode", "retired_pages", "row_remap", "hbm_bandwidth"),
    "PCIe": (
        *("pcie_link", "pcie_link_under_load", "pcie_errors", "pcie_aer", "pcie_acs"),
        *("pcie_uplinks", "device_to_host", "host_to_device", "iommu"),
    ),
    "NVLink, P2P": (
        *("nvlink_state", "nvlink_errors", "nvswitch_fabric", "imex", "topology", "gpu_pairs"),
        "p2p_status",
    ),
    "power, clocks": (
        *("power_budget", "power_cap", "power_idle", "power_state", "power_under_load"),
        *("application_clocks", "clocks_under_load", "throttle_reasons", "throttle_under_load"),
        "persistence_mode",
    ),
    "heat": (
        *("temperature_idle", "temperature_under_load", "thermal_margin", "thermal_slope"),
        *("thermal_spread", "cool_down"),
    ),
    "collectives": (
        *("all_reduce", "all_gather", "alltoall", "broadcast", "reduce_scatter", "sendrecv"),
        *("nccl_diagnostics", "nccl_environment", "nccl_topology_file", "gate_proof", TRAINING),
    ),
    "network": (
        *("card_links", "infiniband_ports", "partition_keys", "port_flaps", "roce_gids"),
        *("peermem", "cabling", MULTI_HOST),
    ),
    "software": (
        *("driver", "cuda_driver", "kernel", "software_versions", "tool_versions"),
        *("container_files", "container_settings"),
    ),
    "host": (
        *("cpu_governor", "disk_free", "file_systems", "host_memory", "hugepages", "memlock"),
        *("numa_balancing", "nvme_drives", "shm_size", "stray_processes", "time_sync"),
        *("virtualization", "parts"),
    ),
}
"""Which checks stand together, in the order of the columns; ``OTHER`` has those of a site."""
OTHER = "other"
GROUP_OF = {check: group for group, members in GROUPS.items() for check in members}

MOST_ROWS = 200
MOST_CHECKS = 6


@dataclass(frozen=True)
class Cell:
    """What came of a group of checks: the worst outcome, how many have it, and which, in words."""

    outcome: str
    amount: int
    names: str = ""


@dataclass(frozen=True)
class MapRow:
    """One host that is not well, with a cell for each column."""

    host: HostView
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Rack:
    """The hosts of one rack; ``name`` is empty where the inventory names none.

    ``cells`` count its hosts with the worst outcome of each column; ``well`` are those without a
    row, folded.
    """

    name: str
    hosts: int
    cells: tuple[Cell, ...]
    well: str
    well_amount: int
    rows: tuple[MapRow, ...]


@dataclass(frozen=True)
class HeatMap:
    """Columns and racks; ``left_out`` are hosts that are not well and have no row, folded."""

    columns: tuple[str, ...]
    racks: tuple[Rack, ...]
    left_out: str


def heat_map(hosts: Sequence[HostView], racks: Mapping[str, str], order: Sequence[str]) -> HeatMap:
    """Return the map; ``racks`` by host, ``order`` is that of the inventory."""
    place = {name: at for at, name in enumerate(order)}
    by_rack: dict[str, list[HostView]] = defaultdict(list)
    for host in sorted(hosts, key=lambda host: place[host.name]):
        by_rack[racks.get(host.name, "")].append(host)
    asked = {check for host in hosts for check in host.check_names}
    columns = [group for group, members in GROUPS.items() if asked & set(members)]
    columns += [OTHER] if asked - set(GROUP_OF) else []
    unwell = [host.name for host in hosts if host.verdict.outcome != "pass"]
    shown = set(unwell[:MOST_ROWS])  # the gravest come first
    return HeatMap(
        tuple(columns),
        tuple(
            _rack(name, by_rack[name], columns, shown) for name in sorted(by_rack, key=_by_number)
        ),
        fold(unwell[MOST_ROWS:]),
    )


def _rack(name: str, hosts: Sequence[HostView], columns: Sequence[str], shown: set[str]) -> Rack:
    rows = [MapRow(host, _cells(host, columns)) for host in hosts if host.verdict.outcome != "pass"]
    well = [host.name for host in hosts if host.verdict.outcome == "pass"]
    return Rack(
        name=line(name, 60),
        hosts=len(hosts),
        cells=tuple(_sum(row.cells[at] for row in rows) for at in range(len(columns))),
        well=fold(well),
        well_amount=len(well),
        rows=tuple(row for row in rows if row.host.name in shown),
    )


def _cells(host: HostView, columns: Iterable[str]) -> tuple[Cell, ...]:
    if host.record.report is None:
        return tuple(Cell("inconclusive", 1, "nothing was measured") for _ in columns)
    bad: dict[str, dict[str, str]] = defaultdict(dict)
    for finding in host.findings:
        if finding.outcome != "pass" and not finding.waived:
            of_group = bad[GROUP_OF.get(finding.check, OTHER)]
            of_group[finding.check] = worst((finding.outcome, of_group.get(finding.check, "pass")))
    return tuple(_cell(bad[column]) for column in columns)


def _cell(bad: Mapping[str, str]) -> Cell:
    outcome = worst(bad.values())
    names = [line(check, 60) for check, of_check in bad.items() if of_check == outcome]
    more = f" and {len(names) - MOST_CHECKS} more" if len(names) > MOST_CHECKS else ""
    return Cell(outcome, len(names), ", ".join(names[:MOST_CHECKS]) + more)


def _sum(cells: Iterable[Cell]) -> Cell:
    amounts = Counter(cell.outcome for cell in cells)
    outcome = next((name for name in OUTCOMES[:-1] if amounts[name]), "pass")
    return Cell(outcome, amounts[outcome] if outcome != "pass" else 0)


def _by_number(name: str) -> tuple[bool, list[tuple[int, str]]]:
    """Order names as people do: A2 before A10; hosts without a rack come last."""
    parts = "".join(c if c.isdigit() else f" {c} " for c in name).split()
    return name == "", [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
