from __future__ import annotations

from dataclasses import replace

from hwcheck import checks
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.check import GROUPS
from hwcheck.report.heat_map import HeatMap, heat_map
from hwcheck.report.view import host_views
from hwcheck.results.run_folder import Run
from tests import factories
from tests.factories import gpu_host, record
from tests.report.example import judged


def _map(run: Run) -> HeatMap:
    hosts = list(host_views(judged(run)))
    racks = {plan.name: plan.rack for plan in run.meta.hosts}
    return heat_map(hosts, racks, [plan.name for plan in run.meta.hosts], shipped().checks)


def _in_racks(run: Run, *racks: str) -> Run:
    plans = (replace(p, rack=rack) for p, rack in zip(run.meta.hosts, racks, strict=True))
    return replace(run, meta=replace(run.meta, hosts=tuple(plans)))


def test_every_check_is_in_one_group() -> None:
    groups = {check.group for check in checks.load().values()}
    assert groups == set(GROUPS[:-1]), "the last is that of a site's checks"


def test_a_host_that_is_not_well_has_a_row_and_its_rack_counts_it() -> None:
    capped = gpu_host("n2", power_limit_w=(0, 300.0), persistence_mode=False)
    run = _in_racks(
        factories.run(gpu_host("n1"), capped, gpu_host("n3"), record("n4", None)),
        *("A10", "A2", "A2", ""),
    )
    made = _map(run)
    assert [rack.name for rack in made.racks] == ["A2", "A10", ""]
    first, second, last = made.racks
    assert (first.hosts, first.well, [row.host.name for row in first.rows]) == (2, "n3", ["n2"])
    at = made.columns.index("power, clocks")
    (row,) = first.rows
    assert (row.cells[at].outcome, row.cells[at].names) == ("fail", "power_cap")
    assert first.cells[at].amount == 1
    assert {cell.outcome for n, cell in enumerate(row.cells) if n != at} == {"pass"}
    assert (second.rows, second.well_amount) == ((), 1)
    assert {cell.outcome for cell in last.rows[0].cells} == {"inconclusive"}


def test_columns_are_of_what_was_asked_and_a_site_has_its_own() -> None:
    run = factories.run(gpu_host("a"), checks=("driver", "fans_of_ours"))
    assert _map(run).columns == ("software", "other")


def test_what_has_no_row_is_named() -> None:
    hosts = [gpu_host(f"n{n:03}", power_limit_w=(0, 300.0)) for n in range(203)]
    made = _map(factories.run(*hosts, checks=("power_cap",)))
    assert sum(len(rack.rows) for rack in made.racks) == 200
    assert made.left_out == "n[200-202]"
