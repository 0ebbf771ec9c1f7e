"""What only a load brings out is found, and named, by its check; healthy nodes are silent.

The payload runs as on a node: its burn under an interpreter whose CUDA is simulated, its sampler
and its checks over the simulated NVML, which sees the GPUs at work. All nodes are loaded at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pytest

pytest.importorskip("torch")

from hwcheck.connect import payload
from hwcheck.judge.records import Finding
from hwcheck.node.wire import Report
from hwcheck.site.fake_load import fake_load
from tests.lab import loads
from tests.lab.load_runs import CHECKS, LOAD_S, Loaded, largest_gap_s, run, told
from tests.lab.loads import LoadedNode

SIGNS = {"pass": ".", "warn": "W", "fail": "F", "inconclusive": "?", "": "-"}
LEGEND = ". pass   W warn   F fail   ? inconclusive   - does not apply"

pytestmark = [pytest.mark.timeout(400), pytest.mark.alone]
"""The first test waits for all loads: 55 s on two processors, of which half is importing torch."""

HEALTHY = [loads.load(name) for name in loads.names()]
ALONE = ("thermal_slope", "thermal_spread")
NOT_APPLICABLE = {
    "gb200": ("pcie_link_under_load",),
    "gh200": (*ALONE, "pcie_link_under_load"),
    "vgpu_guest": tuple(check for check in CHECKS if check != "compute_errors"),
}
"""What has no meaning on a node: beside NVLink-C2C, with one GPU, and on a share of a board."""
FAULTY = [loads.load(node.name, fault) for node in HEALTHY for fault in loads.faults(node.name)]


def title(node: LoadedNode) -> str:
    return node.name


def tells_power(node: LoadedNode) -> bool:
    return node.scenario.nvml is not None and "power_w" in node.scenario.nvml["gpu"]


@pytest.fixture(scope="module")
def rows() -> dict[str, Loaded]:
    """Return what came of each node, by its name."""
    with TemporaryDirectory(prefix="hwlab-") as name:
        folder = Path(name)
        zipped = folder / "payload.pyz"
        zipped.write_bytes(payload.build().data)
        roots = {node.name: folder / f"{node.name}.tree" for node in HEALTHY}
        for node in HEALTHY:
            node.install(roots[node.name])

        def loaded(node: LoadedNode) -> Loaded:
            root = roots[node.scenario.name] / "root"
            return run(node, folder / node.name.replace(" ", "."), zipped, root)

        nodes = [*HEALTHY, *FAULTY]
        with ThreadPoolExecutor(len(nodes)) as pool:
            return dict(zip(map(title, nodes), pool.map(loaded, nodes), strict=True))


@pytest.mark.parametrize("node", HEALTHY, ids=title)
def test_a_healthy_node_passes_every_check(node: LoadedNode, rows: dict[str, Loaded]) -> None:
    row = rows[node.name]
    assert row.complaints() == {}
    left_out = NOT_APPLICABLE.get(node.name, ())
    expected = {check: "" if check in left_out else "pass" for check in CHECKS}
    assert {check: row.outcome(check) for check in CHECKS} == expected
    assert row.actions == ()


@pytest.mark.parametrize("node", FAULTY, ids=title)
def test_a_fault_is_found_and_named_and_nothing_else(
    node: LoadedNode, rows: dict[str, Loaded]
) -> None:
    row = rows[node.name]
    assert row.complaints() == node.finds
    evidence = {action.check: " ".join(action.evidence) for action in row.actions}
    for found in node.finds:
        check, subject = found.split()
        assert subject == "node" or subject in evidence[check]


def test_every_check_of_the_load_has_a_fault() -> None:
    assert {found.split()[0] for node in FAULTY for found in node.finds} == set(CHECKS)
    assert all(node.doc for node in FAULTY)


@pytest.mark.parametrize("node", [node for node in HEALTHY if tells_power(node)], ids=title)
def test_nvml_sees_the_load_and_its_end(node: LoadedNode, rows: dict[str, Loaded]) -> None:
    load = rows[node.name].load
    assert LOAD_S <= load.load_end_s < LOAD_S + 2
    for work in load.work:
        says = node.scenario.nvml["gpu"]
        before, during, after = (
            told(load, "power_w", work.subject, begin_s, end_s)
            for begin_s, end_s in ((-60, -3), (2, load.load_end_s), (load.load_end_s + 4, 60))
        )
        assert set(before) == set(after) == {says["power_w"]}
        assert median(during) == pytest.approx(says["under_load"]["power_w"], abs=1)
        heat = told(load, "temperature_c", work.subject, 0)
        assert heat[0] + 15 < max(heat) > heat[-1] + 10


@pytest.mark.parametrize("node", HEALTHY, ids=title)
def test_the_gpus_are_as_fast_as_the_file_says(node: LoadedNode, rows: dict[str, Loaded]) -> None:
    for says, work in zip(node.gpus, rows[node.name].load.work, strict=True):
        assert work.tflops == pytest.approx(says["tflops"], rel=1e-3)
        assert work.copy_gbps == pytest.approx(says["copy_gbps"], rel=1e-3)
        assert work.products > 1000
        assert work.size == 8192


def test_heat_costs_what_the_clock_loses(rows: dict[str, Loaded]) -> None:
    fast, *_, slow = sorted(
        rows["h100x8 throttles_at_86"].load.work, key=lambda work: -work.products
    )
    assert slow.subject == "gpu2"
    assert slow.products < 0.97 * fast.products


def test_what_was_dangerous_ended_the_load(rows: dict[str, Loaded]) -> None:
    stopped = {name: row.load.stopped for name, row in rows.items() if row.load.stopped}
    assert stopped == {
        "h100x8 too_hot_to_go_on": "gpu4 reached 86 C, and slows down at 88 C",
        "h100x8 uncorrectable_errors": "gpu3 has uncorrectable memory errors (1 more than before "
        "the load)",
    }
    assert all(rows[name].load.load_end_s < LOAD_S for name in stopped)


def test_no_sample_is_missed_for_long(rows: dict[str, Loaded]) -> None:
    # The median of the nodes: all of them share this machine, and are not what a node is.
    gaps = [largest_gap_s(row.load) for row in rows.values()]
    assert median(gaps) <= 0.5, gaps


def test_a_hole_and_an_alarm_would_be_seen() -> None:
    load = fake_load({"time_s": {"from": -2, "to": 30, "every": 0.25}})
    assert largest_gap_s(load) == 0.25
    times = tuple(at_s for at_s in load.series.time_s if not 7 < at_s < 9)
    assert largest_gap_s(replace(load, series=replace(load.series, time_s=times))) == 2.0
    cut = tuple(at_s for at_s in times if at_s < 17)
    assert largest_gap_s(replace(load, series=replace(load.series, time_s=cut))) == 3.25
    made = [("cool_down", "gpu1", "pass"), ("cool_down", "gpu1", "warn"), ("xid", "node", "pass")]
    findings = tuple(Finding("n", check, out, "m", subject) for check, subject, out in made)
    row = Loaded(Report({}, ()), load, findings, ())
    assert row.complaints() == {"cool_down gpu1": "warn"}
    assert [row.outcome(check) for check in ("cool_down", "xid", "driver")] == ["warn", "pass", ""]


def test_the_table(rows: dict[str, Loaded], capsys: pytest.CaptureFixture[str]) -> None:
    table = render(rows)
    with capsys.disabled():
        print("\n" + table)
    cells = next(line for line in table.splitlines() if line.startswith("h100x8 slow "))
    signs = dict(zip(CHECKS, cells.split("  ")[-1].split(), strict=True))
    assert signs == {**dict.fromkeys(CHECKS, "."), "sustained_tflops": "F"}


def render(rows: Mapping[str, Loaded]) -> str:
    """Return the table: a row for each node, a column for each check, its name written down."""
    width, height = max(map(len, rows)), max(map(len, CHECKS))
    lines = [
        " " * width + "  " + " ".join(name.rjust(height)[line] for name in CHECKS)
        for line in range(height)
    ]
    lines.append("-" * (width + 1 + 2 * len(CHECKS)))
    for name, row in rows.items():
        signs = " ".join(SIGNS[row.outcome(check)] for check in CHECKS)
        lines.append(name.ljust(width) + "  " + signs)
    found = sum(node.finds.items() <= rows[node.name].complaints().items() for node in FAULTY)
    false = sum(len(rows[node.name].complaints()) for node in HEALTHY)
    gaps = sorted(largest_gap_s(row.load) for row in rows.values())
    lines += ["", LEGEND, f"{found} of {len(FAULTY)} faults found and named, {false} false alarms"]
    lines += [f"longest time without a sample: {median(gaps):.2f} s (median), {gaps[-1]:.2f} s"]
    return "\n".join(lines)
