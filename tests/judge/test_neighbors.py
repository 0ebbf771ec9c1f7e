"""GPUs of one node against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from hwcheck import checks
from hwcheck.advise.catalogue import shipped
from hwcheck.judge.judge import judge
from hwcheck.judge.records import UNLIKE, Finding
from hwcheck.judge.units import LEAST_GPUS, UNITS, Tolerance
from hwcheck.results.run_folder import HostRecord
from hwcheck.testing.cases import answer_of
from tests import factories
from tests.factories import gpu_facts, record

H100 = "NVIDIA H100 80GB HBM3"
REGISTRY = checks.load()

Figures = Mapping[str, Mapping[str, Sequence[Any]]]
"""By check and metric a value for each GPU."""


def host(figures: Figures, models: Sequence[str] = (), name: str = "a") -> HostRecord:
    answers = [
        answer_of(
            check,
            {
                metric: {f"gpu{n}": value for n, value in enumerate(values) if value is not None}
                for metric, values in metrics.items()
            },
            shipped().checks,
        )
        for check, metrics in figures.items()
    ]
    gpus = max(len(values) for metrics in figures.values() for values in metrics.values())
    facts = [
        {**gpu, "uuid": f"GPU-{name}-{n}", "name": models[n] if models else gpu["name"]}
        for n, gpu in enumerate(gpu_facts(gpus, H100))
    ]
    return record(name, answers, gpus=facts)


def odd(*hosts: HostRecord) -> list[Finding]:
    """Return the findings of GPUs that are unlike their neighbors."""
    names = {answer.check for one in hosts if one.report for answer in one.report.results}
    findings = judge(factories.run(*hosts, checks=sorted(names)), shipped()).findings
    return [finding for finding in findings if finding.limit.startswith(UNLIKE)]


def named(*hosts: HostRecord) -> list[tuple[str, str]]:
    return [(finding.metric, finding.subject) for finding in odd(*hosts)]


def one_of(gpus: int, usual: Any, value: Any, place: int = 3) -> list[Any]:
    return [value if n == place else usual for n in range(gpus)]


def mig(*enabled: Any) -> Figures:
    return {"mig": {"mig_enabled": enabled, "mig_change_pending": [False] * len(enabled)}}


def idle(*temperatures: float) -> Figures:
    slowdown = [89] * len(temperatures)
    return {"temperature_idle": {"temperature_c": temperatures, "temperature_slowdown_c": slowdown}}


def memory(*gib: float) -> Figures:
    return {
        "gpu_model": {
            "gpu_model": [H100] * len(gib),
            "gpu_model_of_most": [H100] * len(gib),
            "gpu_board_id": ["x"] * len(gib),
            "memory_gib": gib,
        }
    }


def caps(*watts: float) -> Figures:
    return {
        "power_cap": {
            "power_limit_w": watts,
            "power_limit_default_w": [700.0] * len(watts),
            "power_limit_percent": [100.0] * len(watts),
        }
    }


def widths(*lanes: int) -> Figures:
    same = {"pcie_link_generation": [1] * len(lanes), "pcie_link_generation_max": [5] * len(lanes)}
    return {"pcie_link": {"pcie_link_width": lanes, "pcie_link_width_max": lanes, **same}}


@pytest.mark.parametrize(
    ("figures", "metric"),
    [
        (mig(*one_of(8, False, True)), "mig_enabled"),
        (memory(*one_of(8, 80, 64)), "memory_gib"),
        (idle(31, 33, 34, 62, 36, 38, 39, 41), "temperature_c"),
        (caps(*one_of(8, 700.0, 650.0)), "power_limit_w"),
        (widths(*one_of(8, 16, 8)), "pcie_link_width_max"),
        (mig(False, False, False, True), "mig_enabled"),
    ],
    ids=["MIG", "memory", "warm", "power limit", "lanes", "of four"],
)
def test_one_of_several_is_unlike_its_neighbors(figures: Figures, metric: str) -> None:
    found = odd(host(figures))
    assert (metric, "gpu3") in [(finding.metric, finding.subject) for finding in found]
    assert {(finding.outcome, finding.subject) for finding in found} == {("warn", "gpu3")}


def test_what_the_others_have_is_named() -> None:
    (finding,) = odd(host(mig(*one_of(8, False, True))))
    assert finding.reason.text == "7 of 8 GPUs of this kind in the node have no"
    (warm,) = odd(host(idle(31, 33, 34, 62, 36, 38, 39, 41)))
    assert warm.reason.text == "far above the 37 C of the GPUs of this kind in the node"


@pytest.mark.parametrize(
    "figures",
    [
        mig(*[True] * 8),
        mig(*[True] * 4, *[False] * 4),
        idle(30, 31, 32, 33, 42, 44, 45, 47),
        idle(*[33] * 8),
        memory(*[80] * 7, 79),
        widths(16, 8, 8, 8),
        widths(16, 16, 16, 8),
        mig(False, True),
    ],
    ids=["all MIG", "half", "a warm rear", "alike", "a reserve", "slots", "a short slot", "two"],
)
def test_healthy_neighbors(figures: Figures) -> None:
    assert odd(host(figures)) == []


def test_models_are_compared_with_their_own() -> None:
    models = [H100] * 4 + ["NVIDIA A40"] * 4
    hosts = host(memory(*[80] * 4, *[45] * 4), models)
    assert odd(hosts) == []
    assert named(host(memory(80, 80, 80, 64, *[45] * 4), models)) == [("memory_gib", "gpu3")]


def test_gpus_at_work_and_those_with_a_display_are_warmer() -> None:
    warm = idle(31, 33, 34, 62, 36, 38, 39, 41)
    for metric in ("compute_processes", "graphics_processes"):
        other = {"compute_processes": [0] * 8, "graphics_processes": [0] * 8}
        busy = {"stray_processes": {**other, metric: one_of(8, 0, 1)}}
        assert odd(host({**warm, **busy})) == []
        assert named(host({**warm, "stray_processes": other})) == [("temperature_c", "gpu3")]
    states = {"performance_state": one_of(8, 8, 0)}
    at_work = {"power_state": {**states, "performance_state_at_work": one_of(8, None, 0)}}
    assert odd(host({**warm, **at_work})) == [], "a GPU at work in P0"


def test_what_most_like_hosts_show_in_a_slot_is_meant() -> None:
    figures = mig(*one_of(8, False, True))
    alike = [host(figures, name=name) for name in "abc"]
    assert odd(*alike) == []
    healthy = [host(mig(*[False] * 8), name=name) for name in "de"]
    found = judge(factories.run(host(figures), *healthy, checks=["mig"]), shipped()).findings
    assert {(f.host, f.subject) for f in found if f.outcome == "warn"} == {("a", "gpu3")}


def test_what_is_complained_of_is_not_said_again() -> None:
    hot = idle(31, 33, 34, 88, 36, 38, 39, 41)
    left = [58, 56, 55, 1, 53, 51, 50, 48]
    margins = {"thermal_margin": {"thermal_margin_c": left}}
    findings = judge(
        factories.run(host({**hot, **margins}), checks=["temperature_idle", "thermal_margin"]),
        shipped(),
    ).findings
    assert {f.metric for f in findings if f.outcome != "pass" and f.subject == "gpu3"} == {
        *("temperature_c", "thermal_margin_c")
    }
    assert odd(host({**hot, **margins})) == []


def counted(*errors: int) -> Figures:
    zeros = {
        metric: [0] * len(errors)
        for metric in ("ecc_uncorrected_volatile", "ecc_uncorrected_aggregate")
    }
    return {
        "ecc_errors": {
            **zeros,
            "ecc_corrected_volatile": [0] * len(errors),
            "ecc_corrected_per_hour": errors,
            "ecc_corrected_aggregate": [1500 if n == 3 else 0 for n in range(len(errors))],
        }
    }


def test_counters_by_decades_and_never_those_of_a_whole_life() -> None:
    assert odd(host(counted(0, 3, 40, 2, 97, 12, 0, 5))) == []
    assert named(host(counted(0, 3, 40, 500_000, 97, 12, 0, 5))) == [
        ("ecc_corrected_per_hour", "gpu3")
    ]


def test_a_new_metric_is_taken_in_by_its_unit() -> None:
    """A mode in words, and a power in W; three times as much is none that a display takes."""
    assert named(host(mig(*one_of(8, "Default", "Prohibited")))) == [("mig_enabled", "gpu3")]

    def planned(*watts: float) -> HostRecord:
        limits = [700.0] * len(watts)
        return host({"power_budget": {"power_limit_w": limits, "power_planned_w": watts}})

    assert named(planned(*one_of(8, 70.0, 210.0))) == [("power_planned_w", "gpu3")]
    assert named(planned(68.0, 75.0, 71.0, 92.0, 66.0, 70.0, 69.0, 73.0)) == []
    assert named(planned(9.0, 11.0, 31.0, 8.0)) == []


def test_what_is_compared_over_gpus_is_over_hosts_too() -> None:
    for unit in UNITS.values():
        assert unit.neighbors is None or isinstance(unit.peers, Tolerance), unit.name
    assert LEAST_GPUS > 2


def memory_temperatures(*degrees: float | None) -> Figures:
    left = [50] * len(degrees)
    return {"thermal_margin": {"thermal_margin_c": left, "memory_temperature_c": degrees}}


def actions(*wanted: str | None) -> Figures:
    return {"gpu_lost": {"gpu_answer": ["ok"] * len(wanted), "recovery_action": wanted}}


def corrected(*errors: int | None) -> Figures:
    return {"ecc_errors": dict.fromkeys(counted(0)["ecc_errors"], errors)}


@pytest.mark.parametrize(
    ("figures", "reason"),
    [
        (
            memory_temperatures(*one_of(8, 40, None)),
            "gives no memory_temperature_c; 7 of 8 GPUs of this kind in the node do",
        ),
        (
            actions(*one_of(4, "nothing", None)),
            "gives no recovery_action; 3 of 4 GPUs of this kind in the node do",
        ),
        (
            corrected(*one_of(8, 0, None)),
            "gives no ecc_uncorrected_volatile; 7 of 8 GPUs of this kind in the node do",
        ),
    ],
    ids=["a sensor", "a recovery action", "all of a check"],
)
def test_one_that_does_not_answer_what_its_neighbors_do(figures: Figures, reason: str) -> None:
    (finding,) = odd(host(figures))
    assert (finding.outcome, finding.metric, finding.subject) == ("warn", "absent", "gpu3")
    assert finding.reason.text == reason


@pytest.mark.parametrize(
    "figures",
    [
        memory_temperatures(*[None] * 8),
        memory_temperatures(*[40] * 4, *[None] * 4),
        memory_temperatures(40, None),
        actions(*one_of(8, None, "nothing")),
        {"power_state": {"performance_state_at_work": one_of(8, 0, None)}},
    ],
    ids=["none", "half", "two", "one alone has it", "one that is not at work"],
)
def test_neighbors_that_may_be_silent(figures: Figures) -> None:
    assert odd(host(figures)) == []


def test_what_is_told_by_link_or_process_is_not_missed_of_a_gpu() -> None:
    clean = {f"gpu{n}": 0 for n in range(8) if n != 3}
    errors = answer_of(
        "nvlink_errors", {"nvlink_replay_errors": {**clean, "gpu3 link2": 1}}, shipped().checks
    )
    names = {"process_name": {f"gpu{n} process 9": "python3" for n in range(7)}}
    counts = {"compute_processes": {f"gpu{n}": int(n < 7) for n in range(8)}}
    none = {"graphics_processes": {f"gpu{n}": 0 for n in range(8)}}
    one = host(mig(*[False] * 8))
    assert one.report is not None
    answers = (errors, answer_of("stray_processes", {**counts, **none, **names}, shipped().checks))
    report = replace(one.report, results=(*one.report.results, *answers))
    assert [each for each in odd(replace(one, report=report)) if each.metric == "absent"] == []


def test_with_a_gpu_that_is_split_nobody_is_silent() -> None:
    split = host(corrected(*one_of(8, 0, None)))
    assert split.report is not None
    gpus = [{**gpu, "mig": n == 3} for n, gpu in enumerate(split.report.facts["gpus"])]
    report = replace(split.report, facts={**split.report.facts, "gpus": gpus})
    assert odd(replace(split, report=report)) == []
    assert odd(split)


def test_what_follows_from_a_complaint_is_not_said_of_the_silent() -> None:
    ecc = {
        "ecc_mode": {
            "ecc_enabled": one_of(8, True, False),
            "ecc_change_pending": [False] * 8,
        }
    }
    assert named(host({**ecc, **corrected(*one_of(8, 0, None))})) == [("ecc_enabled", "gpu3")]


def no_ecc(*places: int, gpus: int = 8) -> Figures:
    """ECC as NVML answers of these GPUs that they do not support it, and others that they do."""

    def of_each(value: Any) -> list[Any]:
        return [None if n in places else value for n in range(gpus)]

    states = {"ecc_enabled": True, "ecc_change_pending": False, "ecc_differs_from_default": False}
    modes = {name: of_each(value) for name, value in states.items()}
    return {"ecc_mode": modes, **corrected(*of_each(0))}


@pytest.mark.parametrize(
    ("figures", "silent", "counts"),
    [
        (no_ecc(3), ["gpu3"], "7 of 8"),
        (no_ecc(1, gpus=2), ["gpu1"], "1 of 2"),
        (no_ecc(2, 5), ["gpu2", "gpu5"], "6 of 8"),
        ({"mig": dict.fromkeys(mig(True)["mig"], one_of(8, False, None))}, ["gpu3"], "7 of 8"),
    ],
    ids=["one of eight", "one of two", "two of eight", "MIG"],
)
def test_a_gpu_without_what_others_of_its_model_have(
    figures: Figures, silent: list[str], counts: str
) -> None:
    one = host(figures)
    names = {answer.check for answer in one.report.results} if one.report else set()
    judgement = judge(factories.run(one, checks=sorted(names)), shipped())
    missed = [finding for finding in judgement.findings if finding.outcome != "pass"]
    assert [(f.outcome, f.metric, f.subject) for f in missed] == [
        ("warn", "absent", gpu) for gpu in silent
    ]
    assert all(f"{counts} GPUs of this model in the node do" in f.reason.text for f in missed)
    assert judgement.outcome == "warn"


@pytest.mark.parametrize(
    "one",
    [
        host(no_ecc()),
        host(no_ecc(3), models=[*[H100] * 3, "NVIDIA GeForce RTX 3090", *[H100] * 4]),
        host(no_ecc(0, 1), models=[*["NVIDIA GeForce RTX 3090"] * 2, *[H100] * 6]),
    ],
    ids=["all have it", "another model", "two of another model"],
)
def test_models_without_ecc_beside_one_that_has_it(one: HostRecord) -> None:
    assert [f for f in odd(one) if f.metric == "absent"] == []


def test_most_of_a_model_without_it_is_an_omission() -> None:
    one = host(no_ecc(*range(7)))
    outcomes = {
        f.outcome for f in judge(factories.run(one, checks=["ecc_mode"]), shipped()).findings
    }
    assert "inconclusive" in outcomes


def test_what_every_board_answers_is_no_matter_of_having_it() -> None:
    temperatures = {"temperature_c": 40, "temperature_slowdown_c": 89}
    of_each = {name: one_of(8, value, None) for name, value in temperatures.items()}
    silent = {"temperature_idle": of_each}
    judgement = judge(factories.run(host(silent), checks=["temperature_idle"]), shipped())
    assert judgement.outcome == "inconclusive"


def loaded(*of_memory: float | None, tflops: Sequence[float | None] = ()) -> Figures:
    gpus = len(of_memory)
    return {
        "temperature_under_load": {
            "temperature_c": [60] * gpus,
            "temperature_slowdown_c": [89] * gpus,
            "slowdown_margin_c": [29] * gpus,
            "memory_temperature_c": of_memory,
        },
        "sustained_tflops": {"tflops": [600] * gpus, "bf16_tflops": tflops or [600] * gpus},
    }


def test_a_gpu_that_is_silent_in_a_load() -> None:
    assert named(host(loaded(*[70] * 8))) == []
    (finding,) = odd(host(loaded(*one_of(8, 70, None))))
    assert (finding.check, finding.subject) == ("temperature_under_load", "gpu3")
    capped = loaded(*[70] * 8, tflops=one_of(8, 600, None))
    assert named(host(capped)) == [], "a lowered power limit is not compared with the model"
