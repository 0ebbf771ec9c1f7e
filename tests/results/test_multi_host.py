from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.reasons import Reason
from hwcheck.errors import UsageError
from hwcheck.results.multi_host import (
    MultiHostOutcome,
    MultiHostRecord,
    Suspect,
    Transport,
    read_multi_host,
    write_multi_host,
)
from hwcheck.results.schema_check import schema_problem
from tests.run.multi_host.fake_participants import multi_host_run
from tests.run.multi_host.test_orders import answer

WAY = Transport(("a", "b"), {"NET/IB": 4, "gdrdma": True, "version": "2.27.5"})
RUN = multi_host_run(
    "pairs", ("a", "b"), MultiHostOutcome("ok", 2.0, 2.5), library="gloo", transport=(WAY,)
)
RECORD = MultiHostRecord(
    scopes=("pairs", "all"),
    hosts=("a", "b", "c"),
    backend="gloo",
    runs=(
        RUN,
        multi_host_run(
            "all",
            ("a", "b"),
            MultiHostOutcome("hang"),
            logs={"a": "stack"},
            left_over={"a": (Reason("stuck", "x"),)},
        ),
    ),
    suspects=(Suspect(("a", "b"), "wrong", ("seen",)),),
    absent={"c": Reason("at_work", "busy")},
    unresolved=(Reason("not_pinned", "u"),),
    notes=("n",),
    warnings={"a": "w"},
    not_compared={"b": "alone"},
    leg="site",
    settings={"a": "NCCL_IB_HCA=x (/etc/nccl.conf)"},
    interface_gbps={"a": 25.0},
    finished=True,
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    assert read_multi_host(tmp_path) is None
    write_multi_host(tmp_path, RECORD)
    assert read_multi_host(tmp_path) == RECORD
    assert {path.name for path in tmp_path.iterdir()} == {"group.json"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "top level"),
        (json.dumps({"format": 2}), "top level: lacks scopes"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "group.json").write_text(text)
    with pytest.raises(UsageError, match=problem) as refusal:
        read_multi_host(tmp_path)
    assert "group.json" in str(refusal.value)


def test_outcomes() -> None:
    assert RUN.outcome == MultiHostOutcome("ok", 2.0, 2.5)
    assert multi_host_run("all", "ab", MultiHostOutcome("wrong")).outcome.kind == "wrong"
    assert multi_host_run("all", "ab", MultiHostOutcome("hang")).outcome.kind == "hang"
    assert replace(RUN, sizes=()).outcome.kind == "failed", "done, and nothing measured"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"state": "fine"}, "state"),
        ({"sizes": [{"size_bytes": 1, "times_us": [0.0], "wrong": 0}]}, "sizes"),
        ({"sizes": [{"size_bytes": 1, "times_us": [], "wrong": 0}]}, "sizes"),
        ({"ranks": [{"rank": 0, "process": "<b>", "calls": 0, "done": False}]}, "ranks"),
        ({"exchanges": [{"kind": "exchange", "rank": 0, "wrong_from": {"x": 1}}]}, "exchanges"),
        ({"log_tail": "x" * 20001}, "log_tail"),
        ({"more": 1}, "more"),
        ({"transport": {"NET/IB": [1]}}, "transport"),
        ({"id": -1}, "id"),
    ],
)
def test_what_a_node_answers_is_checked(change: dict[str, Any], where: str) -> None:
    assert schema_problem(answer(), "answer") == ""
    assert where in schema_problem(answer(**change), "answer")


@pytest.mark.parametrize(
    "change",
    [
        {"port": 0},
        {"port": "22"},
        {"address": "::1; rm"},
        {"interface": "a b"},
        {"gpus": -1},
        {"settings": [["NCCL_IB_HCA", "mlx5_0"]]},
        {"rdma_active": None},
        {"interface_gbps": "fast"},
    ],
)
def test_what_a_member_says_that_it_is_is_checked(change: dict[str, Any]) -> None:
    ready = {
        "port": 40000,
        "interface": "eth0.5",
        "address": "10.0.0.1",
        "gpus": 8,
        "model": "H100",
        "rdma_ports": 8,
        "rdma_active": 7,
        "settings": [["NCCL_IB_HCA", "mlx5_0", "/etc/nccl.conf"]],
    }
    assert schema_problem(ready, "ready") == ""
    for rate in (25.0, None):
        assert schema_problem({**ready, "interface_gbps": rate}, "ready") == ""
    assert schema_problem({**ready, **change}, "ready") != ""


def test_a_record_of_a_former_version_has_no_rates(tmp_path: Path) -> None:
    write_multi_host(tmp_path, RECORD)
    file = tmp_path / "group.json"
    data = json.loads(file.read_text())
    del data["interface_gbps"]
    file.write_text(json.dumps(data))
    assert read_multi_host(tmp_path) == replace(RECORD, interface_gbps={})
