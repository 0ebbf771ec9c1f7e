from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hwcheck
from hwcheck.contract.collective_spec import MIB, CollectiveSpec, LegPlan
from hwcheck.contract.wire import Leg
from hwcheck.node import torch_process
from hwcheck.node.together import launch
from tests.node import forked_torch
from tests.node.collective import faulty

PAYLOAD = str(Path(hwcheck.__file__).parent.parent)
MARK = "HWCHECK_TEST_MARK"


@pytest.fixture(scope="session")
def payload() -> str:
    return PAYLOAD


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """A value in the environment of everything that this test starts."""
    value = uuid.uuid4().hex
    monkeypatch.setenv(MARK, value)
    return value


@pytest.fixture
def marked(mark: str) -> Iterator[Callable[[], list[int]]]:
    """The processes that were started with the mark and are alive now; none outlives the test."""

    def find() -> list[int]:
        wanted = f"{MARK}={mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and wanted in environment(entry):
                found.append(int(entry.name))
        return found

    yield find
    for pid in find():
        os.kill(pid, signal.SIGKILL)


def environment(process: Path) -> list[bytes]:
    """What a process was started with; empty for one that is gone, or a zombie."""
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


@pytest.fixture(scope="session")
def small() -> Callable[..., CollectiveSpec]:
    """Orders that take about a second: 1 to 4 MiB on two gloo ranks."""

    def make(*legs: LegPlan, **changes: object) -> CollectiveSpec:
        orders: dict[str, object] = {
            "collectives": ("all_reduce",),
            "ranks": 2,
            "gpus": 0,
            "budget_s": 60.0,
            "memory_available_bytes": 1024 * MIB,
            "max_bytes": 4 * MIB,
            "turns": 1,
            **changes,
        }
        if legs:
            orders["legs"] = legs
        return CollectiveSpec(**orders)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def run_faulty() -> Callable[[CollectiveSpec], list[Leg]]:
    """Run orders with the launcher whose collective misbehaves where FAULT says so."""
    forked_torch.prepare()

    def run(spec: CollectiveSpec) -> list[Leg]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(launch, "BOOT", faulty.boot())
            patch.setattr(torch_process, "start", forked_torch.start)
            return list(launch.drive(spec, sys.executable, PAYLOAD, lambda text: None))

    return run
