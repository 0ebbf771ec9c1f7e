from __future__ import annotations

import csv
import io

from hwcheck.advise.assessment import Assessment
from hwcheck.report.samples_csv import COLUMNS, samples_csv
from tests import factories
from tests.factories import gpu_host
from tests.report.example import judged


def _rows(assessment: Assessment) -> list[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(samples_csv(assessment)))
    assert tuple(reader.fieldnames or ()) == COLUMNS
    return list(reader)


def test_every_sample_is_a_line_with_its_outcome() -> None:
    host = gpu_host("a", power_limit_w=(3, 400.0))
    assert host.report is not None
    rows = _rows(judged(factories.run(host)))
    samples = sum(len(result.samples) for result in host.report.results)
    assert sum(row["size_bytes"] == "" for row in rows) == samples
    (low,) = [row for row in rows if row["outcome"] == "fail"]
    assert low == {
        "host": "a",
        "check": "power_cap",
        "subject": "gpu3",
        "metric": "power_limit_percent",
        "value": "57.1",
        "unit": "%",
        "size_bytes": "",
        "outcome": "fail",
    }


def test_a_collective_is_there_size_by_size() -> None:
    rows = [row for row in _rows(judged(factories.run(gpu_host("a")))) if row["size_bytes"]]
    of_default = [row for row in rows if row["subject"] == "leg default"]
    assert {row["metric"] for row in rows} == {"time_us", "busbw_gbps"}
    assert len({row["size_bytes"] for row in of_default}) == 11


def test_hostile_text_is_one_cell_and_no_formula(hostile: Assessment) -> None:
    for row in _rows(hostile):
        assert None not in row.values()
        for cell in row.values():
            assert len(cell) < 1000
            assert "\n" not in cell
            assert not cell.startswith(("=", "@", "\t"))


def test_what_a_spreadsheet_takes_for_a_formula_is_a_text() -> None:
    host = gpu_host("a", pcie_link_width="=HYPERLINK(1)")
    cells = {row["value"] for row in _rows(judged(factories.run(host)))}
    assert "'=HYPERLINK(1)" in cells
