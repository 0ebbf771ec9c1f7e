"""What only a load brings out is found, and named, by its check; healthy nodes are silent.

The payload runs as on a node: its burn under an interpreter whose CUDA is simulated, its sampler
and its checks over the simulated NVML, which sees the GPUs at work. All nodes are loaded at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pytest

pytest.importorskip("torch")

from hwcheck.contract.wire import Report
from hwcheck.judge.records import Finding
from hwcheck.testing.fake_load import fake_load
from tests.lab import loads
from tests.lab.load_runs import CHECKS, LOAD_S, Loaded, largest_gap_s, run, told
from tests.lab.loads import LoadedNode

SIGNS = {"pass": ".", "warn": "W", "fail": "F", "inconclusive": "?", "": "-"}
LEGEND = ". pass   W warn   F fail   ? inconclusive   - does not apply"

pytestmark = [pytest.mark.timeout(400), pytest.mark.urgent]
"""The first test waits for all loads, most of the time idly."""

HEALTHY = [loads.load(name) for name in loads.names()]
ALONE = ("thermal_slope", "thermal_spread")
NOT_APPLICABLE = {
    "gb200": ("pcie_link_under_load",),
    "gh200": (*ALONE, "pcie_link_under_load"),
    "vgpu_guest": tuple(check for check in CHECKS if check != "compute_errors"),
}
"""What has no meaning on a node: beside NVLink-C2C, with one GPU, and on a share of a board."""
FAULTY = [loads.load(node.name, fault) for node in HEALTHY for fault in loads.faults(node.name)]
ENDED = {
    "h100x8 too_hot_to_go_on": "gpu4 reached 86 C, and slows down at 88 C",
    "h100x8 uncorrectable_errors": "gpu3 has uncorrectable memory errors (1 more than before "
    "the load)",
}
"""Faults that end the load: they are dangerous."""
HOT = loads.load("h100x8", "throttles_at_86", "stays_hot", "bad_contact", "slow")
SLOW = loads.load("h100x8", "power_brake", "wrong_now_and_then", "bad_slot", "slow_copies")
"""Faults that end no load go together, each on a GPU of its own."""
FEW = [
    *(node for node in HEALTHY if node.name in ("h100x8", "vgpu_guest")),
    *(node for node in FAULTY if node.name in ENDED),
    *(HOT, SLOW),
]


def tells_power(node: LoadedNode) -> bool:
    return node.scenario.nvml is not None and "power_w" in node.scenario.nvml["gpu"]


Rows = Mapping[str, tuple[LoadedNode, Loaded]]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(FEW, id="few"),
        pytest.param(
            [*HEALTHY, *FAULTY, HOT], id="all", marks=[pytest.mark.wide, pytest.mark.alone]
        ),
    ],
)
def rows(request: pytest.FixtureRequest) -> Rows:
    """Return nodes and what came of each, by their names."""
    nodes: list[LoadedNode] = request.param
    with TemporaryDirectory(prefix="hwlab-") as name:
        folder = Path(name)
        roots = {node.name: folder / f"{node.name}.tree" for node in HEALTHY}
        for like in {node.scenario.name for node in nodes}:
            loads.load(like).install(roots[like])

        def loaded(node: LoadedNode) -> Loaded:
            root = roots[node.scenario.name] / "root"
            return run(node, folder / node.name.replace(" ", "."), root)

        with ThreadPoolExecutor(len(nodes)) as pool:
            return {
                node.name: (node, row)
                for node, row in zip(nodes, pool.map(loaded, nodes), strict=True)
            }


def healthy(rows: Rows) -> dict[str, Loaded]:
    return {name: row for name, (node, row) in rows.items() if not node.finds}


def test_a_healthy_node_passes_every_check(rows: Rows) -> None:
    silent = healthy(rows)
    assert len(silent) > 1
    assert {name: row.complaints() for name, row in silent.items()} == {name: {} for name in silent}
    for name, row in silent.items():
        left_out = NOT_APPLICABLE.get(name, ())
        expected = {check: "" if check in left_out else "pass" for check in CHECKS}
        assert {check: row.outcome(check) for check in CHECKS} == expected, name
        assert row.actions == (), name


def test_a_fault_is_found_and_named_and_nothing_else(rows: Rows) -> None:
    faulty = {name: row for name, row in rows.items() if row[0].finds}
    complaints = {name: row.complaints() for name, (_, row) in faulty.items()}
    assert complaints == {name: node.finds for name, (node, _) in faulty.items()}
    for node, row in faulty.values():
        for found in node.finds:
            check, subject = found.split()
            evidence = [" ".join(each.evidence) for each in row.actions if each.check == check]
            assert any(subject in ("node", *text.split()) for text in evidence), node.name


@pytest.mark.parametrize("nodes", [FEW, FAULTY], ids=["few", "all"])
def test_every_check_of_the_load_has_a_fault(nodes: Sequence[LoadedNode]) -> None:
    assert {found.split()[0] for node in nodes for found in node.finds} == set(CHECKS)
    assert all(node.doc for node in FAULTY)


def test_nvml_sees_the_load_and_its_end(rows: Rows) -> None:
    nodes = [rows[name] for name in healthy(rows) if tells_power(rows[name][0])]
    assert nodes
    for node, row in nodes:
        load = row.load
        assert LOAD_S <= load.load_end_s < LOAD_S + 2, node.name
        for work in load.work:
            says = node.scenario.nvml["gpu"]  # type: ignore[index]
            before, during, after = (
                told(load, "power_w", work.subject, begin_s, end_s)
                for begin_s, end_s in ((-60, -3), (2, load.load_end_s), (load.load_end_s + 4, 60))
            )
            assert set(before) == set(after) == {says["power_w"]}, node.name
            assert median(during) == pytest.approx(says["under_load"]["power_w"], rel=0.03)
            heat = told(load, "temperature_c", work.subject, 0)
            assert heat[0] + 15 < max(heat) > heat[-1] + 10, node.name


def test_the_gpus_are_as_fast_as_the_file_says(rows: Rows) -> None:
    for name in healthy(rows):
        node, row = rows[name]
        for says, work in zip(node.gpus, row.load.work, strict=True):
            assert work.tflops == pytest.approx(says["tflops"], rel=1e-3), name
            assert work.copy_gbps == pytest.approx(says["copy_gbps"], rel=1e-3), name
            assert work.products > 1000, name
            assert work.size == 8192, name


def test_heat_costs_what_the_clock_loses(rows: Rows) -> None:
    _, row = rows[HOT.name]
    # Not by the number of products: a busy machine lets a process make fewer.
    slowest = {work.subject: work.tflops_low or 0.0 for work in row.load.work}
    assert 0 < slowest["gpu2"] < 0.97 * median(slowest.values())


def test_what_was_dangerous_ended_the_load(rows: Rows) -> None:
    stopped = {name: row.load.stopped for name, (_, row) in rows.items() if row.load.stopped}
    assert stopped == ENDED
    assert all(rows[name][1].load.load_end_s < LOAD_S for name in stopped)


def test_no_sample_is_missed_for_long(rows: Rows) -> None:
    # The median of the nodes: all of them share this machine, and are not what a node is.
    gaps = [largest_gap_s(row.load) for _, row in rows.values()]
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


def test_the_table(rows: Rows, capsys: pytest.CaptureFixture[str]) -> None:
    table = render(rows)
    with capsys.disabled():
        print("\n" + table)
    cells = next(line for line in table.splitlines() if line.startswith("h100x8 uncorrectable"))
    signs = dict(zip(CHECKS, cells.split("  ")[-1].split(), strict=True))
    failed = ("errors_under_load", "temperature_under_load")
    assert {check for check, sign in signs.items() if sign == "F"} == set(failed)


def render(rows: Rows) -> str:
    """Return the table: a row for each node, a column for each check, its name written down."""
    width, height = max(map(len, rows)), max(map(len, CHECKS))
    lines = [
        " " * width + "  " + " ".join(name.rjust(height)[line] for name in CHECKS)
        for line in range(height)
    ]
    lines.append("-" * (width + 1 + 2 * len(CHECKS)))
    for name, (_, row) in rows.items():
        signs = " ".join(SIGNS[row.outcome(check)] for check in CHECKS)
        lines.append(name.ljust(width) + "  " + signs)
    named = [node.finds.items() <= row.complaints().items() for node, row in rows.values()]
    faults = [each for each, (node, _) in zip(named, rows.values(), strict=True) if node.finds]
    false = sum(len(row.complaints()) for row in healthy(rows).values())
    gaps = sorted(largest_gap_s(row.load) for _, row in rows.values())
    lines += ["", LEGEND]
    lines += [f"{sum(faults)} of {len(faults)} faulty nodes named, {false} false alarms"]
    lines += [f"longest time without a sample: {median(gaps):.2f} s (median), {gaps[-1]:.2f} s"]
    return "\n".join(lines)
