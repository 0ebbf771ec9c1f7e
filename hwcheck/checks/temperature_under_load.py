"""No GPU comes near its slowdown threshold while all of them work."""

from __future__ import annotations

from typing import Iterator

from hwcheck.checks.shared.load_summary import Loaded, load_of, per_loaded_board
from hwcheck.contract.check import CouldNotMeasure, Metric, Remedy, check, in_words
from hwcheck.contract.limits import AtLeast, AtMost, Equal, Steady
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import NO_VGPU
from hwcheck.node.node import Node

TEMPERATURE_SLOWDOWN_C = Metric(
    "temperature_slowdown_c", "C", "temperature at which the board slows itself down"
)


@check(
    metrics=[
        Metric(
            "temperature_c",
            "C",
            "highest core temperature under load",
            required=True,
            past=Steady(1, ratio=False, scatter=1.0, least=8.0),
            drawn_as="temperature under load",
        ),
        TEMPERATURE_SLOWDOWN_C,
        Metric(
            "slowdown_margin_c",
            "C",
            "from the highest temperature to the board's slowdown threshold",
            (
                AtLeast(
                    "derived from the board's own threshold (NVML API Reference Guide, "
                    "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN): a load is ended at 2 C; 5 C is what a "
                    "warm day or a clogged filter takes",
                    fail=3,
                    warn=5,
                    confidence="derived",
                ),
            ),
            low_is_bad=True,
        ),
        Metric(
            "temperature_max_operating_c",
            "C",
            "temperature from which on the driver lowers the clocks",
            setting=True,
        ),
        Metric(
            "max_operating_margin_c",
            "C",
            "from the highest temperature to that",
            (
                AtLeast(
                    "derived from the board's own threshold (NVML API Reference Guide, "
                    "NVML_TEMPERATURE_THRESHOLD_GPU_MAX): 2 C below it a warm day is enough",
                    warn=2,
                    confidence="derived",
                ),
            ),
            low_is_bad=True,
        ),
        Metric(
            "temperature_without_threshold_c",
            "C",
            "the same temperature of a board that gives no threshold",
            (
                AtMost(
                    "derived: 70-75 C is excellent, below 80 good; boards that give a threshold "
                    "slow down from 82 C (nvidia-smi -q, Tesla P100), most from 84-90 C",
                    warn=79,
                    fail=83,
                    confidence="derived",
                ),
            ),
            of_some="of a GPU that gives no threshold, which is named",
        ),
        Metric(
            "memory_temperature_c",
            "C",
            "highest memory temperature under load",
            past=Steady(1, ratio=False, scatter=1.0, least=8.0),
        ),
        Metric(
            "memory_margin_c",
            "C",
            "from it to the board's own limit for its memory",
            (
                AtLeast(
                    "NVML API Reference Guide, NVML_TEMPERATURE_THRESHOLD_MEM_MAX: hotter than "
                    "that the memory is not within its specification and the driver lowers the "
                    "clocks",
                    fail=0,
                    warn=3,
                ),
            ),
            low_is_bad=True,
        ),
        Metric(
            "ended_for_safety",
            "",
            "whether the load was ended early because going on was not safe",
            (
                Equal(
                    False,
                    source="derived: the load of hwcheck ends 2 C below a slowdown threshold, at "
                    "an uncorrectable memory error and when a GPU is silent; none may happen at "
                    "work",
                    confidence="derived",
                ),
            ),
        ),
        in_words("why the load was ended"),
    ],
    remedy=Remedy(
        cause="a failed fan or pump, a blocked air path or filter, a heat sink or cold plate "
        "without contact, or air that is too warm",
        fix="compare with the other GPUs of the node and the same slot of its neighbors; check "
        "fans, coolant flow and inlet temperature, then the board's mounting",
        command="nvidia-smi -q -d TEMPERATURE,PERFORMANCE && ipmitool sdr type Fan",
    ),
    load=True,
    per_gpu=True,
    optional=NO_VGPU,
    group="heat",
)
def temperature_under_load(node: Node) -> Iterator[Sample]:
    """Read how hot each GPU and its memory become, and how far that is from the board's thresholds.

    Idle temperatures hide what fans, filters and cold plates cannot do. A GPU that reaches its
    threshold loses half its clocks or more, and the job with it. The board's own threshold comes
    first, since a margin means the same on every model. A load that had to be ended for safety's
    sake is a failure with its reason.
    """
    run = load_of(node)
    yield Sample("ended_for_safety", bool(run.stopped), "")
    if run.stopped:
        yield Sample("meaning", run.stopped, "")
    yield from per_loaded_board(node, _of_gpu)


def _of_gpu(loaded: Loaded) -> Iterator[Sample]:
    hottest, subject = loaded.extreme("temperature_c", max), loaded.subject
    yield Sample("temperature_c", hottest, "C", subject)
    try:
        margin = loaded.slowdown_margin_c()
    except CouldNotMeasure:
        yield Sample("temperature_without_threshold_c", hottest, "C", subject)
    else:
        yield Sample("temperature_slowdown_c", hottest + margin, "C", subject)
        yield Sample("slowdown_margin_c", margin, "C", subject)
    highest = loaded.gpu.temperature_max_operating_c()
    if highest is not None:
        yield Sample("temperature_max_operating_c", highest, "C", subject)
        yield Sample("max_operating_margin_c", highest - hottest, "C", subject)
    if loaded.has("memory_temperature_c"):
        yield from _memory(loaded)


def _memory(loaded: Loaded) -> Iterator[Sample]:
    hottest = loaded.extreme("memory_temperature_c", max)
    yield Sample("memory_temperature_c", hottest, "C", loaded.subject)
    highest = loaded.gpu.memory_temperature_max_c()
    if highest is not None:
        yield Sample("memory_margin_c", highest - hottest, "C", loaded.subject)
