from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from hwcheck.contract import collective_spec, wire
from hwcheck.contract.wire import (
    LEG_NAMES,
    CheckResult,
    Deframer,
    GpuFacts,
    Leg,
    Lines,
    Report,
    Request,
    Sample,
    SizeTiming,
    Timing,
    frame,
    marker,
    to_dict,
)

TOKEN = "0123abcd"
HALF = SizeTiming(1 << 20, 20, 10.0, 12.5, 0.01, 104.9, 183.5, 2)
SIZE = SizeTiming(1 << 20, 60, 10.0, 12.5, 0.01, 104.9, 183.5, 1, 3, 0.02, HALF)
LEG = Leg(
    "all_reduce",
    "p2p_off",
    "nccl",
    8,
    "done",
    env={"NCCL_P2P_DISABLE": "1"},
    sizes=(SIZE,),
    notes=("SHM",),
    dtype="bfloat16",
    transport={"SHM": 8, "nvls": False, "network": "IB mlx5_0:1"},
)
RESULT = CheckResult("all_reduce", "done", samples=(Sample("m", 1.5, "W", "gpu0"),), legs=(LEG,))
REPORT = Report({"hostname": "node1", "gpus": [{"index": 0}]}, (RESULT,), 1.5)
TIMING = Timing(("default", "net"), 8 << 20, 64 << 20, 4, 30, 0, "bfloat16")
REQUEST = Request(TOKEN, ("driver",), expect={"gpus": 8}, force=True, timing=TIMING)


@pytest.mark.parametrize("record", [LEG, RESULT, REPORT, REQUEST], ids=lambda r: type(r).__name__)
def test_a_record_comes_back_as_it_went(record: Any) -> None:
    plain = json.loads(json.dumps(to_dict(record)))
    assert type(record).from_dict(plain) == record


def test_answers_that_are_alike_have_one_tuple_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [{"metric": "m", "value": n, "unit": "W", "subject": "gpu0"} for n in range(3)]
    texts = [json.dumps({"check": c, "state": "done", "samples": samples}) for c in ("a", "b")]
    one, two = (CheckResult.from_dict(json.loads(text)) for text in texts)
    assert one.samples is two.samples
    shorter = {**json.loads(texts[0]), "samples": samples[:2]}
    assert CheckResult.from_dict(shorter).samples == one.samples[:2]
    monkeypatch.setattr(wire, "MOST_TUPLES", 1)
    monkeypatch.setattr(wire, "_TUPLES", {})
    others = [{**samples[0], "value": n} for n in range(7, 9)]
    for each in (*others, others[1]):  # begins anew where it is full
        last = CheckResult.from_dict({**json.loads(texts[0]), "samples": [each]}).samples
        assert [sample.value for sample in last] == [each["value"]]
        assert list(wire._TUPLES.values()) == [last]


def test_what_older_versions_wrote_is_read() -> None:
    size = {
        k: v for k, v in to_dict(SIZE).items() if k not in ("passes", "pass_spread", "in_place")
    }
    leg = {k: v for k, v in to_dict(LEG).items() if k not in ("dtype", "transport")}
    found = Leg.from_dict({**leg, "sizes": [size]})
    assert (found.dtype, found.transport) == ("float", {})
    (old,) = found.sizes
    assert (old.passes, old.pass_spread, old.in_place, old.all_wrong) == (1, 0.0, None, 1)
    request = {k: v for k, v in to_dict(REQUEST).items() if k != "timing"}
    assert Request.from_dict(request).timing == Timing()


def test_wrong_elements_of_both_halves_count() -> None:
    assert SIZE.all_wrong == 3


def test_the_names_of_legs_are_those_of_their_plans() -> None:
    assert (
        *(
            plan.name
            for plan in (*collective_spec.EVERY_NODE_LEGS, *collective_spec.SOME_NODE_LEGS)
        ),
        collective_spec.SITE,
    ) == LEG_NAMES


def test_a_request_with_an_unknown_key_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        Request.from_dict({"token": TOKEN, "checks": [], "colour": "red"})


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_json_has_no_number_for_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        to_dict(replace(SIZE, spread=number))
    with pytest.raises(ValueError, match="JSON"):
        frame(TOKEN, "result", value=number)


def test_a_frame_is_one_line_of_ascii_whatever_it_holds() -> None:
    line = frame(TOKEN, "progress", text="zwei\nZeilen \u2028 ü \udc80")
    assert line.isascii()
    assert line.count("\n") == 1
    assert line.startswith(marker(TOKEN))


FIRST = frame(TOKEN, "progress", text="gpu_count")
SECOND = frame(TOKEN, "report", report={"a": [1, 2]})
STREAM = ("Welcome!\n" + FIRST + "motd: " + SECOND + "trailing").encode() + b" \xff"
FRAMES = [{"kind": "progress", "text": "gpu_count"}, {"kind": "report", "report": {"a": [1, 2]}}]


@pytest.mark.parametrize("step", [1, 2, 7, 64, 10_000])
def test_frames_and_noise_come_apart_however_the_bytes_are_cut(step: int) -> None:
    deframer = Deframer(TOKEN)
    frames: list[dict[str, Any]] = []
    noise: list[str] = []
    for start in range(0, len(STREAM), step):
        got, lines = deframer.feed(STREAM[start : start + step])
        frames += got
        noise += lines
    assert frames == FRAMES
    assert noise == ["Welcome!", "motd: "]
    assert deframer.rest() == "trailing \ufffd"


@pytest.mark.parametrize(
    "line",
    [
        frame("another0", "report", report={}),  # a frame of some other visit
        marker(TOKEN) + "{broken\n",
        marker(TOKEN) + "[1, 2]\n",
        marker(TOKEN) + "\n",
        marker(TOKEN) + "[" * 100_000 + "\n",
        marker(TOKEN).strip() + '{"kind": "report"}\n',  # no blank after the token
    ],
    ids=["other-token", "broken", "list", "empty", "deep", "no-blank"],
)
def test_what_is_no_frame_is_noise(line: str) -> None:
    frames, noise = Deframer(TOKEN).feed(line.encode())
    assert frames == []
    assert noise == [line[:-1]]


def test_a_line_ending_of_windows_does_not_hurt() -> None:
    frames, noise = Deframer(TOKEN).feed(FIRST.encode().replace(b"\n", b"\r\n"))
    assert frames == FRAMES[:1]
    assert noise == []


GPU = {"index": 3, "name": "NVIDIA H100", "uuid": "GPU-aaaa", "nvlink_links": 0, "mig": False}


def test_the_facts_of_a_gpu_keep_their_keys_and_leave_out_what_was_not_said() -> None:
    facts = GpuFacts.from_dict(GPU)
    assert facts == GpuFacts(3, "NVIDIA H100", "GPU-aaaa", nvlink_links=0, mig=False)
    assert facts.to_dict() == GPU


def test_facts_of_another_version_are_read_as_far_as_they_are_known() -> None:
    odd = {"index": "3", "name": 7, "nvlink_links": True, "mig": 1, "color": "green", "vbios": "9"}
    assert GpuFacts.from_dict(odd) == GpuFacts(vbios="9")


def test_a_report_has_the_gpus_of_its_facts() -> None:
    assert Report({"gpus": [GPU, {"index": 1, "error": "GPU is lost"}]}, ()).gpus == (
        GpuFacts.from_dict(GPU),
        GpuFacts(1, error="GPU is lost"),
    )
    assert [Report(facts, ()).gpus for facts in ({}, {"gpus": 8})] == [(), ()]  # type: ignore[dict-item]


def test_every_fact_of_a_gpu_has_a_type_to_be_checked_by() -> None:
    assert set(wire._GPU_FACT_TYPES) == {field.name for field in fields(GpuFacts)}


def test_a_line_that_does_not_end_is_looked_at_once() -> None:
    looked = 0

    class Counted(bytes):
        def split(self, *args: Any) -> list[bytes]:  # type: ignore[override]
            nonlocal looked
            looked += len(self)
            return bytes(self).split(*args)

    lines = Lines()
    for _ in range(1000):
        assert lines.feed(Counted(b"x" * 100)) == []
    assert lines.feed(Counted(b"y\nz\n\nrest")) == [b"x" * 100_000 + b"y", b"z", b""]
    assert lines.rest() == b"rest"
    assert looked == 100_009
