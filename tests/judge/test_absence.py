"""What most like hosts have and a host lacks."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from hwcheck import checks
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import NOT_APPLICABLE, Reason
from hwcheck.contract.wire import CheckResult
from hwcheck.judge.judge import judge
from hwcheck.judge.records import Finding
from hwcheck.results.run_folder import HostRecord
from hwcheck.results.site_limits import ABSENT, problem
from hwcheck.testing.cases import answer_of
from tests import factories
from tests.factories import gpu_facts, record

H100, A40 = "NVIDIA H100 80GB HBM3", "NVIDIA A40"
REGISTRY = checks.load()

Answers = Mapping[str, Any]
"""By check the values by metric, or the reason why it does not apply."""


def host(name: str, answers: Answers, model: str = H100) -> HostRecord:
    results = [
        CheckResult(check, "not_applicable", Reason(NOT_APPLICABLE, says))
        if isinstance(says, str)
        else answer_of(check, says, shipped().checks)
        for check, says in {"kernel": {"kernel_release": "6.8"}, **answers}.items()
    ]
    gpus = [{**gpu, "uuid": f"GPU-{name}-{gpu['index']}"} for gpu in gpu_facts(2, model)]
    return record(name, results, gpus=gpus)


def findings(
    *hosts: HostRecord, plans: Mapping[str, Mapping[str, Any]] | None = None
) -> Sequence[Finding]:
    """Return what is no pass; ``plans`` are fields of the plan of a host."""
    names = {answer.check for one in hosts if one.report for answer in one.report.results}
    run = factories.run(*hosts, checks=sorted(names))
    declared = tuple(replace(plan, **(plans or {}).get(plan.name, {})) for plan in run.meta.hosts)
    judged = judge(replace(run, meta=replace(run.meta, hosts=declared)), shipped())
    return [finding for finding in judged.findings if finding.outcome != "pass"]


def lacking(*hosts: HostRecord, **options: Any) -> list[tuple[str, str, str]]:
    """Return host, check and subject of what a host lacks."""
    absent = [f for f in findings(*hosts, **options) if f.metric == ABSENT]
    assert all(finding.outcome == "warn" for finding in absent)
    return [(finding.host, finding.check, finding.subject) for finding in absent]


def ports(*names: str) -> dict[str, Any]:
    each = [f"port {name}/1" for name in names]
    return {
        "active_ports": len(names),
        "link_layer": dict.fromkeys(each, "InfiniBand"),
        "linked_state": dict.fromkeys(each, "ACTIVE"),
        "port_rate_gbps": dict.fromkeys(each, 400.0),
        "firmware": dict.fromkeys(each, "28.39.2048"),
        "firmware_of_most": dict.fromkeys(each, "28.39.2048"),
    }


EIGHT = ports(*(f"mlx5_{number}" for number in range(8)))
LINK = {
    "card_link_width": {"mlx5_0": 16},
    "card_link_width_max": {"mlx5_0": 16},
    "card_link_generation": {"mlx5_0": 5},
    "card_link_generation_max": {"mlx5_0": 5},
}
PORT = "port mlx5_0/1"
KEYS = {
    "pkeys": {PORT: "0xffff"},
    "pkeys_of_most": {PORT: "0xffff"},
    "design": {PORT: "MT_0000000838"},
    "full_member": {PORT: True},
}
SWITCH = "pci 0000:16:00.0"
UPLINK = {
    **{metric: {SWITCH: 16} for metric in ("uplink_width", "uplink_width_max")},
    **{metric: {SWITCH: 5} for metric in ("uplink_generation", "uplink_generation_max")},
}
RDMA = {
    "infiniband_ports": EIGHT,
    "card_links": LINK,
    "partition_keys": KEYS,
    "pcie_uplinks": UPLINK,
    "port_flaps": {"link_downs": {PORT: 0}, "longest_outage_s": {PORT: 0.0}},
    "memlock": {"memlock_unlimited": True},
    "peermem": {"peermem_module": "nvidia_peermem", "driver_is_open": True, "gpudirect_rdma": True},
}
NO_RDMA = {
    "infiniband_ports": "no RDMA device",
    "card_links": "no RDMA card, and no NVMe drive that is declared",
    "partition_keys": "no active InfiniBand port",
    "pcie_uplinks": "no PCIe switch above any GPU or card",
    "port_flaps": "no RDMA device on the bus",
    "memlock": "no RDMA device",
    "peermem": "no NVIDIA RDMA card",
}
GPUS = ("gpu0", "gpu1")
ECC = {
    "ecc_mode": {
        "ecc_enabled": dict.fromkeys(GPUS, True),
        "ecc_differs_from_default": dict.fromkeys(GPUS, False),
        "ecc_change_pending": dict.fromkeys(GPUS, False),
    },
    "ecc_errors": {
        metric: dict.fromkeys(GPUS, 0)
        for metric in (
            *("ecc_uncorrected_volatile", "ecc_corrected_volatile", "ecc_corrected_per_hour"),
            *("ecc_uncorrected_aggregate", "ecc_corrected_aggregate"),
        )
    },
}
NO_ECC = {"ecc_mode": "no GPU of this node has ECC", "ecc_errors": "no GPU has ECC switched on"}
TORCH = {"software_versions": {"torch_version": "2.8.0", "nccl_version": "2.27.5"}}
NO_TORCH = {"software_versions": "neither torch nor NCCL is installed"}


def fleet(have: Answers, lacks: Answers, with_it: int = 4, without: int = 1) -> list[HostRecord]:
    """Return hosts a0, a1 ... that have something, and b0 ... without."""
    return [host(f"a{n}", have) for n in range(with_it)] + [
        host(f"b{n}", lacks) for n in range(without)
    ]


@pytest.mark.parametrize(
    ("have", "lacks", "check", "words"),
    [
        (RDMA, NO_RDMA, "infiniband_ports", "no RDMA device; 4 of 5 like hosts have it (active_"),
        (ECC, NO_ECC, "ecc_mode", "no GPU of this node has ECC; 4 of 5 like hosts have it (ecc_"),
        (TORCH, NO_TORCH, "software_versions", "installed; 4 of 5 like hosts have it"),
        (
            {"numa_balancing": {"numa_balancing": "0", "numa_nodes": 2}},
            {"numa_balancing": "one NUMA node"},
            "numa_balancing",
            "4 of 5 like hosts have it (numa_nodes 2 nodes)",
        ),
    ],
    ids=["HCA driver not loaded", "no ECC", "no torch", "a socket less"],
)
def test_a_check_that_does_not_apply_to_one_of_five(
    have: Answers, lacks: Answers, check: str, words: str
) -> None:
    hosts = fleet(have, lacks)
    assert lacking(*hosts) == [("b0", check, "node")], "what follows from it is not said"
    (finding,) = findings(*hosts)
    assert words in finding.reason.text
    assert lacking(*fleet(have, lacks, 5, 0)) == []
    assert lacking(*fleet(have, lacks, 0, 5)) == []


def test_what_others_have_is_named() -> None:
    (finding,) = findings(*fleet(RDMA, NO_RDMA))
    assert "(active_ports 8 ports)" in finding.reason.text
    assert finding.limit == "warn where like hosts have it: 4 of 5"


def test_one_host_that_has_more_than_the_others_is_no_fault_of_theirs() -> None:
    assert lacking(*fleet(RDMA, NO_RDMA, 1, 4)) == []


def test_of_two_hosts_it_is_not_known_which_is_right() -> None:
    hosts = fleet(RDMA, NO_RDMA, 1, 1)
    assert lacking(*hosts) == [("b0", "infiniband_ports", "node")]
    (finding,) = findings(*hosts)
    assert finding.reason.text.endswith("which of them are right is not known")


@pytest.mark.parametrize(("golden", "lacks"), [("b0", []), ("a0", ["b0", "b1", "b2", "b3"])])
def test_a_golden_host_decides(golden: str, lacks: list[str]) -> None:
    hosts = fleet(RDMA, NO_RDMA, 2, 4)
    plans = {golden: {"expect": {"golden": True}}}
    assert [name for name, *_ in lacking(*hosts, plans=plans)] == lacks


def test_hosts_with_other_gpus_are_not_alike() -> None:
    others = [host(f"b{n}", NO_RDMA, A40) for n in range(2)]
    assert lacking(*fleet(RDMA, NO_RDMA, 4, 0), *others) == []


def test_a_port_that_is_not_there_is_named() -> None:
    seven = {"infiniband_ports": ports(*(f"mlx5_{n}" for n in range(8) if n != 3))}
    hosts = fleet({"infiniband_ports": EIGHT}, seven)
    assert lacking(*hosts) == [("b0", "infiniband_ports", "port mlx5_3/1")]
    absent = next(f for f in findings(*hosts) if f.metric == ABSENT)
    assert absent.reason.text == "no port mlx5_3/1; 4 of 5 like hosts have it"
    down = {"infiniband_ports": {**EIGHT, "active_ports": 7}}
    for metric in ("linked_state", "port_rate_gbps"):
        values = EIGHT[metric].items()
        down["infiniband_ports"][metric] = {p: v for p, v in values if p != "port mlx5_3/1"}
    down["infiniband_ports"]["port_state"] = {"port mlx5_3/1": "DOWN, Polling"}
    hosts = fleet({"infiniband_ports": EIGHT}, down)
    absent = next(f for f in findings(*hosts) if f.metric == ABSENT)
    assert absent.reason.text == "no port_rate_gbps of port mlx5_3/1; 4 of 5 like hosts have it"
    spare = dict(EIGHT, port_state={"port mlx5_99/1": "DOWN, Polling"})
    assert lacking(*fleet({"infiniband_ports": spare}, {"infiniband_ports": EIGHT})) == []
    renamed = {"infiniband_ports": ports(*(f"ibp{n}s0" for n in range(8)))}
    assert lacking(*fleet({"infiniband_ports": EIGHT}, renamed)) == [], "as many are no fewer"


def test_a_version_that_is_not_there() -> None:
    without = {"software_versions": {"torch_version": "2.8.0"}}
    assert lacking(*fleet(TORCH, without)) == [("b0", "software_versions", "node")]


def virtual(hypervisor: str, **more: Any) -> Answers:
    machine = {"hypervisor": hypervisor, "product": "x", "container": False}
    return {"virtualization": machine, **more}


def test_what_a_guest_lacks_follows_from_its_being_one() -> None:
    metrics = ("aer_fatal", "aer_nonfatal", "aer_correctable", "aer_correctable_per_hour")
    errors = {metric: {"pci 0000:00:01.1": 0} for metric in metrics}
    metal = virtual("none", pcie_aer=errors)
    guest = virtual("kvm", pcie_aer="a virtual machine does not see them")
    hosts = fleet(metal, guest)
    assert lacking(*hosts) == []
    assert [f.metric for f in findings(*hosts)] == ["hypervisor"], "which is said instead"
    bare = virtual("none", pcie_aer="the kernel reports none")
    assert lacking(*fleet(metal, bare)) == [("b0", "pcie_aer", "node")]


def temperatures(*of_memory: float | None) -> Answers:
    """Of each GPU the temperature of its memory, None where it does not tell it."""
    told = {f"gpu{n}": degrees for n, degrees in enumerate(of_memory) if degrees is not None}
    return {"thermal_margin": {"thermal_margin_c": dict.fromkeys(GPUS, 50), **({
        "memory_temperature_c": told} if told else {})}}  # fmt: skip


def actions(*wanted: str) -> Answers:
    told = {f"gpu{n}": each for n, each in enumerate(wanted)}
    return {"gpu_lost": {"gpu_answer": dict.fromkeys(GPUS, "ok"), "recovery_action": told}}


def at_work(*temperatures: float) -> Answers:
    """Of each GPU the temperature of its memory in a load."""
    told = {f"gpu{n}": degrees for n, degrees in enumerate(temperatures)}
    margins = {"temperature_c": dict.fromkeys(GPUS, 60), "temperature_slowdown_c": dict.fromkeys(
        GPUS, 89), "slowdown_margin_c": dict.fromkeys(GPUS, 29)}  # fmt: skip
    return {"temperature_under_load": {**margins, "memory_temperature_c": told,
                                       "ended_for_safety": False}}  # fmt: skip


@pytest.mark.parametrize(
    ("have", "lacks", "subject", "reason"),
    [
        (
            temperatures(40, 41),
            temperatures(None, None),
            "node",
            "no memory_temperature_c of gpu[0-1]; GPUs of 4 of 5 like hosts give it",
        ),
        (
            temperatures(40, 41),
            temperatures(None, 41),
            "gpu0",
            "no memory_temperature_c of gpu0; GPUs of 4 of 5 like hosts give it",
        ),
        (
            actions("nothing", "nothing"),
            actions(),
            "node",
            "no recovery_action of gpu[0-1]; GPUs of 4 of 5 like hosts give it",
        ),
        (
            at_work(70, 71),
            at_work(),
            "node",
            "no memory_temperature_c of gpu[0-1]; GPUs of 4 of 5 like hosts give it",
        ),
    ],
    ids=["memory temperature", "one of two", "recovery action", "in a load"],
)
def test_a_quantity_that_the_gpus_of_one_host_do_not_give(
    have: Answers, lacks: Answers, subject: str, reason: str
) -> None:
    hosts = fleet(have, lacks)
    ((name, _, about),) = lacking(*hosts)
    assert (name, about) == ("b0", subject)
    (finding,) = findings(*hosts)
    assert finding.reason.text == reason
    assert findings(*fleet(have, lacks, 5, 0)) == []
    assert findings(*fleet(have, lacks, 0, 5)) == [], "a design without it"
    assert findings(*fleet(have, lacks, 1, 4)) == [], "one host that gives more"


def test_quantities_that_go_with_another_driver_or_with_mig_are_not_missed() -> None:
    def driver(version: str) -> Answers:
        return {"driver": {"driver_version": version, "nvml_driver_version": version}}

    hosts = fleet(
        {**temperatures(40, 41), **driver("570.1")}, {**temperatures(None, None), **driver("535.1")}
    )
    assert lacking(*hosts) == []

    def split(name: str, answers: Answers) -> HostRecord:
        gpus = [
            {**gpu, "uuid": f"{name}-{gpu['index']}", "mig": True} for gpu in gpu_facts(2, H100)
        ]
        return record(
            name,
            [answer_of(check, of, shipped().checks) for check, of in answers.items()],
            gpus=gpus,
        )

    none = split("b0", temperatures(None, None))
    whole = fleet(temperatures(40, 41), {}, 4, 0)
    assert lacking(*whole, none) == []
    like_it = [split(f"c{n}", temperatures(40, 41)) for n in range(4)]
    assert lacking(*whole, *like_it, none) == [("b0", "thermal_margin", "node")]


def test_a_check_of_a_load_that_does_not_apply_to_one_of_five() -> None:
    metrics = {m.name: dict.fromkeys(GPUS, 0.0) for m in REGISTRY["throttle_under_load"].metrics}
    hosts = fleet(
        {"throttle_under_load": metrics},
        {"throttle_under_load": "no GPU of this node says what holds its clocks down"},
    )
    assert lacking(*hosts) == [("b0", "throttle_under_load", "node")]
    other = {"all_reduce": "one GPU"}
    assert lacking(*fleet({"all_reduce": "one GPU"}, other)) == []


@pytest.mark.parametrize("check", sorted(check.id for check in REGISTRY.values() if check.varies))
def test_what_goes_by_use_is_not_compared(check: str) -> None:
    states = {"performance_state": {"gpu0": 0}, "performance_state_at_work": {"gpu0": 0}}
    limits = {"power_limit_w": dict.fromkeys(GPUS, 700.0)}
    have = {
        "power_state": states,
        "power_budget": limits,
        "nvme_drives": {"nvme_drives": 4},
        "container_files": {"container_runtime": "docker"},
    }[check]
    assert lacking(*fleet({check: have}, {check: "not here"})) == []


def test_what_is_declared_and_not_there_fails_and_is_said_once() -> None:
    plans = {"b0": {"expect": {"rdma_ports": 8}}}
    for hosts in (fleet(RDMA, NO_RDMA), [host("b0", NO_RDMA)]):
        found = findings(*hosts, plans=plans)
        assert {(f.metric, f.value, f.outcome == "inconclusive") for f in found} == {
            ("active_ports", 0, False)
        }
        (failed,) = [finding for finding in found if finding.outcome == "fail"]
        assert failed.limit == "= hwcheck_rdma_ports (8)"
    none = {"b0": {"expect": {"rdma_ports": 0}}}
    assert findings(host("b0", NO_RDMA), plans=none) == [], "none declared, none there"


@pytest.mark.parametrize("count", [0, 4])
def test_as_many_ports_as_are_declared_are_no_fewer(count: int) -> None:
    some = {**RDMA, "infiniband_ports": ports(*(f"mlx5_{n}" for n in range(count)))}
    hosts = fleet(RDMA, some if count else NO_RDMA)
    plans = {"b0": {"expect": {"rdma_ports": count}}}
    assert lacking(*hosts, plans=plans) == []
    assert lacking(*hosts) != []
    plans = {"b0": {"expect": {"rdma_ports": 8}}}
    missed = [subject for _, _, subject in lacking(*hosts, plans=plans)]
    assert missed == [f"port mlx5_{n}/1" for n in range(4, 8) if count], "which ones is said"


def test_a_site_may_ignore_it() -> None:
    key = f"infiniband_ports.{ABSENT}"
    plans = {"b0": {"limits": {key: {"ignore": True, "source": "no fabric in rack 3"}}}}
    assert lacking(*fleet(RDMA, NO_RDMA), plans=plans) == []
    assert problem(key, {"ignore": True, "source": "x"}, REGISTRY) == ""
    assert "only ignore" in problem(key, {"warn": 1, "source": "x"}, REGISTRY)
    assert "no such metric" in problem(f"infiniband.{ABSENT}", {"ignore": True}, REGISTRY)


def test_what_is_followed_is_a_check() -> None:
    for check in REGISTRY.values():
        assert {*check.follows, *(name for m in check.metrics for name in m.follows)} <= {*REGISTRY}
    assert all(metric.name != ABSENT for check in REGISTRY.values() for metric in check.metrics)


def test_ports_of_one_host_that_give_no_rate() -> None:
    told = {**EIGHT, "rate_told": dict.fromkeys(EIGHT["linked_state"], True)}
    silent = {metric: values for metric, values in told.items() if metric != "port_rate_gbps"}
    silent["rate_told"] = dict.fromkeys(EIGHT["linked_state"], False)
    hosts = fleet({"infiniband_ports": told}, {"infiniband_ports": silent})
    for plans in ({}, {"b0": {"expect": {"rdma_ports": 8}}}):
        found = findings(*hosts, plans=plans)
        assert {(f.host, f.metric, f.outcome) for f in found} == {("b0", "rate_told", "warn")}
        assert len(found) == 8
    assert findings(*fleet({"infiniband_ports": told}, {}, 5, 0)) == []
    assert findings(*fleet({}, {"infiniband_ports": silent}, 0, 5)) == [], "a driver without rates"


def test_the_work_grows_with_the_hosts_and_not_with_their_square() -> None:
    assert _calls(80) < 5 * _calls(20)


def _calls(hosts: int) -> int:
    """Return how many calls judging so many hosts takes, on which GPUs do not say much."""
    run = factories.hosts(hosts)
    judge(run, shipped())  # what is remembered is remembered
    counted = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal counted
        counted += event == "call"

    sys.setprofile(count)
    try:
        judge(run, shipped())
    finally:
        sys.setprofile(None)
    return counted
