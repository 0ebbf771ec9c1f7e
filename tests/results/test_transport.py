from __future__ import annotations

from pathlib import Path
from typing import Any

from hwcheck.advise.catalogue import shipped
from hwcheck.judge.judge import judge
from hwcheck.report.multi_host import multi_host_line, multi_host_view
from hwcheck.results.multi_host import Transport
from hwcheck.results.transport import alike, in_words, over_sockets
from hwcheck.run.multi_host.orders import Ready
from tests.judge.test_multi_host import outcomes, run_of
from tests.run.multi_host.answering import well
from tests.run.multi_host.planted import names
from tests.run.multi_host.test_second_look import session

SOCKETS = {"NET/Socket": 4, "network": "Socket eth0", "version": "2.27.5"}
RDMA = {"NET/IB": 4, "gdrdma": 4, "network": "IB mlx5_0:1/IB", "version": "2.27.5"}
FLEET = {name: Ready("10.0.0.1", 5, "eth0", 8, "H100", 8, 8) for name in names(4)}


def record(folder: Path, ready: dict[str, Ready], facts: dict[str, Any]) -> Any:
    def say(host: str, order: Any, group: tuple[str, ...]) -> dict[str, Any]:
        return {**well(order), "transport": facts, "library": "NCCL 2.27.5"}

    return session(folder, say, "all", ready=ready)[0]


def test_hosts_with_equal_facts_stand_together() -> None:
    found = alike({"a": RDMA, "b": SOCKETS, "c": dict(RDMA), "d": {}})
    assert found == (Transport(("a", "c"), RDMA), Transport(("b",), SOCKETS))


def test_a_fleet_on_sockets_beside_rdma_is_warned_of(tmp_path: Path) -> None:
    found = record(tmp_path, FLEET, SOCKETS)
    assert all(over_sockets(run) == run.hosts for run in found.runs)
    assert sorted(found.warnings) == names(4)
    assert found.suspects == ()
    view = multi_host_view(found)
    said = "n[01-04]: NCCL used NET/Socket between hosts, though RDMA ports are active (8)"
    assert any(text.startswith(said) for text in view.remarks)
    assert said in multi_host_line(view)
    assert "NCCL 2.27.5: NET/Socket; Socket eth0 (in 5 runs)" in view.remarks
    judged = judge(run_of("pass"), shipped(), found)
    assert judged.outcome == "pass", "the control: a is no host of this group"


def test_the_warning_is_a_finding(tmp_path: Path) -> None:
    ready = dict.fromkeys(("a", "b"), FLEET["n01"])
    judged = judge(run_of("pass", "pass", "pass"), shipped(), record(tmp_path, ready, SOCKETS))
    assert outcomes(judged) == {"a": "warn", "b": "warn", "c": "pass"}
    assert "NET/Socket" in judged.hosts[0].reason


def test_over_rdma_there_is_nothing_to_warn_of(tmp_path: Path) -> None:
    found = record(tmp_path, FLEET, RDMA)
    assert (found.warnings, found.notes) == ({}, ())
    assert in_words(RDMA) == "NCCL 2.27.5: NET/IB; GPUDirect RDMA; IB mlx5_0:1/IB"


def test_where_one_host_has_no_rdma_nobody_is_to_blame(tmp_path: Path) -> None:
    without = Ready("10.0.0.1", 5, "eth0", 8, "H100", 8, 0)
    found = record(tmp_path, {"n01": FLEET["n01"], "n02": without}, SOCKETS)
    assert found.warnings == {}
    assert "NCCL used NET/Socket: n02 has no active RDMA port, n01 has" in found.notes
