from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.advise.nccl_files import nccl_conf
from hwcheck.contract.collective_spec import SYSTEM_CONF_NOTE
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.results.run_folder import HostRecord, Run
from tests.advise.both import WITH_ALLTOALL, both, cluster_advice
from tests.factories import (
    CHECKS,
    cpu_results,
    gpu_facts,
    gpu_host,
    hung,
    leg,
    record,
    results,
    run,
)

OFF = leg("p2p_off", 21.0)


def _pcie(host: str, *legs):
    return gpu_host(host, list(legs), nvlink_links=0)


def _one_gpu(host: str) -> HostRecord:
    legs = (leg(ranks=1), leg("p2p_off", ranks=1))
    return record(host, results(legs, 1), gpus=gpu_facts(1, nvlink_links=0))


def test_a_hang_that_p2p_off_mends_gives_the_setting() -> None:
    advice = cluster_advice(run(_pcie("node01", hung(), OFF), _idle("node02"), checks=SEEN))
    assert [(s.name, s.value) for s in advice.settings] == [("NCCL_P2P_DISABLE", "1")]
    assert "Mend the cause first" in advice.settings[0].reason
    assert "all_reduce only" in advice.settings[0].reason
    assert "NCCL 2.27.5" in advice.settings[0].reason
    assert "1 of 2 hosts" in advice.summary
    assert any("hangs" in text and "20.84 GB/s" in text for text in advice.evidence)


def test_p2p_off_that_is_faster_gives_the_setting_with_figures() -> None:
    faster = both("a1", [leg(peak_gbps=14.0), OFF])
    advice = cluster_advice(run(faster, _pcie("a2", hung(), OFF), checks=WITH_ALLTOALL))
    assert len(advice.settings) == 1
    assert "a[1-2]" in advice.summary
    assert any("13.89 GB/s" in text and "20.84 GB/s" in text for text in advice.evidence)


DOWN = [record(f"n{i:02d}", None, reason="down") for i in range(3, 100)]


def _idle(host: str) -> HostRecord:
    """A like host without a leg: what it is is known, and nothing was measured."""
    made = _pcie(host)
    assert made.report is not None
    nccl = CheckResult("software_versions", "done", samples=(Sample("nccl_version", "2.27.5"),))
    return replace(made, report=replace(made.report, results=(*made.report.results, nccl)))


IDLE = [_idle(f"n{i:02d}") for i in range(3, 100)]
SEEN = (*WITH_ALLTOALL, "software_versions")
NOTHING = [_one_gpu(f"n{i:02d}") for i in range(3, 100)]


@pytest.mark.parametrize("others", [IDLE, NOTHING, IDLE[:1] + NOTHING[1:]])
def test_a_few_hosts_set_nothing_for_a_cluster_that_was_not_measured(others) -> None:
    proven = (_pcie("n01", hung(), OFF), both("n02", [leg(peak_gbps=14.0), OFF]))
    advice = cluster_advice(run(*proven, *others, checks=SEEN))
    assert advice.settings == ()
    share = f"2 of {len(others) + 2} hosts"
    assert f"NCCL_P2P_DISABLE=1 is proven on n[01-02] only ({share})" in advice.summary
    assert "it was not measured" in advice.summary
    assert all(text.startswith("# ") for text in nccl_conf(advice).splitlines())
    assert "proven on n[01-02] only" in nccl_conf(advice).replace("\n# ", " ")


def test_half_of_the_hosts_is_enough() -> None:
    proven = [_pcie(f"p{i}", hung(), OFF) for i in range(2)]
    assert len(cluster_advice(run(*proven, *IDLE[:2], checks=SEEN)).settings) == 1
    assert cluster_advice(run(*proven, *IDLE[:3], checks=SEEN)).settings == ()


@pytest.mark.parametrize(
    "unseen",
    [DOWN[0], record("n03", ()), record("n03", cpu_results(), state="partial")],
)
def test_a_host_that_nobody_saw_keeps_the_cluster_unset(unseen: HostRecord) -> None:
    """It may have NVLinks, and one file for all would turn them off."""
    proven = [_pcie(f"p{i}", hung(), OFF) for i in range(9)]
    assert len(cluster_advice(run(*proven)).settings) == 1
    advice = cluster_advice(run(*proven, unseen))
    assert advice.settings == ()
    assert "proven on p[0-8], and the GPUs of n03 are not known" in advice.summary


def test_nvlinks_that_could_not_be_read_keep_the_cluster_unset() -> None:
    unread = gpu_host("d", [], nvlink_links=None)
    advice = cluster_advice(run(*(_pcie(f"p{i}", hung(), OFF) for i in range(9)), unread))
    assert advice.settings == ()
    assert "it might turn off NVLinks of d, where they could not be read" in advice.summary


def test_hosts_that_hang_either_way_count_against_as_many() -> None:
    neither = [_pcie(f"n{i}", hung(), hung("p2p_off")) for i in range(2)]
    proven = [_pcie(f"p{i}", hung(), OFF) for i in range(3)]
    tie = cluster_advice(run(*proven[:2], *neither))
    assert tie.settings == ()
    assert "on n[0-1] a leg without P2P is bad too" in tie.summary
    advice = cluster_advice(run(*proven, *neither))
    assert len(advice.settings) == 1
    assert "not proven on n[0-1] (the default hangs" in advice.summary
    assert advice.hosts == ("p0", "p1", "p2"), "what ails the others is not mended by it"


def test_a_host_without_a_gpu_has_no_part_in_it() -> None:
    without = [record(f"cpu{i}", cpu_results()) for i in range(4)]
    advice = cluster_advice(run(_pcie("p1", hung(), OFF), *without))
    assert len(advice.settings) == 1
    assert "(1 of 1 host); without a GPU, so not counted: cpu[0-3]" in advice.summary


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (record("c", cpu_results()[:1]), "without a GPU, so not counted: c"),
        (record("c", cpu_results()[1:]), "without a GPU, so not counted: c"),
        (record("c", ()), "the GPUs of c are not known"),
        (record("c", cpu_results(), state="partial"), "the GPUs of c are not known"),
    ],
)
def test_only_a_whole_answer_shows_that_a_host_has_no_gpu(host: HostRecord, words: str) -> None:
    assert words in cluster_advice(run(_pcie("p1", hung(), OFF), host)).summary


def test_a_host_that_should_have_gpus_counts_without_any() -> None:
    a_run = run(_pcie("p1", hung(), OFF), *(record(f"cpu{i}", cpu_results()) for i in range(2)))
    advice = cluster_advice(_declared(a_run, 8))
    assert advice.settings == ()
    assert "the GPUs of cpu[0-1] are not known" in advice.summary


def test_what_is_not_proven_is_named_beside_the_setting() -> None:
    failed = _pcie("p2", leg(state="failed", reason="error 205", sizes=()), OFF)
    proven = [_pcie(name, hung(), OFF) for name in ("p1", "p3")]
    advice = cluster_advice(run(*proven, failed, IDLE[0], checks=SEEN))
    assert len(advice.settings) == 1
    assert "(2 of 4 hosts); not proven on p2 (the default failed (error 205)" in advice.summary
    assert "; not measured on n03" in advice.summary


def test_each_gpu_model_needs_its_own_proof() -> None:
    failed = [leg(state="failed", reason="error 205", sizes=()), OFF]
    other = gpu_host("b", failed, gpu_name="A40", nvlink_links=0)
    advice = cluster_advice(run(_pcie("a", hung(), OFF), other))
    assert advice.settings == ()
    assert "on fewer than half of the hosts with A40" in advice.summary
    mended = gpu_host("b", [hung(), OFF], gpu_name="A40", nvlink_links=0)
    assert len(cluster_advice(run(_pcie("a", hung(), OFF), mended)).settings) == 1


def test_one_machine_under_two_names_proves_nothing() -> None:
    first = _pcie("n1", hung(), OFF)
    second = replace(_pcie("n2", hung(), OFF), report=first.report)
    advice = cluster_advice(run(first, second))
    assert advice.settings == ()
    assert "one machine under several names" in advice.summary


def test_a_miscounted_host_proves_nothing() -> None:
    a_run = run(_pcie("n1", hung(), OFF))
    assert len(cluster_advice(_declared(a_run, 8)).settings) == 1
    advice = cluster_advice(_declared(a_run, 4))
    assert advice.settings == ()
    assert "the node names 8 GPUs and hwcheck_gpus says 4" in advice.summary


def _declared(a_run: Run, gpus: int) -> Run:
    plans = tuple(replace(plan, expect={"gpus": gpus}) for plan in a_run.meta.hosts)
    return replace(a_run, meta=replace(a_run.meta, hosts=plans))


def test_a_check_that_was_not_asked_for_proves_nothing() -> None:
    others = [check for check in CHECKS if check != "all_reduce"]
    advice = cluster_advice(run(_pcie("n1", hung(), OFF), checks=others))
    assert advice.settings == ()
    assert "no NCCL leg was measured" in advice.summary


def test_sockets_that_win_are_told_and_set_nothing() -> None:
    sockets = _pcie("s1", leg(peak_gbps=1.0), leg("p2p_off", 0.5), leg("net", 400.0))
    advice = cluster_advice(run(sockets))
    assert advice.settings == ()
    assert "the default is slower than net on s1: a defect" in advice.summary
    assert "measured best" not in advice.summary
    mixed = cluster_advice(run(_pcie("p1", hung(), OFF), _pcie("p2", hung(), OFF), sockets))
    assert mixed.settings == ()
    assert "sockets on s1" in mixed.summary


def test_a_copied_nccl_conf_is_not_taken_for_the_defaults() -> None:
    notes = {"notes": (SYSTEM_CONF_NOTE,)}
    legs = [leg(peak_gbps=21.0, **notes), leg("p2p_off", 21.0, **notes)]
    summary = cluster_advice(run(_pcie("n1", *legs))).summary
    assert "measured best" not in summary
    assert "/etc/nccl.conf exists" in summary


def test_never_with_nvlink() -> None:
    advice = cluster_advice(run(gpu_host("a", [hung(), OFF], nvlink_links=18)))
    assert advice.settings == ()
    assert "never a reason to disable NVLink" in advice.summary


def test_a_healthy_cluster_leaves_everything_unset() -> None:
    advice = cluster_advice(run(gpu_host("node01"), gpu_host("node02")))
    assert advice.settings == ()
    assert advice.summary == "leave unset: the defaults measured best on node[01-02]"
    assert any("default 446.5 GB/s" in text for text in advice.evidence)


def test_hosts_without_a_leg_are_named() -> None:
    summary = cluster_advice(run(gpu_host("n01"), DOWN[0], record("cpu", cpu_results()))).summary
    assert summary.endswith("measured best on n01; no NCCL leg was measured on n03")


def test_neither_clean_gives_no_setting() -> None:
    advice = cluster_advice(run(_pcie("a", hung(), hung("p2p_off"))))
    assert advice.settings == ()
    assert "P2P is not shown to be the cause" in advice.summary


def _two(host: str, reduce: tuple[float, float], others: tuple[float, float]) -> HostRecord:
    """A PCIe host with figures by default and without P2P, of all_reduce and of alltoall."""
    pairs = ([leg(peak_gbps=on), leg("p2p_off", off)] for on, off in (reduce, others))
    return both(host, *pairs)


def test_collectives_that_contradict_each_other_leave_it_unset_and_are_named() -> None:
    """NVIDIA/nccl#1603: with P2P all_reduce gains and alltoall falls to a ninth."""
    advice = cluster_advice(run(_two("a", (22.0, 18.0), (2.0, 18.0)), checks=WITH_ALLTOALL))
    assert advice.settings == ()
    wanted = (
        "it depends on the collective, all_reduce is best under default, alltoall is best under"
    )
    assert f"leave unset: a: {wanted} p2p_off" in advice.summary
    assert any("alltoall" in text and "1.984 GB/s" in text for text in advice.evidence)
    agreed = cluster_advice(run(_two("a", (14.0, 18.0), (2.0, 18.0)), checks=WITH_ALLTOALL))
    assert [s.name for s in agreed.settings] == ["NCCL_P2P_DISABLE"]
    assert "Measured with all_reduce, alltoall only" in agreed.settings[0].reason
    mixed = (_two("a", (14.0, 18.0), (2.0, 18.0)), _two("b", (22.0, 18.0), (2.0, 18.0)))
    advice = cluster_advice(run(*mixed, checks=WITH_ALLTOALL))
    assert advice.settings == ()
    assert "on b all_reduce is best under default, alltoall is best under p2p_off" in advice.summary


def test_bridged_pairs_keep_their_nvlinks() -> None:
    legs = [hung(), leg("p2p_off", 5.0), leg("nvlink_only", 47.0)]
    advice = cluster_advice(run(gpu_host("a", legs, nvlink_links=4)))
    assert [(s.name, s.value) for s in advice.settings] == [("NCCL_P2P_LEVEL", "NVL")]
    assert "set NCCL_P2P_LEVEL=NVL: proven on a" in advice.summary
    assert any("nvlink_only 46.64 GB/s" in text for text in advice.evidence)


def test_p2p_through_the_cpus_that_gains_is_a_setting() -> None:
    legs = [leg(peak_gbps=30.0), leg("p2p_off", 30.0), leg("p2p_sys", 39.0)]
    advice = cluster_advice(run(both("a", legs), checks=WITH_ALLTOALL))
    assert [(s.name, s.value) for s in advice.settings] == [("NCCL_P2P_LEVEL", "SYS")]
    assert "P2P through the CPUs is faster on a." in advice.settings[0].reason
    assert "Mend the cause" not in advice.settings[0].reason
    assert any("p2p_sys 38.7 GB/s" in text for text in advice.evidence)


def test_hosts_that_want_different_settings_get_none() -> None:
    bridged = gpu_host("b", [hung(), leg("p2p_off", 5.0), leg("nvlink_only", 47.0)], nvlink_links=4)
    advice = cluster_advice(run(_pcie("a1", hung(), OFF), _pcie("a2", hung(), OFF), bridged))
    assert advice.settings == ()
    assert "NCCL_P2P_DISABLE=1 is best on a[1-2], NCCL_P2P_LEVEL=NVL on b" in advice.summary


def test_contradicting_hosts_are_never_averaged() -> None:
    wants = [_pcie(f"bad{i}", hung(), OFF) for i in range(1, 4)]
    advice = cluster_advice(run(*wants, _pcie("good1", leg(peak_gbps=30.0), OFF)))
    assert advice.settings == ()
    assert "bad[1-3]" in advice.summary
    assert "good1" in advice.summary


def test_nvlinks_anywhere_forbid_a_setting_for_the_cluster() -> None:
    unmeasured = gpu_host("linked", [], nvlink_links=18)
    advice = cluster_advice(run(_pcie("a", hung(), OFF), unmeasured))
    assert advice.settings == ()
    assert "NVLinks of linked" in advice.summary


@pytest.mark.parametrize(
    ("a_run", "words"),
    [
        (run(record("cpu", cpu_results())), "gloo on the CPU exercises the path"),
        (run(record("down", None)), "no NCCL leg was measured"),
        (run(_one_gpu("a")), "one rank on the node"),
    ],
)
def test_no_evidence_no_setting(a_run, words: str) -> None:
    advice = cluster_advice(a_run)
    assert advice.settings == ()
    assert advice.summary.startswith("leave unset")
    assert words in advice.summary


def test_equal_evidence_is_one_line() -> None:
    advice = cluster_advice(
        run(*(gpu_host(f"n{i:03d}", [leg(peak_gbps=440 + i % 9), OFF]) for i in range(300)))
    )
    assert len(advice.evidence) == 1
    assert "n[000-299]" in advice.evidence[0]
    assert "436.6 to 444.5 GB/s" in advice.evidence[0]
