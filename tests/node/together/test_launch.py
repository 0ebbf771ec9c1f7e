"""The whole path: payload process, launcher, ranks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.collective_spec import EVERY_NODE_LEGS, MIB, CollectiveSpec, LegPlan
from hwcheck.contract.nccl_diag import DiagnosticsRun
from hwcheck.contract.pairs_run import PairCopy, PairsRun
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import CheckResult, Leg, Request, to_dict
from hwcheck.node import descendants, torch_process
from hwcheck.node.together import launch
from hwcheck.results.schema_check import schema_problem
from tests.node import forked_torch, processes
from tests.node.collective import faulty

pytest.importorskip("torch")

Small = Callable[..., CollectiveSpec]
Marked = Callable[[], list[int]]


def drive(
    spec: CollectiveSpec, payload: str, python: str = sys.executable, **limits: float
) -> list[Leg]:
    return list(launch.drive(spec, python, payload, lambda text: None, **limits))


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the launcher with faults, in a fork."""
    forked_torch.prepare()
    monkeypatch.setattr(launch, "BOOT", faulty.boot())
    monkeypatch.setattr(torch_process, "start", forked_torch.start)


def gone(marked: Marked, patience_s: float = 10.0) -> bool:
    end = time.monotonic() + patience_s
    while marked():
        if time.monotonic() > end:
            return False
    return True


def test_three_legs_on_the_cpu(payload: str, marked: Marked) -> None:
    told: list[str] = []
    request = Request("t", ("all_reduce",), budget_s=2.0)
    found = list(launch.run_legs(request, payload, 0, 1024 * MIB, told.append, EVERY_NODE_LEGS))
    assert [(leg.leg, leg.state, dict(leg.env)) for leg in found] == [
        (plan.name, "done", dict(plan.env)) for plan in EVERY_NODE_LEGS
    ]
    for leg in found:
        assert (leg.backend, leg.ranks, leg.exercise) == ("gloo", 2, True)
        assert leg.library.startswith("gloo (torch ")
        assert "says nothing about GPUs" in leg.notes[0]
        for size in leg.sizes:
            assert size.wrong == 0
            assert size.iterations >= 20
            assert size.busbw_gbps == pytest.approx(size.algbw_gbps)  # 2(n-1)/n is 1 for two
            assert 0.001 < size.busbw_gbps < 1000
            assert size.time_us <= size.time_p95_us
        begin, end = f"all_reduce {leg.leg} 1 MiB ", " GB/s"
        turns = [float(each[len(begin) : -len(end)]) for each in told if each.startswith(begin)]
        assert min(turns) - 0.05 <= leg.sizes[0].busbw_gbps <= max(turns) + 0.05
    result = CheckResult("all_reduce", "done", legs=tuple(found))
    assert schema_problem(to_dict(result), "result") == ""
    assert gone(marked)


def test_the_launcher_runs_from_the_zip(tmp_path: Path, payload: str, small: Small) -> None:
    archive = tmp_path / "payload.pyz"
    package = Path(payload) / "hwcheck"
    rooms = (package / "contract", package / "node")
    with zipfile.ZipFile(archive, "w") as stream:
        for file in [
            package / "__init__.py",
            *(path for room in rooms for path in room.rglob("*.py")),
        ]:
            stream.write(file, file.relative_to(payload))
    code = (
        "import sys, json; sys.path.insert(0, sys.argv[1])\n"
        "from hwcheck.node.together import launch\n"
        "from hwcheck.contract.collective_spec import CollectiveSpec\n"
        "spec = CollectiveSpec.from_dict(json.loads(sys.argv[2]))\n"
        "legs = launch.drive(spec, sys.executable, sys.argv[1], lambda text: None)\n"
        "print([leg.state for leg in legs], launch.__file__)\n"
    )
    orders = json.dumps(small(EVERY_NODE_LEGS[0], max_bytes=MIB).to_dict())
    command = [sys.executable, "-I", "-c", code, str(archive), orders]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.startswith(f"['done'] {archive}"), done.stderr


def test_what_was_set_outside_does_not_reach_the_legs(
    monkeypatch: pytest.MonkeyPatch, forked: None, tmp_path: Path, payload: str, small: Small
) -> None:
    names = ["NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_ALGO", "NCCL_DEBUG", "PATH"]
    monkeypatch.setenv("NCCL_P2P_DISABLE", "outside")
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    spying = {"FAULT": "spy", "SPY_NAMES": json.dumps(names)}
    legs = [
        LegPlan(leg.name, {**leg.env, **spying, "SPY_FILE": str(tmp_path / leg.name)})
        for leg in EVERY_NODE_LEGS
    ]
    drive(small(*legs, max_bytes=MIB), payload)
    common = {"NCCL_DEBUG": "INFO", "PATH": os.environ["PATH"]}
    for leg in EVERY_NODE_LEGS:
        seen = json.loads((tmp_path / leg.name).read_text())
        assert seen == {**common, **leg.env}


def test_nothing_is_left_of_a_payload_that_was_killed(
    tmp_path: Path, payload: str, small: Small, marked: Marked
) -> None:
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\n"
        "from hwcheck.node.together import launch\n"
        "from hwcheck.contract.collective_spec import CollectiveSpec\n"
        "launch.BOOT = sys.argv[2]\n"
        "say = lambda text: print(text, flush=True)\n"
        "spec = CollectiveSpec.from_dict(json.loads(sys.argv[3]))\n"
        "list(launch.drive(spec, sys.executable, sys.argv[1], say))\n"
    )
    orders = small(LegPlan("hang", {"FAULT": "hang"}), budget_s=300.0)
    command = [sys.executable, "-c", code, payload, faulty.boot(), json.dumps(orders.to_dict())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("all_reduce hang 1 MiB")
        assert len(marked()) == 4  # payload, launcher, two ranks
        process.send_signal(signal.SIGKILL)
    assert gone(marked)


@pytest.mark.parametrize(
    ("problem", "states"),
    [
        ("", {"all_reduce": ["hang", "done"], "broadcast": ["not_run", "done"]}),
        ("gpu1: GPU is lost", {"all_reduce": ["hang", "not_run"], "broadcast": ["not_run"] * 2}),
    ],
)
def test_after_a_hang_the_payload_says_whether_the_driver_answers(
    forked: None,
    payload: str,
    small: Small,
    problem: str,
    states: dict[str, list[str]],
) -> None:
    asked: list[str] = []

    def driver() -> str:
        asked.append(problem)
        return problem

    # A healthy turn on a loaded machine ends long before its share, and the hang does not wait.
    plans = (LegPlan("hang", {"FAULT": "hang"}), LegPlan("after", {}))
    orders = small(*plans, collectives=tuple(states), budget_s=20.0, grace_s=0.5)
    legs = list(launch.drive(orders, sys.executable, payload, lambda text: None, driver=driver))
    assert {
        name: [leg.state for leg in legs if leg.collective == name] for name in states
    } == states
    assert asked == [problem]
    assert [leg.driver for leg in legs if leg.state == "hang"] == [problem or "answers"]


def test_beside_nccl_tests_the_copies_are_torchs(
    monkeypatch: pytest.MonkeyPatch, payload: str
) -> None:
    from hwcheck.node.nccl_tests import engine

    orders: list[CollectiveSpec] = []
    leg = Leg("all_reduce", "default", "nccl", 2, "done")
    copies = PairsRun((PairCopy(0, 1, True, 20.0),))

    def drive(spec: CollectiveSpec, *_: object, **__: object) -> Iterator[PairsRun]:
        orders.append(spec)
        yield copies

    def run_legs(spec: CollectiveSpec, *_: object) -> Iterator[Leg]:
        orders.append(spec)
        yield leg

    monkeypatch.setattr(launch, "drive", drive)
    monkeypatch.setattr(engine, "run_legs", run_legs)
    request = Request("t", ("gpu_pairs", "all_reduce"), nccl_tests_dir="/opt/nccl-tests")
    found = list(launch.run_legs(request, payload, 2, 1 << 30, lambda text: None, EVERY_NODE_LEGS))
    assert found == [copies, leg]
    assert [(each.collectives, each.pairs) for each in orders] == [
        ((), True),
        (("all_reduce",), False),
    ]

    def without_torch(spec: CollectiveSpec, *_: object, **__: object) -> Iterator[PairsRun]:
        raise CouldNotMeasure("no torch", "no_torch")

    monkeypatch.setattr(launch, "drive", without_torch)
    found = list(launch.run_legs(request, payload, 2, 1 << 30, lambda text: None, EVERY_NODE_LEGS))
    assert found == [PairsRun(reason=Reason("no_torch", "no torch")), leg]


def test_nccl_tests_time_their_legs_whatever_becomes_of_the_diagnostics(
    monkeypatch: pytest.MonkeyPatch, payload: str
) -> None:
    from hwcheck.node.nccl_tests import engine

    leg = Leg("all_reduce", "default", "nccl", 2, "done")
    copies = PairsRun((PairCopy(0, 1, True, 9.0),))
    orders: list[CollectiveSpec] = []

    def drive(spec: CollectiveSpec, *_: object, **__: object) -> Iterator[PairsRun]:
        orders.append(spec)
        yield copies
        raise CouldNotMeasure("it died")

    def run_legs(spec: CollectiveSpec, *_: object) -> Iterator[Leg]:
        orders.append(spec)
        yield leg

    monkeypatch.setattr(launch, "drive", drive)
    monkeypatch.setattr(engine, "run_legs", run_legs)
    checks = ("gpu_pairs", "nccl_diagnostics", "all_reduce")
    request = Request("t", checks, nccl_tests_dir="/opt/nccl-tests")
    found = list(launch.run_legs(request, payload, 2, 1 << 30, lambda text: None, EVERY_NODE_LEGS))
    assert found == [copies, DiagnosticsRun(reason=Reason("not_measured", "it died")), leg]
    assert [(each.collectives, each.diagnostics) for each in orders] == [
        ((), True),
        (("all_reduce",), False),
    ]


def test_a_consumer_that_stops_ends_the_launcher(forked: None, payload: str, small: Small) -> None:
    others = set(descendants.of(os.getpid()))
    legs = launch.drive(small(), sys.executable, payload, lambda text: None)
    assert next(legs).state == "done"
    ours = set(descendants.of(os.getpid())) - others
    assert len(ours) > 1, "the launcher and its ranks"
    legs.close()  # type: ignore[attr-defined]
    assert all(map(processes.gone, ours))


@pytest.fixture
def bare_python(tmp_path: Path) -> str:
    return script(tmp_path / "bare", f'exec "{sys.executable}" -S "$@"')


def script(path: Path, line: str) -> str:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return str(path)


def test_an_interpreter_without_torch_is_named(
    payload: str, small: Small, bare_python: str
) -> None:
    with pytest.raises(CouldNotMeasure, match=r"^no torch under .*: set hwcheck_torch_python to"):
        drive(small(), payload, bare_python)


def test_a_wrapper_may_put_the_interpreter_into_a_session_of_its_own(
    payload: str, small: Small, bare_python: str, tmp_path: Path
) -> None:
    wrapper = script(tmp_path / "wrapper", f'setsid --fork --wait {bare_python} "$@"')
    with pytest.raises(CouldNotMeasure, match=r"^no torch under .*: set hwcheck_torch_python to"):
        drive(small(), payload, wrapper)


def test_torch_without_cuda_cannot_measure_gpus(forked: None, payload: str, small: Small) -> None:
    torch = pytest.importorskip("torch")
    if torch.version.cuda is not None:
        pytest.skip("this torch has CUDA")
    with pytest.raises(CouldNotMeasure, match=r"^torch .* has no CUDA under .*: set hwcheck_tor"):
        drive(small(gpus=2), payload)


def test_an_interpreter_that_is_not_there_is_named(payload: str, small: Small) -> None:
    with pytest.raises(CouldNotMeasure, match=r"^/no/python cannot be started .No such file"):
        drive(small(), payload, "/no/python")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("echo broken pipe dream >&2; exit 3", "exited with code 3: broken pipe dream"),
        ("kill -9 $$", "was killed by signal 9"),
    ],
)
def test_an_interpreter_that_dies_is_explained(
    tmp_path: Path, payload: str, small: Small, line: str, wanted: str
) -> None:
    with pytest.raises(CouldNotMeasure, match=wanted):
        drive(small(), payload, script(tmp_path / "dying", line))


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("raise OSError('libcudart.so.13: cannot open')", "OSError: libcudart.so.13"),
        ("raise ImportError('libnccl.so.2: undefined symbol')", "libnccl.so.2: undefined symbol"),
    ],
)
def test_a_torch_that_cannot_be_imported_is_explained(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    payload: str,
    small: Small,
    body: str,
    wanted: str,
) -> None:
    (tmp_path / "torch.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(CouldNotMeasure, match=wanted):
        drive(small(), payload)


def test_an_import_that_hangs_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, payload: str, small: Small, marked: Marked
) -> None:
    (tmp_path / "torch.py").write_text("import threading; threading.Event().wait()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(CouldNotMeasure, match="gave no answer within 1 s"):
        drive(small(), payload, import_limit_s=1.0)
    assert gone(marked)


def test_more_ranks_than_data_can_be_verified_for_are_not_run(
    forked: None, payload: str, small: Small
) -> None:
    (leg,) = drive(small(EVERY_NODE_LEGS[0], ranks=64), payload)
    assert (leg.state, leg.reason.text) == (
        "not_run",
        "all_reduce verifies up to 63 ranks, not 64",
    )
