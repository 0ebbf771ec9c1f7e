"""What one run points at is held against known-good partners before it is accused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hwcheck.judge.multi_host import findings_about
from hwcheck.results.multi_host import MultiHostRecord, read_multi_host
from hwcheck.results.options import MultiHostOptions
from hwcheck.run.multi_host.orders import Ready
from hwcheck.run.multi_host.scope_runner import MOST_HINTED, ScopeRunner
from tests.run.multi_host.answering import AnsweringMembers, Say, hung, well
from tests.run.multi_host.planted import names
from tests.run.multi_host.test_orders import answer

OOM = "rank 1: OutOfMemoryError: CUDA out of memory"


def session(
    folder: Path, say: Say, *scopes: str, ready: Any = None, asked: MultiHostOptions | None = None
) -> tuple[MultiHostRecord, AnsweringMembers]:
    ready = ready or {name: Ready("10.0.0.1", 5, "eth0", 1) for name in names(6)}
    members = AnsweringMembers(ready, say)
    record = ScopeRunner(members, scopes, folder, lambda text: None, options=asked).run()  # type: ignore[arg-type]
    assert read_multi_host(folder) == record
    return record, members


@pytest.mark.parametrize("scopes", [("pairs",), ("all",), ("pairs", "all")])
def test_the_receiver_of_a_dead_link_is_not_accused(
    tmp_path: Path, scopes: tuple[str, ...]
) -> None:
    """n01 has sent and is done, n02 waits for it: by the steps alone it would be n02."""

    def say(host: str, order: Any, group: tuple[str, ...]) -> dict[str, Any]:
        if not {"n01", "n02"} <= set(group):
            return well(order)
        return hung(4 if host == "n02" else 5)

    record, _ = session(tmp_path, say, *scopes)
    found = [(sorted(one.hosts), one.kind) for one in record.suspects]
    assert found == [(["n01", "n02"], "hang")]


@pytest.mark.parametrize("scopes", [("pairs",), ("all",)])
def test_a_host_that_fails_again_is_accused_with_its_reason(
    tmp_path: Path, scopes: tuple[str, ...]
) -> None:
    def say(host: str, order: Any, group: tuple[str, ...]) -> dict[str, Any]:
        if "n03" not in group:
            return well(order)
        reason = OOM if host == "n03" else "rank 0 was killed by SIGABRT"
        return answer(state="failed", sizes=[], reason=reason, aborted=host != "n03")

    record, _ = session(tmp_path, say, *scopes)
    assert [(one.hosts, one.kind) for one in record.suspects] == [(("n03",), "failed")]
    assert record.suspects[0].evidence[0] == f"n03: {OOM}"
    assert len([line for line in record.suspects[0].evidence if line.startswith("n03 with")]) >= 2


@pytest.mark.parametrize("scope", ["pairs", "all"])
def test_a_failure_that_does_not_come_again_is_left_open(tmp_path: Path, scope: str) -> None:
    left = iter([True])

    def say(host: str, order: Any, group: tuple[str, ...]) -> dict[str, Any]:
        if host == "n03" and (scope == "pairs" or len(group) == 6) and next(left, False):
            return answer(state="failed", sizes=[], reason=OOM)
        return well(order)

    record, _ = session(tmp_path, say, scope)
    assert record.suspects == ()
    (line,) = record.unresolved
    assert "n03" in line.text
    findings = [one for host in record.hosts for one in findings_about(host, record)]
    assert {one.outcome for one in findings} == {"inconclusive"}


def test_a_rank_whose_process_stands_still_is_accused_at_once(tmp_path: Path) -> None:
    def say(host: str, order: Any, group: tuple[str, ...]) -> dict[str, Any]:
        if "n03" not in group:
            return well(order)
        return hung(4, "T" if host == "n03" else "S")

    record, members = session(tmp_path, say, "all")
    assert [(one.hosts, one.kind) for one in record.suspects] == [(("n03",), "hang")]
    assert {why for why, _ in members.asked} == {"pairs", "all"}, "no run was made to confirm it"


def test_nobody_is_accused_where_every_host_fails_alike(tmp_path: Path) -> None:
    def say(host: str, order: Any, group: tuple[str, ...]) -> dict[str, Any]:
        return answer(state="failed", sizes=[], reason="rank 0: RuntimeError: not supported")

    record, _ = session(tmp_path, say, "all")
    assert record.suspects == ()
    assert record.unresolved


def test_the_first_run_of_each_scope_keeps_its_log(tmp_path: Path) -> None:
    _, members = session(tmp_path, lambda host, order, group: well(order), "pairs", "all")
    kept = [(why, len(given)) for why, given in members.asked if all_keep(given)]
    assert kept == [("pairs", 2), ("pairs", 2), ("pairs", 2), ("all", 6)]


def all_keep(given: dict[str, dict[str, Any]]) -> bool:
    (keep,) = {order["keep_log"] for order in given.values()}
    return bool(keep)


def test_what_is_asked_goes_to_every_host(tmp_path: Path) -> None:
    asked = MultiHostOptions(
        ("all_reduce", "alltoall"), (1 << 20, 1 << 24), 30, 2, "bfloat16", "default"
    )
    record, members = session(
        tmp_path, lambda host, order, group: well(order), "pairs", "all", asked=asked
    )
    told = [order for _, given in members.asked for order in given.values()]
    assert {order["collective"] for order in told} == {"all_reduce", "alltoall"}
    rest = {(o["iterations"], o["warmups"], o["dtype"], o["leg"]) for o in told}
    assert rest == {(30, 2, "bfloat16", "default")}
    by_why = {why: given["n01"]["sizes"] for why, given in members.asked if "n01" in given}
    assert by_why == {"pairs": [1 << 24], "all": [1 << 20, 1 << 24]}
    whole = {run.collective: run.sizes[-1] for run in record.runs if run.why == "all"}
    assert whole["all_reduce"].busbw_gbps == pytest.approx(20 * 2 * 5 / 6)
    assert whole["alltoall"].busbw_gbps == pytest.approx(20 * 5 / 6), "nccl-tests' factor"
    assert {run.dtype for run in record.runs} == {"bfloat16"}
    assert (record.suspects, record.unresolved) == ((), ())


@pytest.mark.parametrize(("behind", "looks"), [(MOST_HINTED, True), (MOST_HINTED + 1, False)])
def test_many_hosts_that_are_behind_are_searched_and_not_looked_at_one_by_one(
    tmp_path: Path, behind: int, looks: bool
) -> None:
    late = names(12)[:behind]

    def say(host: str, order: Any, group: tuple[str, ...]) -> dict[str, Any]:
        return hung(3 if host in late else 4) if len(group) == 12 else well(order)

    ready = {name: Ready("10.0.0.1", 5, "eth0", 1) for name in names(12)}
    record, members = session(tmp_path, say, "all", ready=ready)
    whys = [why for why, _ in members.asked]
    assert ("again" in whys, "split" in whys) == (looks, True)
    assert record.suspects == ()
    assert "hang together and fine in parts" in record.unresolved[0].text
