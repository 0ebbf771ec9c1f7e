"""The file and the lock of a sweep: whole or begun anew, and one holder at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

from hwcheck.errors import UsageError
from hwcheck.fleet.sweep import state as sweep_state
from hwcheck.fleet.sweep.state import (
    FOLDER,
    Finished,
    Lock,
    SweepState,
    UnderWay,
    holder,
    key_of,
    read_state,
    write_state,
)
from hwcheck.results.files import DiskError
from tests.small_disk import fill

AT = "2026-03-01T02:30:00Z"
STATE = SweepState(
    UnderWay("c-1.x", AT, AT),
    {"nightly": Finished(AT, 3, 2, 3, ("n1",))},
    waiting={"n1": AT},
    away={"n2": "down"},
    first_seen={"n1": AT, "n2": AT},
)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_state(tmp_path, "c-1") == (SweepState(), "")
    write_state(tmp_path, "c-1", STATE)
    assert read_state(tmp_path, "c-1") == (STATE, "")
    assert read_state(tmp_path, "other") == (SweepState(), "")
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["c-1.json"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 2}', '{"waiting": {"n1": 5}}', "\x00", '"x"']
)
def test_a_damaged_one_costs_who_waits_and_no_sweep(tmp_path: Path, text: str) -> None:
    write_state(tmp_path, "c-1", STATE)
    (tmp_path / FOLDER / "c-1.json").write_text(text)
    state, problem = read_state(tmp_path, "c-1")
    assert state == SweepState()
    assert "c-1.json" in problem
    assert problem.endswith("begun anew: who was at work last time is not known")


def test_a_time_that_is_none_is_damage(tmp_path: Path) -> None:
    write_state(tmp_path, "c-1", SweepState(waiting={"n1": "yesterday"}))
    assert read_state(tmp_path, "c-1")[0] == SweepState()


def test_a_full_disk_leaves_the_old_one(small_disk: Path) -> None:
    write_state(small_disk, "c-1", STATE)
    fill(small_disk)
    with pytest.raises(DiskError, match="No space left on device"):
        write_state(small_disk, "c-1", SweepState(first_seen={f"n{n}": AT for n in range(900)}))
    assert read_state(small_disk, "c-1") == (STATE, "")


def test_every_inventory_has_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "cluster.yml").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "cluster.yml").touch()
    keys = {key_of(str(tmp_path / name)) for name in ("cluster.yml", "other/cluster.yml")}
    keys |= {key_of("n1,n2"), key_of("n1,n3"), key_of("../../etc,passwd")}
    assert len(keys) == 5
    assert all("/" not in key and len(key) < 60 for key in keys)
    assert key_of(str(tmp_path / "other/../cluster.yml")) == key_of(str(tmp_path / "cluster.yml"))


HOLD = """
import sys, time
from pathlib import Path
from threading import Event, Thread
from hwcheck.fleet.sweep.state import Lock
with Lock(Path(sys.argv[1]), "c-1", "cluster.yml", "sweep run of nightly"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_one_at_a_time_and_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    assert holder(tmp_path, "c-1") == ""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with (
            pytest.raises(UsageError, match=r"cluster\.yml: one at a time") as raised,
            Lock(tmp_path, "c-1", "cluster.yml", "another"),
        ):
            pass
        assert "sweep run of nightly, since 20" in str(raised.value)
        assert f"process {process.pid} of " in str(raised.value)
        assert f"process {process.pid} of " in holder(tmp_path, "c-1")
        with Lock(tmp_path, "c-2", "other.yml", "another"):
            pass
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert holder(tmp_path, "c-1") == ""
    with Lock(tmp_path, "c-1", "cluster.yml", "another"):
        assert "another, since" in holder(tmp_path, "c-1")
    assert holder(tmp_path, "c-1") == ""


def test_who_is_soon_done_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_state, "LOCK_WAIT_S", 0.0)
    done = Event()

    def wait() -> None:
        with Lock(tmp_path, "c-1", "cluster.yml", "night", waits_for="sweep run of minutes,"):
            done.set()

    waiting = Thread(target=wait, daemon=True)
    with Lock(tmp_path, "c-1", "cluster.yml", "sweep run of minutes"):
        waiting.start()
        for other in (None, "sweep run of nightly,"):
            with (
                pytest.raises(UsageError, match="one at a time: sweep run of minutes"),
                Lock(tmp_path, "c-1", "cluster.yml", "another", waits_for=other),
            ):
                pass
        assert not done.is_set()
    assert done.wait(60)
    waiting.join()


def test_a_look_does_not_keep_a_sweep_from_beginning(tmp_path: Path) -> None:
    for _ in range(20):
        with Lock(tmp_path, "c-1", "cluster.yml", "one"):
            assert holder(tmp_path, "c-1")


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "c-1.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DiskError), Lock(tmp_path, "c-1", "cluster.yml", "one"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_fifo_in_the_place_of_the_lock_keeps_nobody_waiting(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    os.mkfifo(tmp_path / FOLDER / "c-1.lock")
    assert holder(tmp_path, "c-1") == ""
    with pytest.raises(DiskError, match="not a file"), Lock(tmp_path, "c-1", "cluster.yml", "one"):
        pass
