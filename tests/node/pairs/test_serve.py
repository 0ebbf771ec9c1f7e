"""The process that copies, watched; what it does here stands in for the copies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from hwcheck.contract.collective_spec import CollectiveSpec
from hwcheck.contract.pairs_run import CHECK_OFF, PairCopy, PairsRun
from hwcheck.contract.reasons import Reason
from hwcheck.node.collective.hangs import Hangs
from hwcheck.node.json_lines import Send
from hwcheck.node.pairs import serve

SPEC = CollectiveSpec((), 2, 2, 45.0, 1 << 30, pairs=True)


def copies(send: Send) -> None:
    send({"kind": "doing", "what": "start of CUDA on every GPU"})
    for pair in ((0, 1), (1, 0)):
        send({"kind": "doing", "pairs": [pair]})
        send({"kind": "alone", "pair": pair, "access": True, "gbps": 20.0 + pair[0], "wrong": 0})
    for pair in ((0, 1), (1, 0)):
        send({"kind": "doing", "pairs": [pair]})
        send({"kind": "together", "pair": pair, "gbps": 19.0, "wrong": 2 * pair[0]})
    send({"kind": "done"})


def breaks(how: Callable[[], Any]) -> Callable[[Send], None]:
    def body(send: Send) -> None:
        pair = (0, 1)
        send({"kind": "doing", "pairs": [pair]})
        send({"kind": "alone", "pair": pair, "access": True, "gbps": 20.0, "wrong": 0})
        send({"kind": "doing", "pairs": [(1, 0)]})
        how()

    return body


def watched(body: Callable[[Send], None], **limits: float) -> tuple[PairsRun, list[str]]:
    told: list[str] = []
    found = serve.watched(SPEC, body, lambda message: told.append(message["text"]), [], **limits)
    return found, told


def test_what_was_copied_is_put_together() -> None:
    found, told = watched(copies)
    assert found == PairsRun(
        (PairCopy(0, 1, True, 20.0, 19.0, 0), PairCopy(1, 0, True, 21.0, 19.0, 2))
    )
    assert told[:2] == ["gpu_pairs start of CUDA on every GPU", "gpu_pairs gpu0-gpu1"]


def test_a_copy_that_stands_still_is_killed_and_named() -> None:
    start = time.monotonic()
    found, _ = watched(breaks(signal.pause), step_s=0.5)
    assert time.monotonic() - start < 10.0
    assert found == PairsRun(
        (PairCopy(0, 1, True, 20.0),),
        Reason("hang", "gpu1-gpu0: killed after 0 s without a word"),
        ("gpu1-gpu0",),
    )


def test_a_start_that_stands_still_accuses_no_pair() -> None:
    def body(send: Send) -> None:
        send({"kind": "doing", "what": "start of CUDA on every GPU"})
        signal.pause()

    found, _ = watched(body, start_s=0.5)
    assert found == PairsRun(
        (), Reason("hang", "start of CUDA on every GPU: killed after 0 s without a word")
    )


def raises() -> None:
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (lambda: os._exit(7), "gpu1-gpu0: the process exited with code 7"),
        (
            lambda: os.kill(os.getpid(), signal.SIGSEGV),
            "gpu1-gpu0: the process was killed by SIGSEGV",
        ),
        (raises, "gpu1-gpu0: RuntimeError: CUDA error: an illegal memory access was encountered"),
    ],
)
def test_a_process_that_ends_keeps_what_it_had(how: Callable[[], Any], reason: str) -> None:
    found, _ = watched(breaks(how))
    assert found == PairsRun((PairCopy(0, 1, True, 20.0),), Reason("not_measured", reason))


@pytest.mark.parametrize(("problem", "driver"), [("", "answers"), ("no answer", "no answer")])
def test_after_a_hang_the_driver_is_asked_before_any_leg(
    monkeypatch: pytest.MonkeyPatch, problem: str, driver: str
) -> None:
    hung = PairsRun(
        (), Reason("hang", "gpu1-gpu0: killed after 20 s without a word"), ("gpu1-gpu0",)
    )
    monkeypatch.setattr(serve, "_body", lambda *_: copies)
    monkeypatch.setattr(serve, "watched", lambda *_: hung)
    sent: list[dict[str, Any]] = []
    hangs = Hangs(lambda: problem)
    serve.serve(SPEC, sent.append, [], hangs)
    assert PairsRun.from_dict(sent[0]["pairs"]) == PairsRun((), hung.reason, hung.hung, driver)
    assert hangs.refuses("default") == (
        f"after the process that copies gpu1-gpu0 was killed, {problem}: reboot the node"
        if problem
        else ""
    )


def test_without_a_hang_the_driver_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "_body", lambda *_: copies)
    asked: list[str] = []
    sent: list[dict[str, Any]] = []
    serve.serve(SPEC, sent.append, [], Hangs(lambda: str(asked.append("driver"))))
    assert PairsRun.from_dict(sent[-1]["pairs"]).driver == ""
    assert asked == []


@pytest.mark.parametrize(("gpus", "processes"), [(2, 1), (8, 1), (9, 2), (10, 2), (16, 3)])
def test_no_gpu_has_more_peers_in_a_process_than_one_of_eight(gpus: int, processes: int) -> None:
    shares = serve.shares(gpus)
    assert len(shares) == processes
    for met in shares:
        peers = [[pair for pairs in met for pair in pairs if gpu in pair] for gpu in range(gpus)]
        assert max(map(len, peers)) <= 7
    pairs = [frozenset(pair) for met in shares for pairs in met for pair in pairs]
    assert len(pairs) == len(set(pairs)) == gpus * (gpus - 1) // 2


def test_what_several_processes_copied_is_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter(
        [
            PairsRun((PairCopy(0, 1, True, 20.0),)),
            PairsRun(
                (PairCopy(0, 9, True, 19.0),),
                Reason("not_measured", "gpu9-gpu0: killed"),
                ("gpu9-gpu0",),
            ),
        ]
    )
    monkeypatch.setattr(serve, "_body", lambda *_: copies)
    monkeypatch.setattr(serve, "watched", lambda *_: next(shares))
    sent: list[dict[str, Any]] = []
    spec = CollectiveSpec((), 16, 16, 45.0, 1 << 30, pairs=True)
    serve.serve(spec, sent.append, [], Hangs(lambda: ""))  # a third process is not started
    assert PairsRun.from_dict(sent[-1]["pairs"]) == PairsRun(
        (PairCopy(0, 1, True, 20.0), PairCopy(0, 9, True, 19.0)),
        Reason("not_measured", "gpu9-gpu0: killed"),
        ("gpu9-gpu0",),
        "answers",
    )


def test_what_keeps_cuda_from_its_check_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "_body", lambda *_: copies)
    sent: list[dict[str, Any]] = []
    for value in ("1", ""):
        monkeypatch.setenv(CHECK_OFF, value)
        serve.serve(SPEC, sent.append, [], Hangs(lambda: ""))
    runs = [PairsRun.from_dict(each["pairs"]) for each in sent if each["kind"] == "pairs"]
    assert [run.check_off for run in runs] == ["1", ""]
