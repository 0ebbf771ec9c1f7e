"""Hosts of a run against each other, number by number."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.judge.judge import judge
from hwcheck.judge.peers import middle_of
from hwcheck.judge.records import Finding
from hwcheck.judge.units import LEAST_HOSTS, UNITS, Tolerance
from hwcheck.results.run_folder import HostRecord
from tests import factories
from tests.factories import gloo_legs, gpu_facts, gpu_host, leg, record, reduce_result

H200 = "NVIDIA H200"
FLEETS = 1000


def copied(host: str, *gbps: float, model: str = H200) -> HostRecord:
    """A host whose GPUs copy this fast from the device."""
    samples = tuple(
        Sample(metric, value, unit, f"gpu{index}")
        for index, figure in enumerate(gbps)
        for metric, value, unit in (
            ("from_device_gbps", figure, "GB/s"),
            ("pcie_gbps", 63.0, "GB/s"),
            ("percent_of_peers", 100.0, "%"),
        )
    )
    answer = CheckResult("device_to_host", "done", samples=samples)
    return record(host, [answer], gpus=gpu_facts(len(gbps), model))


def warned(*hosts: HostRecord, check: str = "device_to_host") -> list[Finding]:
    findings = judge(factories.run(*hosts, checks=[check]), shipped()).findings
    return [f for f in findings if f.outcome != "pass" and "like hosts" in f.reason.text]


def fleet(*figures: float) -> list[HostRecord]:
    return [copied(f"n{place}", figure) for place, figure in enumerate(figures)]


def test_one_that_is_slower_than_its_peers_is_warned_of_and_never_fails() -> None:
    (finding,) = warned(*fleet(55.0, 55.4, 54.8, 47.0))
    assert (finding.host, finding.subject, finding.outcome) == ("n3", "gpu0", "warn")
    assert finding.reason.text == "far below the 54.9 GB/s that like hosts have in the same slot"
    assert "54.9 GB/s in the middle of 4, 5.49 GB/s either way" in finding.limit


def test_a_faster_one_and_healthy_scatter_are_no_outliers() -> None:
    assert warned(*fleet(55.0, 55.4, 54.8, 62.0)) == []
    assert warned(*fleet(55.0, 53.0, 57.0, 51.0)) == []


def test_a_fleet_that_scatters_has_no_outlier() -> None:
    assert warned(*fleet(55.0, 44.0, 50.0, 41.5, 48.0)) == []


def test_too_few_hosts_and_other_models_are_no_measure() -> None:
    few = fleet(*[55.0] * (LEAST_HOSTS - 2))
    assert warned(*few, copied("slow", 43.0)) == []
    assert warned(*few, *(copied(f"m{n}", 55.0, model="NVIDIA A40") for n in range(4))) == []
    assert warned(*few, copied("n9", 55.0), copied("slow", 43.0)) != []


def test_what_differs_from_a_golden_host_is_warned_of_whatever_most_have() -> None:
    run = factories.run(*fleet(55.0, 47.0, 47.2), checks=["device_to_host"])
    hosts = tuple(replace(plan, expect={"golden": plan.name == "n0"}) for plan in run.meta.hosts)
    findings = judge(replace(run, meta=replace(run.meta, hosts=hosts)), shipped()).findings
    bad = [finding for finding in findings if "golden" in finding.reason.text]
    assert [(finding.host, finding.outcome) for finding in bad] == [("n1", "warn"), ("n2", "warn")]
    assert bad[0].reason.text == "far below the 55 GB/s that golden n0 has in the same slot"
    assert bad[0].limit == "warn unless like golden n0: 55 GB/s, 5.5 GB/s either way"


def test_a_golden_host_that_is_complained_of_is_no_measure() -> None:
    run = factories.run(*fleet(20.0, 55.0, 55.2), checks=["device_to_host"])
    hosts = tuple(replace(plan, expect={"golden": plan.name == "n0"}) for plan in run.meta.hosts)
    findings = judge(replace(run, meta=replace(run.meta, hosts=hosts)), shipped()).findings
    assert any(finding.host == "n0" and finding.outcome == "fail" for finding in findings)
    assert not any("golden" in finding.reason.text for finding in findings)


def test_hosts_with_other_numbers_of_gpus_or_another_nccl_are_not_alike() -> None:
    def fast(host: str, gbps: float, gpus: int = 8, **changes: Any) -> HostRecord:
        return gpu_host(host, [leg(peak_gbps=gbps, ranks=gpus, **changes)], nvml_gpus=gpus)

    eight = [fast(f"n{index}", 473.0) for index in range(6)]
    for other in (fast("four", 363.0, 4), fast("old", 363.0, library="NCCL 2.16.5")):
        assert warned(*eight, other, check="all_reduce") == []
    (found, *_) = warned(*eight, fast("slow", 363.0), check="all_reduce")
    assert found.host == "slow"


def test_slots_are_compared_with_themselves() -> None:
    hosts = [copied(f"n{place}", 55.0, 44.0) for place in range(5)]
    assert warned(*hosts) == []
    (finding,) = warned(*hosts, copied("swapped", 44.0, 55.0))
    assert (finding.host, finding.subject) == ("swapped", "gpu0")


def test_what_its_limit_complains_of_is_not_said_twice() -> None:
    assert warned(*fleet(55.0, 55.0, 55.0, 20.0)) == []


def card(host: str, lanes: int, lanes_max: int) -> HostRecord:
    values = {"card_link_width": lanes, "card_link_width_max": lanes_max}
    samples = [Sample(metric, value, "lanes", "mlx5_0") for metric, value in values.items()]
    generations = ("card_link_generation", "card_link_generation_max")
    samples += [Sample(metric, 5, "", "mlx5_0") for metric in generations]
    answer = CheckResult("card_links", "done", samples=tuple(samples))
    return record(host, [answer], gpus=gpu_facts(1, H200))


def test_a_card_in_another_slot_is_one_warning() -> None:
    hosts = [card(f"n{place}", 16, 16) for place in range(4)]
    (finding,) = warned(*hosts, card("other", 8, 8), check="card_links")
    assert (finding.host, finding.metric) == ("other", "card_link_width_max")
    assert warned(*hosts, card("lost", 8, 16), check="card_links") == [], "its limit says it"


def outage(host: str, seconds: float) -> HostRecord:
    samples = (
        Sample("link_downs", int(seconds > 0), "events", "port mlx5_0/1"),
        Sample("longest_outage_s", seconds, "s", "port mlx5_0/1"),
    )
    answer = CheckResult("port_flaps", "done", samples=samples)
    return record(host, [answer], gpus=gpu_facts(1, H200))


def test_a_short_outage_is_held_against_its_limit_and_no_peer() -> None:
    hosts = [outage(f"n{place}", 20.0 * (not place)) for place in range(5)]
    assert warned(*hosts, check="port_flaps") == []


def drives(host: str, count: int) -> HostRecord:
    answer = CheckResult("nvme_drives", "done", samples=(Sample("nvme_drives", count, "drives"),))
    return record(host, [answer], gpus=gpu_facts(1, H200))


def test_what_is_declared_of_a_host_is_held_against_that_alone() -> None:
    run = factories.run(
        *(drives(f"n{place}", 8 if place else 4) for place in range(5)), checks=["nvme_drives"]
    )
    declared = tuple(
        replace(plan, expect={"nvme": 8 if place else 4})
        for place, plan in enumerate(run.meta.hosts)
    )
    findings = judge(replace(run, meta=replace(run.meta, hosts=declared)), shipped()).findings
    assert {finding.outcome for finding in findings} == {"pass"}


def idle(host: str, replays: int) -> HostRecord:
    samples = (
        Sample("pcie_replays", replays, "packets", "gpu0"),
        Sample("pcie_replays_over_peers", 1.0, "x", "gpu0"),
    )
    answer = CheckResult("pcie_errors", "done", samples=samples)
    return record(host, [answer], gpus=gpu_facts(1, H200))


def test_counters_are_compared_by_decades() -> None:
    usual = [idle(f"n{place}", replays) for place, replays in enumerate((3, 40, 5, 12, 20))]
    assert warned(*usual, check="pcie_errors") == []
    found = warned(*usual, idle("noisy", 2_000_000), check="pcie_errors")
    assert [finding.host for finding in found] == ["noisy"]


def test_scatter_does_not_swallow_half_a_million() -> None:
    usual = [idle(f"n{place}", replays) for place, replays in enumerate((0, 97, 3, 0, 41, 12, 80))]
    assert warned(*usual, check="pcie_errors") == []
    (found,) = warned(*usual, idle("noisy", 500_000), check="pcie_errors")
    assert (found.host, found.subject) == ("noisy", "gpu0")
    assert found.limit.endswith("in the middle of 8, 1000 times that")
    assert warned(*usual, idle("old", 900), check="pcie_errors") == []


def replayed(host: str, *replays: int) -> HostRecord:
    samples = [Sample("pcie_replays", n, "packets", f"gpu{gpu}") for gpu, n in enumerate(replays)]
    samples += [
        Sample("pcie_replays_over_peers", 1.0, "x", f"gpu{gpu}") for gpu in range(len(replays))
    ]
    answer = CheckResult("pcie_errors", "done", samples=tuple(samples))
    return record(host, [answer], gpus=gpu_facts(len(replays), H200))


def test_a_host_on_which_all_gpus_rose_together() -> None:
    """In no slot is it far enough off, as hosts scatter there; their medians do not."""
    usual = [
        replayed(f"n{n}", *((0, 30, 900)[(gpu + n) % 3] for gpu in range(8))) for n in range(6)
    ]
    assert warned(*usual, check="pcie_errors") == []
    (found,) = warned(*usual, replayed("rose", *[20_000] * 8), check="pcie_errors")
    assert (found.host, found.subject, found.value) == ("rose", "node", 20_000)
    assert "that like hosts have in the median" in found.reason.text


def test_hosts_that_count_alike_show_one_that_counts_ten_times_as_much() -> None:
    usual = [replayed(f"n{n}", *range(40 + 5 * n, 120 + 5 * n, 10)) for n in range(5)]
    (found,) = warned(*usual, replayed("rose", *[1000] * 8), check="pcie_errors")
    assert (found.host, found.subject, found.value) == ("rose", "node", 1000)
    assert found.limit.endswith("in the middle of 6, 10 times that")
    assert warned(*usual, replayed("old", *[900] * 8), check="pcie_errors") == []
    ages = [replayed(f"n{n}", *[count] * 8) for n, count in enumerate((5, 20, 90, 400, 1700))]
    assert warned(*ages, replayed("older", *[7000] * 8), check="pcie_errors") == []


def test_what_a_whole_life_counted_is_not_compared() -> None:
    def corrected(host: str, errors: int) -> HostRecord:
        sample = Sample("ecc_corrected_aggregate", errors, "errors", "gpu0")
        return record(host, [CheckResult("ecc_errors", "done", samples=(sample,))])

    hosts = [corrected(f"n{n}", n) for n in range(5)]
    assert warned(*hosts, corrected("old", 1500), check="ecc_errors") == []


def legs(host: str, gbps: float, largest: int = 1 << 30) -> HostRecord:
    return gpu_host(host, [leg(peak_gbps=gbps, largest=largest)])


def test_legs_are_compared_at_one_size_and_exercises_never() -> None:
    hosts = [legs(f"n{place}", 450.0) for place in range(4)]
    short = [legs("short", 300.0, 1 << 26)]
    assert warned(*hosts, *short, check="all_reduce") == []
    found = warned(*hosts, legs("slow", 300.0), check="all_reduce")
    assert {(finding.host, finding.metric) for finding in found} == {
        ("slow", "busbw_gbps"),
        ("slow", "algbw_gbps"),
    }
    cpus = [record(f"c{n}", [reduce_result(gloo_legs())]) for n in range(4)]
    alike = {"ranks": 4, "backend": "gloo", "exercise": True, "library": "gloo"}
    slow = [leg(one.leg, 0.2, largest=64 << 20, **alike) for one in gloo_legs()]
    assert warned(*cpus, record("c9", [reduce_result(slow)]), check="all_reduce") == []


def test_every_unit_is_compared_or_it_is_said_why_not() -> None:
    for unit in UNITS.values():
        assert isinstance(unit.peers, Tolerance) or len(unit.peers.split()) > 2, unit.name


def tolerance_of(unit: str) -> Tolerance:
    tolerance = UNITS[unit].peers
    assert isinstance(tolerance, Tolerance)
    return tolerance


def gaussian(middle: float, share: float) -> Callable[[random.Random, int], float]:
    return lambda dice, slot: dice.gauss(middle * (1 + 0.01 * (slot - 4)), middle * share)


HEALTHY: dict[str, tuple[str, Callable[[random.Random, int], float]]] = {
    "busbw": ("GB/s", gaussian(470, 0.015)),
    "copies to the device": ("GB/s", gaussian(55, 0.02)),
    "memory": ("GB/s", gaussian(4200, 0.008)),
    "matmul": ("TFLOP/s", gaussian(780, 0.02)),
    "clock": ("MHz", gaussian(1755, 0.015)),
    "power": ("W", gaussian(690, 0.03)),
    "temperature": ("C", lambda dice, slot: dice.gauss(60 + 2 * slot, 3)),
    "fans": ("%", lambda dice, slot: dice.gauss(45, 5)),
    "counter": ("packets", lambda dice, slot: round(dice.lognormvariate(4, 1))),
    "links": ("links", lambda dice, slot: 18),
}
"""Figures of one GPU in a slot over healthy hosts: unit and how they scatter."""


def outliers(tolerance: Tolerance, values: list[float]) -> int:
    middle = middle_of(values, tolerance)
    assert middle is not None
    return sum(
        middle.beyond(value, tolerance, low=tolerance.low, high=tolerance.high) for value in values
    )


def test_healthy_fleets_raise_next_to_no_warning() -> None:
    dice = random.Random(20260131)
    alarmed = 0
    for _ in range(FLEETS):
        hosts = dice.randint(LEAST_HOSTS, 24)
        alarmed += any(
            outliers(tolerance_of(unit), [draw(dice, slot) for _ in range(hosts)])
            for unit, draw in HEALTHY.values()
            for slot in range(8)
        )
    assert alarmed < FLEETS // 100


@pytest.mark.parametrize(
    ("name", "factor"), [("busbw", 0.8), ("matmul", 0.8), ("memory", 0.85), ("temperature", 1.6)]
)
def test_a_sick_host_in_such_a_fleet_is_found(name: str, factor: float) -> None:
    dice = random.Random(7)
    unit, draw = HEALTHY[name]
    found = 0
    for _ in range(100):
        values = [draw(dice, 3) for _ in range(16)]
        found += outliers(tolerance_of(unit), [*values, factor * draw(dice, 3)])
    assert found >= 95


def test_healthy_hosts_pass_as_a_whole() -> None:
    dice = random.Random(3)
    hosts = [gpu_host(f"n{n}", [leg(peak_gbps=dice.gauss(450, 7))]) for n in range(30)]
    outcomes = {finding.outcome for finding in judge(factories.run(*hosts), shipped()).findings}
    assert outcomes <= {"pass", "inconclusive"}
    assert not any(
        "like hosts" in f.reason.text for f in judge(factories.run(*hosts), shipped()).findings
    )


def holds(host: str, percent: float, reason: str = "") -> HostRecord:
    """A host with so much memory held; with a reason, something else could not be measured."""
    samples = (
        Sample("memory_total_gib", 2048.0, "GiB"),
        Sample("memory_held_percent", percent, "%"),
        Sample("swap_used_gib", 0.0, "GiB"),
        Sample("swap_used_percent", 0.0, "%"),
    )
    state = "could_not_measure" if reason else "done"
    answer = CheckResult("host_memory", state, Reason("not_measured", reason), samples=samples)
    return record(host, [answer], gpus=gpu_facts(1))


OTHERS = [holds(f"n{n}", 2.0 + n) for n in range(5)]


@pytest.mark.parametrize(("percent", "hosts"), [(60.0, ["full"]), (45.0, [])])
def test_a_host_whose_memory_is_held_unlike_others_warns(percent: float, hosts: list[str]) -> None:
    """Below the limit that the check has for one host."""
    found = warned(*OTHERS, holds("full", percent), check="host_memory")
    assert [finding.host for finding in found] == hosts


def test_a_check_that_broke_off_is_compared_as_far_as_it_came() -> None:
    (finding,) = warned(*OTHERS, holds("full", 60.0, "no answer"), check="host_memory")
    assert (finding.host, finding.metric) == ("full", "memory_held_percent")


THROTTLED = ("hw_thermal_slowdown", "hw_power_brake", "hw_slowdown", "sw_thermal_slowdown")


def answered(host: str, check: str, metric: str, value: float, unit: str) -> HostRecord:
    """A host with one figure: of its first fan, of its GPU, or of the node."""
    subject = {"fan_speed_percent": "gpu0 fan0", "swap_used_gib": "node"}.get(metric, "gpu0")
    samples = [Sample(metric, value, unit, subject)]
    if check == "throttle_under_load":
        samples += [Sample(f"{name}_percent", 0.0, "%", subject) for name in THROTTLED]
    answer = CheckResult(check, "done", samples=tuple(samples))
    return record(host, [answer], gpus=gpu_facts(1, H200))


@pytest.mark.parametrize(
    ("check", "metric", "unit", "usual", "unlike"),
    [
        ("host_memory", "swap_used_gib", "GiB", 0.0, 1.5),
        ("host_memory", "swap_used_gib", "GiB", 1.0, 0.0),
        ("throttle_under_load", "sw_power_cap_percent", "%", 97.0, 30.0),
        ("thermal_margin", "fan_speed_percent", "%", 0.0, 41.0),
        ("thermal_margin", "fan_speed_percent", "%", 35.0, 0.0),
    ],
)
def test_what_differs_between_healthy_hosts_raises_nothing(
    check: str, metric: str, unit: str, usual: float, unlike: float
) -> None:
    """Pages of idle daemons, a chip that needs less power than others, fans that stand at idle."""
    hosts = [answered(f"n{n}", check, metric, usual, unit) for n in range(7)]
    other = answered("other", check, metric, unlike, unit)
    assert [f for f in warned(*hosts, other, check=check) if f.metric == metric] == []


def test_a_fan_at_full_speed_beside_hosts_whose_fans_hardly_turn_warns() -> None:
    of_fan = ("thermal_margin", "fan_speed_percent")
    hosts = [answered(f"n{n}", *of_fan, 30.0, "%") for n in range(5)]
    found = warned(*hosts, answered("loud", *of_fan, 100.0, "%"), check="thermal_margin")
    assert [(f.host, f.metric) for f in found] == [("loud", "fan_speed_percent")]
