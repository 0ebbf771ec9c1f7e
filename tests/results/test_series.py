"""series.py: what goes in comes out, and what claims to be endless does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hwcheck.contract.columnar import pack
from hwcheck.contract.load_run import CollectiveRun, GpuWork, LoadRun, Series
from hwcheck.results.schema_check import schema_problem
from hwcheck.results.series import VisitSeries, problem, unpack

COLUMNS = {
    "gpu0": {
        "power_w": (70.25, 700.04, 699.96, None),
        "temperature_c": (30, 71, 71, 71),
        "pcie_tx_gbps": (None, None, None, 0.0123),
    }
}
RUN = LoadRun(
    "cuda",
    "torch 2.8.0",
    (GpuWork("gpu0", "bf16", 8192, 1000, tflops=771.3, digest="5f1c"),),
    Series((-0.2, 0.0, 0.2, 0.4), COLUMNS),
    0.3,
    0.4,
    settled_s=0.25,
    stopped="gpu0 reached 86 C",
)


def packed(**changes: Any) -> dict[str, Any]:
    return {"load": {**json.loads(json.dumps(pack(RUN)))["load"], **changes}}


def test_it_comes_back_but_for_digits_that_nobody_measured() -> None:
    assert schema_problem(packed(), "series") == ""
    again = unpack(packed()).load
    assert again is not None
    own = again.series.columns["gpu0"]
    assert own["power_w"] == (70.2, 700, 700, None)
    assert (own["temperature_c"], own["pcie_tx_gbps"]) == (
        COLUMNS["gpu0"]["temperature_c"],
        COLUMNS["gpu0"]["pcie_tx_gbps"],
    )
    assert (again.work, again.series.time_s) == (RUN.work, RUN.series.time_s)
    assert (again.settled_s, again.stopped, again.load_end_s) == (0.25, RUN.stopped, 0.3)


def test_an_exercise_has_no_columns() -> None:
    bare = LoadRun("cpu", "torch", (GpuWork("cpu", "fp32", 512, 9),), Series(), 3.0, 4.0)
    assert schema_problem(pack(bare), "series") == ""
    assert unpack(pack(bare)) == VisitSeries(bare)


def test_collectives_beside_a_load() -> None:
    run = CollectiveRun(Series((0.0, 0.2), {"gpu0": {"power_w": (70, 250)}}), 0.4)
    data = {**packed(), **json.loads(json.dumps(pack(run)))}
    assert schema_problem(data, "series") == ""
    assert unpack(data) == VisitSeries(unpack(packed()).load, run)
    assert unpack(pack(run)) == VisitSeries(collectives=run)
    data["collectives"]["columns"]["gpu0"]["power_w"] = [[1, 5]]
    assert schema_problem(data, "series") == "collectives: power_w of gpu0 has 5 rows of 2"
    assert schema_problem({}, "series")
    assert schema_problem({**packed(), "more": packed()["load"]}, "series")


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ([1, 2, 3], "power_w of gpu0 has 3 rows of 4"),
        ([1, [2, 1_000_000_000]], "power_w of gpu0 has 1e+09 rows of 4"),
        ([1, [2, -1], 3, 4, 5], "power_w of gpu0 has nan rows of 4"),
        ([1, [2, 3.0]], "power_w of gpu0 has nan rows of 4"),
        ([1, [2, None]], "power_w of gpu0 has nan rows of 4"),
    ],
)
def test_a_column_of_another_length(cells: list[Any], why: str) -> None:
    data = packed(columns={"gpu0": {"power_w": cells}})
    assert problem(data) == f"load: {why}"
    assert schema_problem(data, "series") == f"load: {why}"


def test_two_works_of_one_gpu() -> None:
    twice = packed()["load"]["work"] * 2
    assert problem(packed(work=twice)) == "load: the work of one GPU is there twice"


def test_time_that_runs_backwards() -> None:
    assert problem(packed(time_s=[0, 2, 1, 3])) == "load: time_s runs backwards"


@pytest.mark.parametrize(
    "changes",
    [
        {"columns": {"../../x": {"power_w": [[1, 4]]}}},
        {"columns": {"gpu0": {"mood": [[1, 4]]}}},
        {"columns": {"gpu0": {"power_w": ["hot", 1, 2, 3]}}},
        {"columns": {"gpu0": {"power_w": [True, 1, 2, 3]}}},
        {"columns": {"gpu0": {"power_w": [[1, 2, 1], 1]}}},
        {"time_s": [0.1] * 4001},
        {"backend": "abacus"},
        {"work": [{"subject": "gpu0"}]},
        {"more": 1},
    ],
)
def test_what_does_not_fit_the_schema(changes: dict[str, Any]) -> None:
    assert schema_problem(packed(**changes), "series")
