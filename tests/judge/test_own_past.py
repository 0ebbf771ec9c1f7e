"""A figure against the same subject's former runs: what is named, when, and in which words."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from hwcheck import checks
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.limits import Growth
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.judge.judge import judge
from hwcheck.judge.past import Past, figures, joined
from hwcheck.judge.records import OWN_PAST, Finding
from hwcheck.results.run_folder import HostRecord, Run
from hwcheck.results.site_limits import SiteLimits
from tests.factories import gpu_facts, leg, record, reduce_result, run

FIRST = datetime(2026, 1, 1, 2, tzinfo=timezone.utc)
H200 = "NVIDIA H200"
GPUS = 2

Night = Callable[[int], HostRecord]
"""A host on a night, counted from 0."""


def started(night: float) -> str:
    return f"{FIRST + timedelta(days=night):%Y-%m-%dT%H:%M:%SZ}"


def answer(check: str, **metrics: Any) -> CheckResult:
    """An answer; a metric's value is that of gpu0, or values by subject."""
    units = {metric.name: metric.unit for metric in checks.load()[check].metrics}
    samples = [
        Sample(name, value, units[name], subject)
        for name, values in metrics.items()
        for subject, value in (values if isinstance(values, dict) else {"gpu0": values}).items()
    ]
    return CheckResult(check, "done", samples=tuple(samples))


def node(
    *answers: CheckResult, host: str = "n1", board: str = "", driver: str = "570.86.15"
) -> HostRecord:
    """A host with two GPUs; ``board`` is the serial of its first."""
    gpus = [{**gpu, "serial": f"{host}-{gpu['index']}"} for gpu in gpu_facts(GPUS, H200)]
    gpus[0]["serial"] = board or gpus[0]["serial"]
    software = answer("driver", driver_version={"node": driver})
    serials = answer("serials", board_serial={f"gpu{g['index']}": g["serial"] for g in gpus})
    return record(host, [software, serials, *answers], gpus=gpus)


def tflops(value: float, **changes: Any) -> HostRecord:
    return node(answer("sustained_tflops", tflops=value), **changes)


def run_of_night(night: float, hosts: Iterable[HostRecord]) -> Run:
    records = list(hosts)
    names = dict.fromkeys(r.check for each in records if each.report for r in each.report.results)
    return run(*records, checks=list(names), started=started(night), id=f"night{night}")


def told(nights: int, *hosts: Night) -> list[Finding]:
    """Judge the last of so many nights by those before; return what own past says."""
    runs = [run_of_night(night, (host(night) for host in hosts)) for night in range(nights)]
    past = joined(figures(each, shipped().checks) for each in runs[:-1])
    return [f for f in judge(runs[-1], shipped(), past=past).findings if f.basis == OWN_PAST]


def warned(nights: int, *hosts: Night) -> list[Finding]:
    return [finding for finding in told(nights, *hosts) if finding.outcome != "pass"]


def healthy(seed: int, middle: float = 700.0, share: float = 0.005) -> Sequence[float]:
    draw = random.Random(seed)
    return [middle * draw.gauss(1, share) for _ in range(120)]


def test_a_step_is_named_in_its_third_run_with_the_nights_the_former_value_and_the_loss() -> None:
    values = healthy(1)

    def host(night: int) -> HostRecord:
        return tflops(values[night] * (0.95 if night >= 20 else 1))

    assert warned(20, host) == warned(21, host) == warned(22, host) == []
    (finding,) = warned(23, host)
    assert (finding.outcome, finding.check, finding.metric) == (
        "warn",
        "sustained_tflops",
        "tflops",
    )
    assert finding.subject == "gpu0"
    assert finding.limit.startswith("warn unless like its own past: 70")
    assert "from 2026-01-01 to 2026-01-14" in finding.limit
    assert "% below its own 70" in finding.reason.text
    assert finding.reason.text.endswith("since the run of 2026-01-21 (3 runs)")
    assert 0.045 < float(finding.reason.text.split("%")[0]) / 100 < 0.06


@pytest.mark.parametrize("nights", [27, 60, 85])
def test_a_loss_that_nobody_mends_goes_on_being_named(nights: int) -> None:
    values = healthy(2)

    def host(night: int) -> HostRecord:
        odd = 0.7 if night in (12, 24) else 1
        return tflops(values[night] * odd * (0.95 if night >= 22 else 1))

    (finding,) = warned(nights, host)
    assert f"since the run of 2026-01-23 ({nights - 22} runs)" in finding.reason.text


def test_a_slow_drift_is_named_before_it_has_cost_six_percent() -> None:
    values = healthy(3)

    def host(night: int) -> HostRecord:
        return tflops(values[night] * (1 - 0.003 * max(0, night - 29)))

    named = [night for night in range(31, 50) if warned(night + 1, host)]
    assert named
    assert 0.003 * (named[0] - 29) < 0.06
    (finding,) = warned(50, host)
    assert "% a night since about 2026-0" in finding.reason.text
    slope = float(finding.reason.text.split("), ")[1].split("%")[0])
    assert 0.2 < slope < 0.4


def test_what_comes_and_goes_is_named_as_such_on_its_good_nights_too() -> None:
    values = healthy(4)
    bad = {22, 25, 26, 30, 33}

    def host(night: int) -> HostRecord:
        return tflops(values[night] * (0.88 if night in bad else 1))

    (finding,) = warned(36, host)
    assert finding.reason.text.startswith("comes and goes: 4 times below its own 7")
    assert finding.reason.text.endswith("last in the run of 2026-02-03")


@pytest.mark.parametrize("bad", [{22}, {22, 23}, {10, 22}], ids=str)
def test_one_or_two_bad_nights_are_not_named(bad: set[int]) -> None:
    values = healthy(5)
    for nights in range(20, 30):
        assert not warned(
            nights, lambda night: tflops(values[night] * (0.7 if night in bad else 1))
        )


def test_what_recovered_is_not_named_any_more() -> None:
    values = healthy(6)

    def host(night: int) -> HostRecord:
        return tflops(values[night] * (0.9 if 20 <= night < 30 else 1))

    assert warned(30, host)
    assert not warned(31, host)


def test_better_than_before_is_no_fault() -> None:
    values = healthy(7)
    assert not warned(40, lambda night: tflops(values[night] * (1.1 if night >= 20 else 1)))


@pytest.mark.parametrize(
    ("check", "metric", "usual", "bad"),
    [
        ("hbm_bandwidth", "copy_gbps", 4300.0, 4000.0),
        ("host_to_device", "to_device_gbps", 55.0, 49.0),
        ("device_to_host", "from_device_gbps", 55.0, 49.0),
        ("temperature_under_load", "temperature_c", 65.0, 76.0),
        ("temperature_under_load", "memory_temperature_c", 80.0, 92.0),
        ("power_under_load", "power_w", 690.0, 600.0),
        ("power_idle", "power_idle_w", 75.0, 110.0),
    ],
)
def test_each_figure_is_held_against_its_past(
    check: str, metric: str, usual: float, bad: float
) -> None:
    values = healthy(8, usual, 0.004)

    def host(night: int) -> HostRecord:
        return node(answer(check, **{metric: bad if night >= 20 else values[night]}))

    assert not warned(20, host)
    (finding,) = warned(23, host)
    assert (finding.check, finding.metric) == (check, metric)


def test_every_counter_that_is_held_is_held_by_its_growth() -> None:
    held = [m for check in checks.load().values() for m in check.metrics if m.past]
    assert held
    for metric in held:
        assert isinstance(metric.past, Growth) == (metric.unit in ("errors", "packets")), metric


def legs(gbps: float, **changes: Any) -> HostRecord:
    answered = reduce_result([leg("default", gbps, ranks=GPUS), leg("net", 9.0, ranks=GPUS)])
    return node(answered, **changes)


def test_busbw_is_held_by_leg_and_size_and_told_at_the_largest() -> None:
    values = healthy(9, 450.0)
    (finding,) = warned(23, lambda night: legs(values[night] * (0.95 if night >= 20 else 1)))
    assert (finding.check, finding.metric) == ("all_reduce", "busbw_gbps")
    assert finding.subject == "leg default"
    assert "at 1 GiB" in finding.limit


def test_another_nccl_starts_a_new_reference_and_says_so() -> None:
    values = healthy(10, 450.0)

    def host(night: int) -> HostRecord:
        return legs_by("NCCL 2.28.3" if night >= 20 else "NCCL 2.27.5", night)

    def legs_by(library: str, night: int) -> HostRecord:
        gbps = values[night] * (0.9 if night >= 20 else 1)
        slow = leg("default", gbps, ranks=GPUS, library=library)
        versions = answer("software_versions", nccl_version={"node": library.split()[1]})
        return node(reduce_result([slow]), versions)

    assert not warned(30, host)
    (finding,) = told(22, host)
    assert (finding.outcome, finding.check, finding.metric) == (
        "pass",
        "software_versions",
        "nccl_version",
    )
    assert finding.reason.text == (
        "NCCL 2.27.5 until the run of 2026-01-20: a new reference starts, and figures are held "
        "against it from its run 8 on (this is run 2)"
    )
    assert told(29, host) == []


@pytest.mark.parametrize(
    ("changed", "check"),
    [({"board": "other"}, "serials"), ({"driver": "580.95.05"}, "driver")],
    ids=["board", "driver"],
)
def test_another_board_or_driver_starts_a_new_reference(
    changed: Mapping[str, str], check: str
) -> None:
    values = healthy(11)

    def host(night: int) -> HostRecord:
        return tflops(values[night] * 0.9, **changed) if night >= 20 else tflops(values[night])

    def without(night: int) -> HostRecord:
        return tflops(values[night] * (0.9 if night >= 20 else 1))

    assert [warned(nights, host) for nights in range(20, 40)] == [[]] * 20
    assert warned(23, without)
    assert [(f.check, f.outcome) for f in told(23, host)] == [(check, "pass")]


def test_against_a_new_reference_a_step_is_named_again() -> None:
    values = healthy(12)

    def host(night: int) -> HostRecord:
        return tflops(values[night] * (0.9 if night >= 40 else 1), board="b" if night > 20 else "a")

    (finding,) = warned(43, host)
    assert "from 2026-01-22 to 2026-02-04" in finding.limit


def test_what_a_run_does_not_tell_is_no_other_setup() -> None:
    values = healthy(13)

    def host(night: int) -> HostRecord:
        whole = tflops(values[night] * (0.9 if night >= 20 else 1))
        assert whole.report is not None
        left = tuple(r for r in whole.report.results if r.check != "driver" or night % 3)
        return replace(whole, report=replace(whole.report, results=left))

    (finding,) = warned(23, host)
    assert finding.subject == "gpu0"


def fleet(size: int, effect: Callable[[int, int], float]) -> list[Night]:
    """Hosts whose temperature is off by ``effect`` of a host's number and the night."""

    def of_host(number: int) -> Night:
        values = healthy(100 + number, 65.0, 0.01)

        def on(night: int) -> HostRecord:
            heat = values[night] + effect(number, night)
            return node(answer("temperature_under_load", temperature_c=heat), host=f"n{number:02d}")

        return on

    return [of_host(number) for number in range(size)]


def test_a_hot_week_of_the_fleet_is_no_fault_and_one_hot_host_is() -> None:
    def hot_week(number: int, night: int) -> float:
        return 10.0 if night >= 20 else 0.0

    def hot_host(number: int, night: int) -> float:
        return 10.0 if night >= 20 and number == 3 else 0.0

    assert not warned(25, *fleet(10, hot_week))
    (finding,) = warned(25, *fleet(10, hot_host))
    assert finding.host == "n03"


def test_a_hot_host_in_a_hot_week_is_named_without_what_all_share() -> None:
    def both(number: int, night: int) -> float:
        return (10.0 + 12.0 * (number == 3)) if night >= 20 else 0.0

    (finding,) = warned(25, *fleet(10, both))
    assert finding.host == "n03"
    assert 11 < float(finding.reason.text.split(" C above")[0]) < 13
    assert "C that all like hosts moved by is not part of it" in finding.reason.text


def replays(*counts: int, board: str = "") -> HostRecord:
    by_gpu = {f"gpu{gpu}": count for gpu, count in enumerate(counts)}
    own = answer(
        "pcie_errors",
        pcie_replays=by_gpu,
        pcie_replays_over_peers=dict.fromkeys(by_gpu, 1.0),
    )
    return node(own, board=board)


def test_all_gpus_of_a_host_that_rose_together_are_seen_against_the_last_run() -> None:
    counts = [(90, 60), (500_000, 480_000)]
    findings = warned(2, lambda night: replays(*counts[night]))
    assert [f.subject for f in findings] == ["gpu0", "gpu1"]
    assert findings[0].reason.text.startswith(
        "pcie_replays grew by 499910 since the last run, on 2026-01-01: 20830 packets an hour; "
    )


def test_a_counter_that_began_anew_is_not_taken_for_growth() -> None:
    counts = [40_000, 41_000, 42_000, 900, 1_900]
    for nights in range(2, 6):
        assert not warned(nights, lambda night: replays(counts[night], 0))


def test_what_came_since_a_counter_began_anew_counts() -> None:
    counts = [5, 6, 7, 8, 9, 10, 11, 60_000]
    grown = [*counts[:-1], 100_000, 80_000]
    assert not warned(7, lambda night: replays(grown[night], 0))
    (finding,) = warned(9, lambda night: replays(grown[night], 0))
    assert finding.reason.text.startswith(
        "pcie_replays grew by 80000 since the last run, on 2026-01-08"
    )


def test_growth_as_usual_is_no_finding_however_large() -> None:
    counts = [20_000 * night for night in range(20)]
    assert not warned(20, lambda night: replays(counts[night], 0))


def test_the_rate_is_over_the_time_between_the_runs() -> None:
    """Ten weeks of what is usual is no burst."""
    nightly = [run_of_night(n, [replays(500 * n, 0)]) for n in range(10)]
    late = run_of_night(80, [replays(500 * 80, 0)])
    burst = run_of_night(10, [replays(500 * 80 + 100_000, 0)])
    past = joined(figures(each, shipped().checks) for each in nightly)
    assert not [f for f in judge(late, shipped(), past=past).findings if f.basis == OWN_PAST]
    assert [f for f in judge(burst, shipped(), past=past).findings if f.basis == OWN_PAST]


def every_quarter_hour(check: str, metric: str, subject: str, counts: Sequence[int]) -> list[str]:
    """Return what is said of a counter that is read every 15 minutes."""
    runs = [
        run_of_night(number / 96, [node(answer(check, **{metric: {subject: value}}))])
        for number, value in enumerate(counts)
    ]
    findings = judge(
        runs[-1], shipped(), past=joined(figures(each, shipped().checks) for each in runs[:-1])
    ).findings
    return [f.reason.text for f in findings if f.metric == metric and f.basis == OWN_PAST]


@pytest.mark.parametrize(
    ("check", "metric", "subject", "each", "reason"),
    [
        (
            *("infiniband_ports", "link_downed", "port mlx5_4/1", 1),
            "link_downed grew by 12 within 3 h, since the run of 2026-01-01 ",
        ),
        (
            *("ecc_errors", "ecc_corrected_volatile", "gpu0", 100),
            "ecc_corrected_volatile grew by 2000 within 10 h, since the run of 2026-01-01 ",
        ),
    ],
)
def test_what_comes_little_by_little_is_summed_up_over_a_window(
    check: str, metric: str, subject: str, each: int, reason: str
) -> None:
    quiet = [0] * 20
    (said,) = every_quarter_hour(check, metric, subject, [*quiet, *range(0, 20 * each + 1, each)])
    assert said.startswith(reason), said
    slow = [*quiet, *(number // 16 * each for number in range(48))]  # each four hours
    assert every_quarter_hour(check, metric, subject, slow) == []


def test_link_downs_that_the_kernel_log_has_are_said_once() -> None:
    subject = "port mlx5_4/1"
    log = answer("port_flaps", link_downs={subject: 9}, longest_outage_s={subject: 1.0})
    counts = (answer("infiniband_ports", link_downed={subject: number}) for number in (0, 9))
    runs = [run_of_night(n, [node(counted, log)]) for n, counted in enumerate(counts)]
    findings = judge(runs[1], shipped(), past=figures(runs[0], shipped().checks)).findings
    bad = [(f.check, f.metric) for f in findings if f.subject == subject and f.outcome == "warn"]
    assert ("port_flaps", "link_downs") in bad
    assert ("infiniband_ports", "link_downed") not in bad


@pytest.mark.parametrize(
    ("check", "metric", "subject", "few", "many"),
    [
        ("infiniband_ports", "link_downed", "port mlx5_4/1", 1, 9),
        ("infiniband_ports", "symbol_error", "port mlx5_4/1", 300, 90_000),
        ("ecc_errors", "ecc_corrected_volatile", "gpu0", 300, 90_000),
        ("nvlink_errors", "nvlink_replay_errors", "gpu0", 300, 90_000),
        ("nvlink_errors", "nvlink_recovery_errors", "gpu0", 1, 9),
        ("pcie_aer", "aer_correctable", "pci 0000:18:00.0", 300, 90_000),
    ],
)
def test_each_counter_is_held_against_the_last_run(
    check: str, metric: str, subject: str, few: int, many: int
) -> None:
    def host(last: int) -> Night:
        return lambda night: node(answer(check, **{metric: {subject: last if night else 0}}))

    assert not [f for f in warned(2, host(few)) if f.metric == metric]
    (finding,) = (f for f in warned(2, host(many)) if f.metric == metric)
    assert finding.subject == subject
    assert finding.reason.text.startswith(f"{metric} grew by {many} since the last run")


def test_counters_that_rise_on_all_like_hosts_are_nobodys_fault() -> None:
    def of_host(number: int) -> Night:
        return lambda night: node(
            answer("infiniband_ports", link_downed={"port mlx5_0/1": 12 if night else 0}),
            host=f"n{number:02d}",
        )

    assert len(warned(2, *map(of_host, range(3)))) == 3
    assert not warned(2, *map(of_host, range(10)))


@pytest.mark.parametrize(("gbps", "outcome"), [(4100.0, "warn"), (3000.0, "fail")])
def test_it_fails_only_together_with_a_limit_that_the_figure_fails(
    gbps: float, outcome: str
) -> None:
    values = healthy(17, 4300.0, 0.002)
    runs = [
        run_of_night(
            night,
            [node(answer("hbm_bandwidth", copy_gbps=gbps if night >= 20 else values[night]))],
        )
        for night in range(23)
    ]
    past = joined(figures(each, shipped().checks) for each in runs[:-1])
    findings = judge(runs[-1], shipped(), past=past).findings
    of_metric = [f for f in findings if f.metric == "copy_gbps"]
    assert ("fail" in {f.outcome for f in of_metric if f.basis != OWN_PAST}) == (outcome == "fail")
    assert [f.outcome for f in of_metric if f.basis == OWN_PAST] == [outcome]


def test_a_run_is_not_held_against_itself_nor_against_later_ones() -> None:
    values = healthy(14)
    runs = [
        run_of_night(night, [tflops(values[night] * (0.9 if night >= 20 else 1))])
        for night in range(30)
    ]
    past = joined(figures(each, shipped().checks) for each in runs)
    of_third = [f for f in judge(runs[22], shipped(), past=past).findings if f.basis == OWN_PAST]
    (only_former,) = (
        f
        for f in judge(
            runs[22], shipped(), past=joined(figures(each, shipped().checks) for each in runs[:22])
        ).findings
        if f.basis == OWN_PAST
    )
    assert of_third == [only_former]
    assert not [f for f in judge(runs[21], shipped(), past=past).findings if f.basis == OWN_PAST]


def test_runs_of_another_profile_heat_for_another_time_and_are_left_out() -> None:
    def night(number: int) -> Run:
        deep = number % 3 == 2
        values = answer("temperature_under_load", temperature_c=80.0 if deep else 65.0)
        made = run_of_night(number, [node(values)])
        return replace(made, meta=replace(made.meta, profile="standard" if deep else "quick"))

    past = joined(figures(night(number), shipped().checks) for number in range(40))
    of_profiles = [judge(night(number), shipped(), past=past).findings for number in (38, 39)]
    assert not [f for findings in of_profiles for f in findings if f.basis == OWN_PAST]
    alike = replace(past, runs=tuple(each._replace(profile="") for each in past.runs))
    assert [f for f in judge(night(38), shipped(), past=alike).findings if f.basis == OWN_PAST]


@pytest.mark.parametrize("value", [-300.0, 1e308, True, "hot"], ids=str)
def test_what_is_no_reading_is_no_past(value: Any) -> None:
    past = figures(
        run_of_night(0, [node(answer("temperature_under_load", temperature_c=value))]),
        shipped().checks,
    )
    assert past.series == ()


def test_without_a_past_nothing_is_said() -> None:
    one = run_of_night(0, [tflops(700.0)])
    assert not [f for f in judge(one, shipped()).findings if f.basis == OWN_PAST]


def test_a_host_that_is_new_is_judged_beside_old_ones() -> None:
    values = healthy(15)
    old = [run_of_night(night, [tflops(values[night])]) for night in range(22)]
    now = run_of_night(22, [tflops(600.0), tflops(500.0, host="new")])
    past = joined(figures(each, shipped().checks) for each in old)
    assert not [
        f
        for f in judge(now, shipped(), past=past).findings
        if f.host == "new" and f.basis == OWN_PAST
    ]


def test_a_site_can_have_it_ignored() -> None:
    values = healthy(16)
    terms = {"sustained_tflops.tflops": {"ignore": True, "source": "a node for trials"}}

    def night(number: int, limits: SiteLimits) -> Run:
        made = run_of_night(number, [tflops(values[number] * (0.9 if number >= 20 else 1))])
        (plan,) = made.meta.hosts
        return replace(made, meta=replace(made.meta, hosts=(replace(plan, limits=limits),)))

    past = joined(figures(night(number, {}), shipped().checks) for number in range(22))
    said = [
        [f for f in judge(night(22, limits), shipped(), past=past).findings if f.basis == OWN_PAST]
        for limits in ({}, terms)
    ]
    assert [len(findings) for findings in said] == [1, 0]


def test_figures_of_runs_are_joined_by_when_the_runs_began() -> None:
    parts = [
        figures(run_of_night(night, [tflops(700.0 + night)]), shipped().checks)
        for night in (2, 0, 1)
    ]
    whole: Past = joined([*parts, parts[0]])
    assert [each.id for each in whole.runs] == ["night0", "night1", "night2"]
    (row,) = [n for n, of in enumerate(whole.series) if of.metric == "tflops"]
    assert list(whole.values[row]) == [700.0, 701.0, 702.0]
    assert {whole.setups[code].driver for code in whole.setup_of[row]} == {"570.86.15"}


def test_legs_that_are_no_measurement_are_no_past() -> None:
    hung = leg("default", ranks=GPUS, state="hang", sizes=())
    small = leg("p2p_off", ranks=GPUS, largest=1 << 24)
    gloo = leg("net", 1.8, ranks=GPUS, backend="gloo", exercise=True, library="gloo")
    past = figures(run_of_night(0, [node(reduce_result([hung, small, gloo]))]), shipped().checks)
    assert past.series == ()


USUAL = {"duration_s": 20.0, "load_dtype": "auto", "engine": "torch", "force": False}


@pytest.mark.parametrize(
    ("usual", "tonight", "held"),
    [
        (USUAL, USUAL, True),
        (USUAL, {**USUAL, "force": True}, False),
        (USUAL, {**USUAL, "duration_s": 3600.0}, False),
        (USUAL, {**USUAL, "load_dtype": "fp32"}, False),
        (USUAL, {**USUAL, "engine": "nccl-tests"}, False),
        (USUAL, {**USUAL, "forks": 8}, True),
        ({}, {**USUAL, "force": True}, True),  # former runs do not say how they were asked
    ],
)
def test_a_run_is_held_against_those_that_were_asked_alike(
    usual: dict[str, Any], tonight: dict[str, Any], held: bool
) -> None:
    runs = []
    for night in range(24):
        measured = run_of_night(night, [tflops(600.0 if night < 20 else 500.0)])
        options = usual if night < 20 else tonight
        runs.append(replace(measured, meta=replace(measured.meta, options=options)))
    past = joined(figures(of_night, shipped().checks) for of_night in runs[:-1])
    findings = judge(runs[-1], shipped(), past=past).findings
    assert any(finding.basis == OWN_PAST for finding in findings) is held
