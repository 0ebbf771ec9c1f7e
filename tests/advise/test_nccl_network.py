from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.advise.nccl_network import left_unset, network_settings
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.report.html import html
from hwcheck.report.markdown import markdown
from hwcheck.results.run_folder import HostRecord
from tests.advise.both import cluster_advice
from tests.factories import cpu_results, gpu_host, leg, record, run
from tests.report.example import judged

FAST = {"mlx5_0/1": 400.0, "mlx5_1/1": 400.0, "mlx5_10/1": 400.0}
SLOW = {"mlx5_2/1": 25.0}


def _host(
    name: str,
    network: str,
    rates: dict[str, float] | None = None,
    *,
    gids: dict[str, int | None] | None = None,
    library: str = "NCCL 2.27.5",
    ways: dict[str, str] | None = None,
) -> HostRecord:
    """A host whose leg net went by ``network``, with the ports of these rates and GIDs.

    ``ways`` are from gpu0 to a device; one that is not named is as near as any.
    """
    net = leg("net", 9.0, transport={"network": network} if network else {}, library=library)
    made = gpu_host(name, [leg(library=library), leg("p2p_off", 40.0, library=library), net])
    ports = [
        sample
        for port, rate in (rates or {}).items()
        for sample in (
            Sample("linked_state", "ACTIVE", subject=f"port {port}"),
            Sample("port_rate_gbps", rate, "Gb/s", f"port {port}"),
        )
    ]
    table = [
        sample
        for port, index in (gids or {}).items()
        for sample in (
            Sample("routable_gids", int(index is not None), "GIDs", f"port {port}"),
            *([] if index is None else [Sample("gid_index", index, "", f"port {port}")]),
        )
    ]
    devices = {port.partition("/")[0]: "PIX" for port in rates or {}} | (ways or {})
    near = [Sample("nic_path", way, "", f"gpu0-{name}") for name, way in devices.items() if way]
    answers = (
        CheckResult("topology", "done", samples=tuple(near)),
        CheckResult("infiniband_ports", "done", samples=tuple(ports)),
        CheckResult("roce_gids", "done", samples=tuple(table)),
    )
    assert made.report is not None
    return replace(made, report=replace(made.report, results=(*made.report.results, *answers)))


def _named(*records: HostRecord) -> dict[str, str]:
    return {setting.name: setting.value for setting in network_settings(records)}


ALL_PORTS = "IB mlx5_0:1/IB mlx5_1:1/IB mlx5_2:1/RoCE mlx5_10:1/IB"
FAST_PORTS = "IB mlx5_0:1/IB mlx5_1:1/IB mlx5_10:1/IB"


@pytest.mark.parametrize(
    ("network", "rates", "wanted"),
    [
        (ALL_PORTS, FAST | SLOW, {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1,mlx5_10:1"}),
        (FAST_PORTS, FAST | SLOW, {}),
        (FAST_PORTS, FAST, {}),
        (ALL_PORTS, {}, {}),
        ("", FAST | SLOW, {}),
    ],
)
def test_ports_are_named_only_where_nccl_uses_a_slower_one(network, rates, wanted) -> None:
    assert _named(_host("a", network, rates), _host("b", network, rates)) == wanted


def test_hosts_whose_ports_have_other_names_get_none() -> None:
    other = {"mlx5_3/1": 400.0, **SLOW}
    hosts = [_host("a", ALL_PORTS, FAST | SLOW), _host("b", "IB mlx5_2:1/RoCE", other)]
    assert _named(hosts[0]) != {}
    assert _named(hosts[1]) == {"NCCL_IB_HCA": "=mlx5_3:1"}
    assert _named(*hosts) == {}


@pytest.mark.parametrize(
    ("network", "wanted"),
    [
        ("Socket eth0 virbr0", {"NCCL_SOCKET_IFNAME": "^lo,docker,virbr0"}),
        ("Socket eth0", {}),
        ("Socket virbr0", {}),
        ("Socket eth0 eth1", {}),
        ("IB virbr0:1/IB", {}),
        ("Socket eth0 virbr0;rm", {}),
    ],
)
def test_an_interface_that_leads_nowhere_is_left_out(network: str, wanted) -> None:
    assert _named(_host("a", network)) == wanted


@pytest.mark.parametrize(
    ("gids", "library", "wanted"),
    [
        ({"mlx5_0/1": 3, "mlx5_1/1": 3}, "NCCL 2.20.5", {"NCCL_IB_GID_INDEX": "3"}),
        ({"mlx5_0/1": 3}, "NCCL 2.21.5", {}),
        ({"mlx5_0/1": 3, "mlx5_1/1": 1}, "NCCL 2.20.5", {}),
        ({"mlx5_0/1": 3, "mlx5_1/1": None}, "NCCL 2.20.5", {}),
        ({"mlx5_0/1": 0}, "NCCL 2.20.5", {}),
        ({}, "NCCL 2.20.5", {}),
        ({"mlx5_0/1": 3}, "", {}),
    ],
)
def test_a_gid_is_named_only_to_an_nccl_that_finds_none(gids, library: str, wanted) -> None:
    hosts = [_host(name, "", gids=gids, library=library) for name in "ab"]
    assert _named(*hosts) == wanted
    assert _named(*hosts, _host("c", "", gids={"mlx5_0/1": 5}, library=library)) == {}


def test_a_setting_has_what_it_rests_on() -> None:
    (setting,) = network_settings([_host("a", ALL_PORTS, FAST | SLOW)])
    assert "mlx5_2:1 (25 Gb/s)" in setting.reason
    assert setting.evidence == (f"a: the leg net goes by {ALL_PORTS}",)
    assert setting.measured_with.startswith("NCCL 2.27.5, driver 570.86.15")
    assert setting.retest.startswith("Test again after")


DEVICES = ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_10")


@pytest.mark.parametrize(
    ("rates", "ways", "sure"),
    [
        (FAST | SLOW, {}, True),
        (FAST | SLOW, {"mlx5_2": "SYS"}, True),
        # The fastest may be there for storage: the slower ones are nearer.
        (FAST | SLOW, {"mlx5_0": "NODE", "mlx5_1": "NODE", "mlx5_10": "NODE"}, False),
        (FAST | SLOW, dict.fromkeys(DEVICES, ""), False),
        # One fast port beside three that carry more together.
        ({"mlx5_2/1": 400.0, **dict.fromkeys(FAST, 200.0)}, {}, False),
    ],
)
def test_slower_ports_are_left_out_only_where_none_is_nearer_or_worth_more(
    rates: dict[str, float], ways: dict[str, str], sure: bool
) -> None:
    host = _host("a", ALL_PORTS, rates, ways=ways)
    settings = network_settings([host])
    assert ("NCCL_IB_HCA" in _named(host)) is sure
    assert any("NCCL_IB_HCA" in text for text in left_unset([host], settings)) is not sure


def _why(name: str, *hosts: HostRecord) -> str:
    lines = left_unset(hosts, network_settings(hosts))
    (text,) = [text for text in lines if text.startswith(name + " ")]
    return text


def _rails(storage: str = "") -> HostRecord:
    """Two GPUs with a port each, and one that is near none where it is named."""
    ports = ("mlx5_0", "mlx5_1", *([storage] if storage else []))
    network = "IB " + " ".join(f"{port}:1/IB" for port in ports)
    host = _host("a", network, {f"{port}/1": 400.0 for port in ports})
    assert host.report is not None
    samples = tuple(
        Sample("nic_path", "PIX" if port == f"mlx5_{gpu}" else "NODE", "", f"gpu{gpu}-{port}")
        for gpu in (0, 1)
        for port in ports
    )
    kept = (result for result in host.report.results if result.check != "topology")
    answers = (*kept, CheckResult("topology", "done", samples=samples))
    return replace(host, report=replace(host.report, results=answers))


@pytest.mark.parametrize(
    ("name", "host", "why"),
    [
        ("NCCL_IB_HCA", _host("a", ""), "no host told of an active RDMA port"),
        ("NCCL_IB_HCA", _host("a", "", FAST), "NCCL did not say which ports it uses on a"),
        ("NCCL_IB_HCA", _host("a", FAST_PORTS, FAST), "all ports have one rate"),
        ("NCCL_IB_HCA", _host("a", FAST_PORTS, FAST | SLOW), "NCCL does not use ports that are"),
        ("NCCL_IB_HCA", _rails("mlx5_4"), "on a mlx5_4:1 is near no GPU, as ports for storage"),
        ("NCCL_IB_HCA", _rails(), "all ports have one rate"),
        ("NCCL_IB_GID_INDEX", _host("a", ""), "no host told of an active RoCE port"),
        (
            "NCCL_IB_GID_INDEX",
            _host("a", "", gids={"mlx5_0/1": 3}),
            "audits that ask for a fixed",
        ),
        (
            "NCCL_IB_GID_INDEX",
            _host("a", "", gids={"mlx5_0/1": 3, "mlx5_1/1": 1}, library="NCCL 2.20.5"),
            "at another index from port to port (1, 3)",
        ),
        (
            "NCCL_IB_GID_INDEX",
            _host("a", "", gids={"mlx5_0/1": None}),
            "port mlx5_0/1 has no RoCE v2 address",
        ),
        (
            "NCCL_IB_GID_INDEX",
            _host("a", "", gids={"mlx5_0/1": 0}, library="NCCL 2.20.5"),
            "at index 0, which NCCL takes",
        ),
        ("NCCL_IB_GID_INDEX", _host("a", "", gids={"m/1": 3}, library=""), "is not known on every"),
        ("NCCL_SOCKET_IFNAME", _host("a", FAST_PORTS), "NCCL did not name an interface"),
        ("NCCL_SOCKET_IFNAME", _host("a", "Socket eth0"), "NCCL goes by eth0, and no interface"),
        ("NCCL_CROSS_NIC", _host("a", "Socket eth0"), "so there are no rails"),
        ("NCCL_CROSS_NIC", _host("a", "", {"mlx5_0/1": 400.0}), "there is nothing to cross"),
        ("NCCL_CROSS_NIC", _rails(), "each GPU has a port of its own (400 Gb/s), as on rails; "),
        ("NCCL_CROSS_NIC", _host("a", FAST_PORTS, FAST, ways={"mlx5_10": ""}), "as on rails"),
        (
            "NCCL_CROSS_NIC",
            _host("a", FAST_PORTS, FAST, ways=dict.fromkeys(DEVICES, "SYS")),
            "unset: whether the rails of the fabric",
        ),
    ],
)
def test_what_is_left_unset_has_its_reason(name: str, host: HostRecord, why: str) -> None:
    assert why in _why(name, host)


@pytest.mark.parametrize(
    ("amount", "network", "ports", "told"),
    [
        (65, FAST_PORTS, FAST, True),
        (64, FAST_PORTS, FAST, False),
        (65, "Socket eth0", {}, False),
    ],
    ids=["many", "few", "no RDMA"],
)
def test_of_many_hosts_queue_pairs_are_spoken_of(
    amount: int, network: str, ports: dict[str, float], *, told: bool
) -> None:
    hosts = [_host(f"n{number}", network, ports) for number in range(amount)]
    reasons = [text for text in left_unset(hosts, ()) if "QPS_PER_CONNECTION" in text]
    assert bool(reasons) == told
    assert all(f"{amount} hosts" in text and "take 4" in text for text in reasons)


def test_each_setting_is_set_or_has_its_reason() -> None:
    for host in (_host("a", ALL_PORTS, FAST | SLOW), _host("b", "Socket eth0 virbr0"), _rails()):
        settings = network_settings([host])
        named = {setting.name for setting in settings}
        unset = {text.partition(" ")[0] for text in left_unset([host], settings)}
        assert not unset & named
        assert unset | named == {
            "NCCL_IB_HCA",
            "NCCL_IB_GID_INDEX",
            "NCCL_SOCKET_IFNAME",
            "NCCL_CROSS_NIC",
        }


def test_a_run_without_gpus_or_answers_has_nothing_to_leave_unset() -> None:
    assert left_unset([], ()) == ()
    assert left_unset([record("down", None)], ()) == ()
    assert cluster_advice(run(record("cpu", cpu_results()))).unset == ()
    assert len(cluster_advice(run(_rails())).unset) == 4


def test_the_reports_say_why_each_is_left_unset() -> None:
    result = judged(run(_rails()))
    begins = [text.partition(" unset: ")[0] for text in result.advice.nccl.unset]
    assert len(begins) == 4
    for shown in (html(result), markdown(result).replace("\\", "")):
        assert all(begin in shown for begin in begins)


def test_cross_nic_is_never_set() -> None:
    hosts = [_host("a", ALL_PORTS, FAST | SLOW), _host("b", "Socket eth0 virbr0")]
    assert all("NCCL_CROSS_NIC" not in _named(host) for host in hosts)


def _with(host: HostRecord, *answers: CheckResult, gpus: int | None = None) -> HostRecord:
    assert host.report is not None
    facts = dict(host.report.facts)
    if gpus is not None:
        facts["gpus"] = [{"index": index, "name": "NVIDIA H200"} for index in range(gpus)]
    report = replace(host.report, facts=facts, results=(*host.report.results, *answers))
    return replace(host, report=report)


def _answer(check: str, metric: str, value: object, subject: str) -> CheckResult:
    return CheckResult(check, "done", samples=(Sample(metric, value, "", subject),))  # type: ignore[arg-type]


def test_a_port_whose_gpu_was_lost_is_not_near_no_gpu() -> None:
    healthy = _rails("mlx5_4")
    lost = _answer("gpu_lost", "gpu_answer", "GPU is lost", "gpu2")
    unseen = _answer("gpu_count", "seen_by_nvml", False, "pci 0000:3b:00.0")
    others = replace(_with(healthy, gpus=3), host="b")
    for hosts in (
        [_with(healthy, lost)],
        [_with(healthy, unseen)],
        [_with(healthy, gpus=2), others],
    ):
        why = _why("NCCL_IB_HCA", *hosts)
        assert "a has lost a GPU, so which ports are near it is not known" in why
        assert "near no GPU" not in why
    assert "near no GPU" in _why("NCCL_IB_HCA", healthy)
