from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from hwcheck.node.collective import flight
from hwcheck.node.collective.flight import LINE_CHARACTERS, listen, records, summary
from hwcheck.node.collective.log import TAIL_CHARACTERS, Log
from hwcheck.node.collective.ranks import RankGroup
from hwcheck.node.collective.stacks import tail_with_stacks
from hwcheck.node.json_lines import Send


def entry(number: int, state: str = "completed", **changes: Any) -> dict[str, Any]:
    """An entry as torch writes it (version 2.10), without what is not told here."""
    return {
        "record_id": number,
        "process_group": ["0", "default_pg"],
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "profiling_name": "nccl:all_reduce",
        "input_sizes": [[262144]],
        "input_dtypes": ["Float"],
        "output_sizes": [[262144]],
        "output_dtypes": ["Float"],
        "state": state,
        "is_p2p": False,
        **changes,
    }


def record(*entries: Any, **changes: Any) -> str:
    status = {
        "last_enqueued_collective": "42",
        "last_started_collective": "42",
        "last_completed_collective": "41",
    }
    data = {"version": "2.10", "entries": list(entries), "pg_status": {"0": status}, **changes}
    return json.dumps(data)


def test_the_last_entries_say_where_it_stands() -> None:
    entries = [entry(number) for number in range(1, 42)]
    lines = summary(record(*entries, entry(42, "started")))
    assert lines[0] == "process group 0: last enqueued 42, completed 41"
    assert [line.split()[0] for line in lines[1:]] == ["38", "39", "40", "41", "42"]
    assert lines[-1] == (
        "42 nccl:all_reduce started: input [[262144]] ['Float'], output [[262144]] ['Float']"
    )
    assert " completed: " in lines[-2]


def test_what_goes_from_rank_to_rank_has_a_number_of_its_own() -> None:
    sent = entry(7, "scheduled", is_p2p=True, p2p_seq_id=3, profiling_name="nccl:send 0->1")
    assert summary(record(sent))[-1].startswith("3 nccl:send 0->1 scheduled: ")


def test_a_long_entry_is_cut() -> None:
    lines = summary(record(entry(1, input_sizes=[[1] * 1000])))
    assert len(lines[-1]) == LINE_CHARACTERS


@pytest.mark.parametrize(
    "text",
    [
        record(pg_status={}),
        "{}",
        '{"entries": 7, "pg_status": [1]}',
    ],
)
def test_a_record_of_nothing_says_so(text: str) -> None:
    assert summary(text) == ["no collective was recorded"]


def test_a_bare_list_of_entries_with_one_number_each_is_the_first_form() -> None:
    old = {"seq_id": 9, "profiling_name": "nccl:all_reduce", "state": "scheduled"}
    assert summary(json.dumps([old]))[-1].startswith("9 nccl:all_reduce scheduled: ")
    assert summary("[]") == ["no collective was recorded"]


def test_an_entry_of_another_kind_does_not_break_the_rest() -> None:
    assert summary(record("odd", entry(2)))[-1].startswith("2 nccl:all_reduce completed: ")


@pytest.mark.parametrize("text", ["", "7", "{", b"\xff"])
def test_what_is_no_record_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"Expecting|object|decode"):
        summary(text)


def test_torchs_own_record_is_understood(tmp_path: Any) -> None:
    """The installed torch records gloo's work in the same form."""
    dist = pytest.importorskip("torch.distributed")
    torch = pytest.importorskip("torch")
    dump = getattr(torch._C._distributed_c10d, "_dump_fr_trace_json", None)
    if dump is None:
        pytest.skip("this torch records NCCL only")
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        dist.all_reduce(torch.ones(12345))
        lines = summary(dump())
    finally:
        dist.destroy_process_group()
    assert "gloo:all_reduce" in lines[-1]
    assert "input [[12345]] ['Float']" in lines[-1]


def waits(dump: Callable[[], str] | None) -> Callable[[int], Callable[[Send], None]]:
    """A rank that hangs in the main thread, as in CUDA: it runs no Python there."""

    def of(rank: int) -> Callable[[Send], None]:
        def body(send: Send) -> None:
            listen(rank, dump)
            send({"kind": "here"})
            os.read(os.pipe()[0], 1)  # nobody will ever write

        return body

    return of


def deaf(rank: int) -> Callable[[Send], None]:
    def body(send: Send) -> None:
        send({"kind": "here"})
        threading.Event().wait()

    return body


def asked(*bodies: Callable[[Send], None], most: int = TAIL_CHARACTERS) -> list[str]:
    """Return what ranks with these bodies have recorded, one text for each."""
    with Log() as log, RankGroup() as group:
        for rank, body in enumerate(bodies):
            group.fork(rank, body, {}, log.fd, [])
        for each in group.ranks:
            assert each.read() == [{"kind": "here"}]
        log.write("NCCL INFO before\n")
        found = records(group, log, most)
        assert [each.rank for each in group.alive()] == list(range(len(bodies)))
    return found.split("-- flight record of rank ")[1:]


def broken() -> str:
    raise RuntimeError("no such record")


def test_each_rank_that_hangs_says_what_it_did_last() -> None:
    first, second = asked(
        waits(lambda: record(entry(41)))(0), waits(lambda: record(entry(40, "started")))(1)
    )
    assert first.splitlines()[0] == "0"
    assert first.splitlines()[-1].startswith("41 nccl:all_reduce completed: ")
    assert second.splitlines()[-1].startswith("40 nccl:all_reduce started: ")


def test_a_rank_that_cannot_say_it_is_noted_and_lives() -> None:
    without, failing, silent = asked(waits(None)(0), waits(broken)(1), deaf(2))
    assert without == "0\nthis torch gives no record of NCCL\n"
    assert failing == "1\nthe record cannot be read: RuntimeError('no such record')\n"
    assert silent == "2\nno answer within 1 s\n"


BEGIN_WORDS = "-- flight record of rank "


def test_records_of_many_ranks_are_cut() -> None:
    found = asked(*(waits(lambda: record(entry(1)))(rank) for rank in range(3)), most=100)
    assert all(len(BEGIN_WORDS + each) <= 100 for each in found)
    assert all(
        "nccl:all_reduce" not in each and each[:2] == f"{n}\n" for n, each in enumerate(found)
    )


def test_the_tail_has_records_and_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight, "PATIENCE_S", 10.0)
    with Log() as log, RankGroup() as group:
        group.fork(0, waits(lambda: record(entry(5, "started")))(0), {}, log.fd, [])
        assert group.ranks[0].read() == [{"kind": "here"}]
        log.write("NCCL INFO before\n")
        assert "flight record" not in tail_with_stacks(group, log)
        tail = tail_with_stacks(group, log, recorded=True)
    before, *_, after = tail.split("-- flight record of rank 0\n")
    assert before.startswith("NCCL INFO before\n")
    assert "5 nccl:all_reduce started: " in after.split("-- stack of rank 0\n")[0]
    assert "in body" in after.split("-- stack of rank 0\n")[1]
