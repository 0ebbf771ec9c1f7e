"""Hosts of a run against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from hwcheck import checks
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.limits import FromFleet
from hwcheck.contract.wire import CheckResult, Report, Sample
from hwcheck.judge.fleet import same_machine
from hwcheck.judge.judge import judge
from hwcheck.results.run_folder import HostRecord, Run
from hwcheck.testing.cases import answer_of
from tests.factories import gpu_facts, record, run

H200 = "NVIDIA H200"


def versioned(host: str, version: str, model: str = H200, uuid: str = "") -> HostRecord:
    """A host whose only finding of interest is its driver; ``uuid`` is its first GPU's."""
    samples = (
        Sample("driver_loaded", True),
        Sample("nvml_status", "ok"),
        Sample("driver_version", version),
        Sample("nvml_driver_version", version),
    )
    first, second = gpu_facts(2, model)
    gpus = [first | {"uuid": uuid or f"{host}-0"}, second]
    return record(host, [CheckResult("driver", "done", samples=samples)], gpus=gpus)


def drifted(
    *hosts: HostRecord, golden: Sequence[str] = (), **expect: Any
) -> dict[str, tuple[str, str]]:
    """Return outcome and limit of the comparison over the fleet, by host."""
    a_run = run(*hosts, checks=["driver"])
    declared = tuple(
        replace(plan, expect={**expect, "golden": plan.name in golden}) for plan in a_run.meta.hosts
    )
    a_run = replace(a_run, meta=replace(a_run.meta, hosts=declared))
    return {
        finding.host: (finding.outcome, finding.limit)
        for finding in judge(a_run, shipped()).findings
        if "of this kind" in finding.limit
    }


def test_one_of_three_that_differs_is_named() -> None:
    found = drifted(versioned("a", "570"), versioned("b", "570"), versioned("c", "575"))
    assert {host: outcome for host, (outcome, _) in found.items()} == {
        "a": "pass",
        "b": "pass",
        "c": "warn",
    }
    assert found["c"][1] == "= most hosts of this kind (570)"


def test_what_was_wanted_is_told_where_most_hosts_agree() -> None:
    of_three = [versioned("a", "570"), versioned("b", "570"), versioned("c", "575")]
    for hosts, wanted in ((of_three, {"570"}), (of_three[1:], set())):
        findings = judge(run(*hosts), shipped()).findings
        held = [f for f in findings if f.metric == "driver_version"]
        assert {f.wanted for f in held if f.is_held_against_one} == wanted
        assert all("wanted" not in f.figures for f in held) or wanted


def test_without_a_majority_all_are_warned() -> None:
    found = drifted(versioned("a", "570"), versioned("b", "575"))
    limit = "= most hosts of this kind (no majority: 570 on 1, 575 on 1)"
    assert found == {"a": ("warn", limit), "b": ("warn", limit)}


def test_a_host_alone_is_compared_with_nobody() -> None:
    assert drifted(versioned("a", "570")) == {}
    unlike = versioned("b", "575", "NVIDIA A40")
    assert drifted(versioned("a", "570"), unlike) == {}


def test_a_golden_host_counts_for_more_than_most_hosts() -> None:
    hosts = [versioned("a", "570"), versioned("b", "575"), versioned("c", "575")]
    found = drifted(*hosts, golden=["a"])
    assert {host: outcome for host, (outcome, _) in found.items()} == {
        "a": "pass",
        "b": "warn",
        "c": "warn",
    }
    assert found["b"][1] == "= the golden host of this kind (570)"


def test_golden_hosts_may_not_differ() -> None:
    hosts = [versioned("a", "570"), versioned("b", "575"), versioned("c", "575")]
    limit = "= the golden host of this kind (no majority: 570 on 1, 575 on 1)"
    assert drifted(*hosts, golden=["a", "b"]) == dict.fromkeys("abc", ("warn", limit))


def test_a_golden_host_says_nothing_of_hosts_with_other_gpus() -> None:
    hosts = [versioned("a", "570", "NVIDIA A40"), versioned("b", "575"), versioned("c", "575")]
    found = drifted(*hosts, golden=["a"])
    assert found["b"] == found["c"] == ("pass", "= most hosts of this kind (575)")


def test_what_the_inventory_declares_comes_first() -> None:
    hosts = (versioned("a", "570"), versioned("b", "575"))
    assert drifted(*hosts, driver_version="575") == {}


def flashed(host: str, vbios: str, board: str, gpus: int = 2) -> HostRecord:
    """A host whose boards of one kind have this VBIOS."""
    samples = tuple(
        Sample(metric, vbios, "", f"gpu{index}")
        for index in range(gpus)
        for metric in ("vbios", "vbios_of_most")
    )
    facts = [{**gpu, "pci_subsystem_id": board} for gpu in gpu_facts(gpus)]
    return record(host, [CheckResult("vbios", "done", samples=samples)], gpus=facts)


def warned(*hosts: HostRecord) -> list[str]:
    """Return a host for each warning."""
    return [
        f.host
        for f in judge(run(*hosts, checks=["vbios"]), shipped()).findings
        if f.outcome == "warn"
    ]


def test_gpus_are_compared_with_their_own_boards() -> None:
    hosts = [flashed("a", "1", "x"), flashed("b", "1", "x"), flashed("c", "2", "x")]
    assert warned(*hosts, flashed("d", "2", "y")) == ["c", "c"]
    assert warned(*hosts, flashed("d", "2", "x")) == ["a", "a", "b", "b", "c", "c", "d", "d"]


def test_one_host_has_one_vote() -> None:
    hosts = [flashed("a", "1", "x", 1), flashed("b", "1", "x", 1), flashed("c", "2", "x", 8)]
    assert warned(*hosts) == ["c"] * 8


@pytest.mark.parametrize(("second", "alike"), [("GPU-1", True), ("GPU-2", False)])
def test_one_machine_under_two_names(second: str, alike: bool) -> None:
    first, other = versioned("a", "570", uuid="GPU-1"), versioned("b", "570", uuid=second)
    a_run: Run = run(first, other, versioned("c", "570"), checks=["driver"])
    assert set(same_machine(a_run)) == ({"a", "b"} if alike else set())
    outcomes = {verdict.host: verdict.outcome for verdict in judge(a_run, shipped()).hosts}
    assert outcomes == dict.fromkeys("abc", "pass") | (
        {"a": "inconclusive", "b": "inconclusive"} if alike else {}
    )


def test_a_host_without_an_answer_has_no_vote() -> None:
    empty = replace(record("b", []), report=Report({}, ()))
    assert drifted(versioned("a", "570"), empty) == {}


NDR, HDR = "MT_0000000838", "MT_0000000359"


def ported(host: str, model: str = H200, **ports: tuple[str, str, float]) -> HostRecord:
    """A host with RDMA ports, each with its card's design, its firmware and its rate."""
    samples = [Sample("active_ports", len(ports), "ports")]
    for name, (board, firmware, rate) in ports.items():
        subject = f"port {name}/1"
        samples += [
            Sample("link_layer", "InfiniBand", "", subject),
            Sample("board_id", board, "", subject),
            Sample("linked_state", "ACTIVE", "", subject),
            Sample("port_rate_gbps", rate, "Gb/s", subject),
            Sample("firmware", firmware, "", subject),
            Sample("firmware_of_most", firmware, "", subject),
        ]
    answer = CheckResult("infiniband_ports", "done", samples=tuple(samples))
    return record(host, [answer], gpus=gpu_facts(2, model))


def differing(check: str, *hosts: HostRecord) -> list[tuple[str, str, str]]:
    """Return host, metric and subject of every warning."""
    findings = judge(run(*hosts, checks=[check]), shipped()).findings
    return [(f.host, f.metric, f.subject) for f in findings if f.outcome == "warn"]


COMPUTE, STORAGE = (NDR, "28.39", 400.0), (NDR, "28.39", 200.0)


def test_a_port_is_compared_with_that_of_its_name() -> None:
    alike = [ported(host, mlx5_0=COMPUTE, mlx5_1=STORAGE) for host in "abc"]
    assert differing("infiniband_ports", *alike) == []
    slow = ported("d", mlx5_0=STORAGE, mlx5_1=STORAGE)
    assert differing("infiniband_ports", *alike, slow) == [("d", "port_rate_gbps", "port mlx5_0/1")]
    old = ported("d", mlx5_0=(NDR, "28.36", 400.0), mlx5_1=STORAGE)
    assert differing("infiniband_ports", *alike, old) == [("d", "firmware", "port mlx5_0/1")]


def test_a_port_is_compared_with_its_own_design_only() -> None:
    """Another maker's server with the same GPUs may have other cards at the same names."""
    other = ported("d", mlx5_0=(HDR, "20.39", 200.0), mlx5_1=STORAGE)
    alike = [ported(host, mlx5_0=COMPUTE, mlx5_1=STORAGE) for host in "abc"]
    assert differing("infiniband_ports", *alike, other) == []


def test_a_port_too_few() -> None:
    alike = [ported(host, mlx5_0=COMPUTE, mlx5_1=STORAGE) for host in "abc"]
    assert differing("infiniband_ports", *alike, ported("d", mlx5_0=COMPUTE)) == [
        ("d", "active_ports", "node"),
        ("d", "absent", "port mlx5_1/1"),
    ]
    older = [ported(host, "NVIDIA A100-SXM4-80GB", mlx5_0=(HDR, "20.39", 200.0)) for host in "de"]
    assert differing("infiniband_ports", *alike, *older) == []


def said(check: str, *given: tuple[str, Sample], model: str = H200) -> list[HostRecord]:
    """Return hosts with one GPU that give one sample each, of this check."""
    return [
        record(host, [CheckResult(check, "done", samples=(sample,))], gpus=gpu_facts(1, model))
        for host, sample in given
    ]


@pytest.mark.parametrize(
    ("check", "usual", "odd"),
    [
        ("gpu_count", Sample("pci_gpus", 8, "GPUs"), Sample("pci_gpus", 7, "GPUs")),
        ("hugepages", *(Sample("transparent_huge_pages", v) for v in ("madvise", "always"))),
        ("virtualization", Sample("hypervisor", "none"), Sample("hypervisor", "kvm")),
        *(
            (check, Sample(metric, usual, unit, "gpu0"), Sample(metric, odd, unit, "gpu0"))
            for check, metric, unit, usual, odd in (
                ("ecc_mode", "ecc_enabled", "", True, False),
                ("gpu_model", "memory_gib", "GiB", 140, 70),
                ("mig", "mig_enabled", "", False, True),
                ("power_cap", "power_limit_default_w", "W", 700.0, 690.0),
            )
        ),
    ],
)
def test_the_odd_one_out(check: str, usual: Sample, odd: Sample) -> None:
    hosts = said(check, ("a", usual), ("b", usual), ("c", odd))
    assert differing(check, *hosts) == [("c", odd.metric, odd.subject)]
    unlike = said(check, ("c", odd), model="NVIDIA A40")
    assert differing(check, *hosts[:2], *unlike) == []


def governed(host: str, driver: str, governor: str) -> HostRecord:
    samples = Sample("frequency_driver", driver), Sample("governor", governor)
    return record(host, [CheckResult("cpu_governor", "done", samples=samples)], gpus=gpu_facts(2))


def test_governors_of_one_driver_are_compared() -> None:
    hosts = [governed(host, "intel_pstate", "performance") for host in "ab"]
    drifted = governed("c", "intel_pstate", "powersave")
    assert differing("cpu_governor", *hosts, drifted) == [("c", "governor", "node")]
    other = governed("c", "amd-pstate-epp", "powersave")
    assert differing("cpu_governor", *hosts, other) == [("c", "frequency_driver", "node")]


def test_yes_and_no_are_said_in_words() -> None:
    hosts = said("mig", *((h, Sample("mig_enabled", h == "a", "", "gpu0")) for h in "ab"))
    limits = {
        f.limit
        for f in judge(run(*hosts, checks=["mig"]), shipped()).findings
        if f.outcome == "warn"
    }
    assert limits == {"= most hosts of this kind (no majority: yes on 1, no on 1)"}


def test_a_declared_number_of_gpus_is_no_drift() -> None:
    hosts = said("gpu_count", *((h, Sample("pci_gpus", 8 - (h == "c"), "GPUs")) for h in "abc"))
    a_run = run(*hosts, checks=["gpu_count"])
    plans = tuple(replace(plan, expect={"gpus": 7}) for plan in a_run.meta.hosts)
    found = judge(replace(a_run, meta=replace(a_run.meta, hosts=plans)), shipped()).findings
    assert {(f.host, f.outcome) for f in found if f.metric == "pci_gpus"} == {
        ("a", "fail"),
        ("b", "fail"),
        ("c", "pass"),
    }


def multiplied(host: str, library: str, digest: str) -> HostRecord:
    """A host whose two GPUs agree on a product, made with this library."""
    samples = tuple(
        Sample(metric, value, unit, f"gpu{index}")
        for index in range(2)
        for metric, value, unit in (
            ("wrong_products", 0, "products"),
            ("products", 1000, "products"),
            ("product", f"bf16 cube of 8192, {library}", ""),
            ("digest", digest, ""),
        )
    )
    return record(host, [CheckResult("compute_errors", "done", samples=samples)])


IMAGES = [f"torch 2.7.0+cu128, CUDA 12.8, cuBLAS 12.8.{patch}" for patch in (3, 4)]


def test_images_with_another_cublas_may_differ_in_a_product() -> None:
    first, second = IMAGES
    assert differing("compute_errors", *(multiplied(host, first, "9d4e") for host in "abc")) == []
    images = [multiplied(host, first, "9d4e") for host in "abc"]
    images += [multiplied(host, second, "77aa") for host in "de"]
    assert differing("compute_errors", *images) == []
    one_wrong = [*images, multiplied("f", second, "beef")]
    assert differing("compute_errors", *one_wrong) == [
        ("f", "digest", "gpu0"),
        ("f", "digest", "gpu1"),
    ]


def test_what_must_be_alike_is_a_metric_of_the_check() -> None:
    operands = {
        (check, limit.operand)
        for check in checks.load().values()
        for metric in check.metrics
        for limit in metric.limits
        if isinstance(limit.operand, FromFleet) and limit.operand.alike
    }
    assert {check.id for check, _ in operands} == {
        *("compute_errors", "cpu_governor", "infiniband_ports", "nvswitch_fabric"),
        *("container_files", "parts", "partition_keys"),
    }
    assert all(check.metric(operand.alike) for check, operand in operands)


RACK, OTHER_RACK = "4d0c2b1a77884e3f9a550000000000c1", "4d0c2b1a77884e3f9a550000000000c2"


def tray(host: str, cluster: str, clique: str, domain: str = "") -> HostRecord:
    """A tray of a rack; ``domain`` is what the inventory declares."""
    samples = [Sample("declared_domain", domain)] if domain else []
    for gpu in ("gpu0", "gpu1"):
        samples += [
            Sample("fabric_state", "completed", "", gpu),
            Sample("fabric_status", "Success", "", gpu),
            Sample("fabric_unhealthy", "nothing", "", gpu),
            Sample("fabric_degraded", "nothing", "", gpu),
            Sample("cluster_uuid", cluster, "", gpu),
            Sample("clique_id", clique, "", gpu),
        ]
        if domain:
            samples.append(Sample("cluster_of_domain", f"{cluster} clique {clique}", "", gpu))
    answer = CheckResult("nvswitch_fabric", "done", samples=tuple(samples))
    return record(host, [answer], gpus=gpu_facts(2, "NVIDIA GB200"))


def test_a_tray_of_another_clique_in_its_cluster_is_named() -> None:
    trays = [tray(host, RACK, "2") for host in "abc"]
    assert differing("nvswitch_fabric", *trays) == []
    odd = differing("nvswitch_fabric", *trays, tray("d", RACK, "3"))
    assert odd == [("d", "clique_id", "gpu0"), ("d", "clique_id", "gpu1")]


def test_trays_of_two_racks_are_alike_unless_one_domain_is_declared() -> None:
    racks = [tray(host, RACK, "2") for host in "abc"] + [tray("d", OTHER_RACK, "5")]
    assert differing("nvswitch_fabric", *racks) == []
    domain = [tray(host, RACK, "2", "rack1") for host in "abc"]
    odd = differing("nvswitch_fabric", *domain, tray("d", OTHER_RACK, "5", "rack1"))
    assert odd == [("d", "cluster_of_domain", "gpu0"), ("d", "cluster_of_domain", "gpu1")]
    assert differing("nvswitch_fabric", *domain, tray("d", OTHER_RACK, "5", "rack2")) == []


def generations(*of_gpus: int, by_name: Mapping[str, int] = MappingProxyType({})) -> list[Any]:
    """Return the answers about PCIe of a host with GPUs in slots of these generations."""
    gpus = [f"gpu{n}" for n in range(len(of_gpus))]
    reached = dict(zip(gpus, of_gpus, strict=True))
    lanes = {name: dict.fromkeys(gpus, 16) for name in ("pcie_link_width", "pcie_link_width_max")}
    idle = dict.fromkeys(gpus, 1)
    cards = {name: {"mlx5_0": 16} for name in ("card_link_width", "card_link_width_max")}
    ways = {name: {SWITCH: 16} for name in ("uplink_width", "uplink_width_max")}
    card, switch = by_name.get("mlx5_0", 5), by_name.get(SWITCH, 5)
    return [
        answer_of("pcie_link", {**lanes, "pcie_link_generation": idle,
                                "pcie_link_generation_max": reached}, shipped().checks),
        answer_of("card_links", {**cards, "card_link_generation": {"mlx5_0": card},
                                 "card_link_generation_max": {"mlx5_0": card}}, shipped().checks),
        answer_of("pcie_uplinks", {**ways, "uplink_generation": {SWITCH: switch},
                                   "uplink_generation_max": {SWITCH: switch}}, shipped().checks),
    ]  # fmt: skip


SWITCH = "pci 0000:16:00.0"


def limited(*hosts: list[Any]) -> set[tuple[str, str, str]]:
    """Return host, metric and subject of what warns; the hosts are named a, b, c ..."""
    names = "abcdefgh"
    records = [
        record(name, answers, gpus=[{**gpu, "uuid": f"GPU-{name}{gpu['index']}"}
                                    for gpu in gpu_facts(2, "NVIDIA H100 80GB HBM3")])
        for name, answers in zip(names, hosts, strict=False)
    ]  # fmt: skip
    judged = judge(run(*records, checks=("pcie_link", "card_links", "pcie_uplinks")), shipped())
    return {(f.host, f.metric, f.subject) for f in judged.findings if f.outcome != "pass"}


@pytest.mark.parametrize(
    ("odd", "metric", "subjects"),
    [
        (generations(1, 1), "pcie_link_generation_max", {"gpu0", "gpu1"}),
        (generations(5, 4), "pcie_link_generation_max", {"gpu1"}),
        (generations(5, 5, by_name={"mlx5_0": 1}), "card_link_generation_max", {"mlx5_0"}),
        (generations(5, 5, by_name={SWITCH: 3}), "uplink_generation_max", {SWITCH}),
    ],
    ids=["all GPUs", "one slot", "a card", "a switch"],
)
def test_slots_that_firmware_holds_below_those_of_like_hosts(
    odd: list[Any], metric: str, subjects: set[str]
) -> None:
    usual = generations(5, 5)
    assert limited(usual, usual, odd, usual) == {("c", metric, each) for each in subjects}
    of_two = limited(usual, odd)
    assert of_two == {(host, metric, each) for host in "ab" for each in subjects}, "nobody knows"
    assert limited(odd, odd, odd) == set(), "hosts that are built so"


def test_slots_that_differ_by_design_are_compared_by_their_name() -> None:
    mixed = generations(5, 4)
    assert limited(mixed, mixed, mixed) == set()
    assert limited(mixed, mixed, generations(4, 4)) == {("c", "pcie_link_generation_max", "gpu0")}
