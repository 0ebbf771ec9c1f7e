from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hwcheck.advise.actions import advise
from hwcheck.advise.catalogue import shipped
from hwcheck.advise.causes import diagnose
from hwcheck.advise.nccl_files import nccl_files
from hwcheck.advise.records import Advice
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.judge.judge import judge
from hwcheck.results.run_folder import HostRecord, Run, write_rendered
from tests.factories import CHECKS, gpu_host, hung, leg, record, run

OFF = leg("p2p_off", 21.0)
BRIDGED = [hung(), leg("p2p_off", 5.0), leg("nvlink_only", 47.0)]


def _pcie(host: str, *legs, name: str = "NVIDIA L40S") -> HostRecord:
    return gpu_host(host, list(legs), nvlink_links=0, gpu_name=name)


def _advice(*records: HostRecord, checks: tuple[str, ...] = CHECKS) -> Advice:
    a_run = run(*records, checks=checks)
    return advise(a_run, judge(a_run, shipped()), shipped())


def _with(of: HostRecord, check: str, *samples: Sample) -> HostRecord:
    assert of.report is not None
    kept = tuple(result for result in of.report.results if result.check != check)
    answer = CheckResult(check, "done", samples=samples)
    return replace(of, report=replace(of.report, results=(*kept, answer)))


def _settings(advice: Advice) -> dict[str, list[str]]:
    return {
        group.name: [f"{setting.name}={setting.value}" for setting in group.nccl.settings]
        for group in advice.groups
    }


def test_hosts_that_agree_need_one_file() -> None:
    assert _advice(_pcie("a1", hung(), OFF), _pcie("a2", hung(), OFF)).groups == ()
    assert _advice(gpu_host("h1"), _pcie("a1", leg(peak_gbps=30.0), OFF)).groups == ()


def test_groups_that_want_different_settings_each_get_their_own() -> None:
    bridged = gpu_host("b1", BRIDGED, nvlink_links=4, gpu_name="NVIDIA A40")
    advice = _advice(_pcie("a1", hung(), OFF), _pcie("a2", hung(), OFF), bridged, gpu_host("h1"))
    assert advice.nccl.settings == ()
    assert _settings(advice) == {
        "8x-l40s": ["NCCL_P2P_DISABLE=1"],
        "8x-a40": ["NCCL_P2P_LEVEL=NVL"],
        "8x-h100-80gb-hbm3": [],
    }
    assert [group.hosts for group in advice.groups] == [("a1", "a2"), ("b1",), ("h1",)]


def test_like_hosts_that_contradict_each_other_get_none() -> None:
    advice = _advice(
        _pcie("a1", hung(), OFF),
        _pcie("a2", hung(), OFF),
        _pcie("a3", leg(peak_gbps=30.0), OFF),
        _pcie("b1", hung(), OFF, name="NVIDIA A40"),
    )
    assert advice.nccl.settings == ()
    assert _settings(advice) == {"8x-l40s": [], "8x-a40": ["NCCL_P2P_DISABLE=1"]}
    like = advice.groups[0].nccl.summary
    assert "no setting for all of these hosts" in like
    assert "mend or isolate a[1-2]" in like


def test_another_nccl_or_driver_or_topology_makes_another_group() -> None:
    old = [replace(each, library="NCCL 2.20.5") for each in (leg(peak_gbps=30.0), OFF)]
    newer = Sample("driver_version", "580.1")
    switch = Sample("path", "PIX", subject="gpu0-gpu1")
    addresses = [Sample("pci_address", f"0000:{i:02x}:00.0", subject=f"gpu{i}") for i in range(2)]
    advice = _advice(
        _pcie("a1", hung(), OFF),
        _pcie("a2", *old),
        _with(_pcie("a3", leg(peak_gbps=30.0), OFF), "driver", newer),
        _with(_pcie("a4", hung(), OFF), "topology", switch, *addresses),
        checks=(*CHECKS, "topology"),
    )
    assert _settings(advice) == {
        "8x-l40s-1": ["NCCL_P2P_DISABLE=1"],
        "8x-l40s-2": [],
        "8x-l40s-3": [],
        "8x-l40s-4": ["NCCL_P2P_DISABLE=1"],
    }
    alike = [group.alike for group in advice.groups]
    assert alike[1] == "8x NVIDIA L40S, NCCL 2.20.5, driver 570.86.15"
    assert alike[2].endswith("driver 580.1")
    assert alike[3] == "8x NVIDIA L40S, PIX x1, NCCL 2.27.5, driver 570.86.15"


def test_one_kind_without_proof_keeps_the_cluster_unset() -> None:
    failed = [leg(state="failed", reason="error 205", sizes=()), OFF]
    proven = [_pcie(f"a{i}", hung(), OFF) for i in range(4)]
    advice = _advice(*proven, _with(_pcie("b", *failed), "driver", Sample("driver_version", "1.2")))
    assert advice.nccl.settings == ()
    assert _settings(advice) == {"8x-l40s-1": ["NCCL_P2P_DISABLE=1"], "8x-l40s-2": []}


def test_names_of_folders_are_told_apart_and_hold_no_path() -> None:
    names = ["../../etc", "..", "x 1", "x", "x!"]
    legs = [(hung(), OFF) if i % 2 else (leg(peak_gbps=30.0), OFF) for i in range(len(names))]
    pairs = zip(names, legs, strict=True)
    advice = _advice(*(_pcie(f"h{i}", *legs, name=name) for i, (name, legs) in enumerate(pairs)))
    folders = [group.name for group in advice.groups]
    assert len(set(folders)) == len(names)
    assert all(name.replace("-", "").isalnum() for name in folders)


def test_hosts_that_do_not_fold_leave_room_for_the_reason() -> None:
    hosts = [
        _pcie(f"n{i:04d}", hung(), OFF) if i % 2 else gpu_host(f"n{i:04d}") for i in range(400)
    ]
    group = _advice(*hosts).groups[1]
    (setting,) = group.nccl.settings
    assert "200 hosts (n0001 to n0399, and others between them)" in setting.reason
    assert setting.reason.endswith("Measured with all_reduce only (NCCL 2.27.5, driver 570.86.15).")
    assert len(group.hosts) == 200


def test_a_host_that_nobody_saw_leaves_the_measured_ones_their_own_file() -> None:
    advice = _advice(_pcie("a1", hung(), OFF), record("dgx1", None, reason="no route"))
    assert advice.nccl.settings == ()
    assert _settings(advice) == {"8x-l40s": ["NCCL_P2P_DISABLE=1"]}
    files = nccl_files(advice)
    assert all(line.startswith("#") for line in files["nccl.conf"].splitlines())
    conf = files["nccl/8x-l40s/nccl.conf"].replace("\n# ", " ")
    assert "For 8x NVIDIA L40S, NCCL 2.27.5, driver 570.86.15: a1." in conf
    assert "dgx1" not in conf


def test_a_host_without_an_answer_is_in_no_group() -> None:
    advice = _advice(
        _pcie("a1", hung(), OFF), gpu_host("h1"), record("down", None, reason="no route")
    )
    assert [group.hosts for group in advice.groups] == [("a1",), ("h1",)]


def _with_acs(a_run: Run) -> Run:
    redirect = Sample("acs_redirect", True, subject="bridge 0000:00:01.1")
    records = tuple(_with(each, "pcie_acs", redirect) for each in a_run.records)
    meta = replace(a_run.meta, checks=(*a_run.meta.checks, "pcie_acs"))
    return replace(a_run, meta=meta, records=records)


def test_the_setting_is_good_until_the_cause_is_mended() -> None:
    a_run = run(_pcie("a1", hung(), OFF), _pcie("a2", hung(), OFF))
    with_acs = _with_acs(a_run)
    assert (
        "acs_redirect"
        in diagnose(with_acs, judge(with_acs, shipped()), shipped().rules).by_host["a1"]
    ), "the premise"
    reason = advise(with_acs, judge(with_acs, shipped()), shipped()).nccl.settings[0].reason
    assert "Only until this is mended: ACS sends what GPUs send each other" in reason
    assert "(acs_redirect, likely, on a[1-2])" in reason
    without = advise(a_run, judge(a_run, shipped()), shipped()).nccl.settings[0].reason
    assert "acs_redirect" not in without


def test_what_an_earlier_rendering_left_is_gone(tmp_path: Path) -> None:
    groups = _advice(_pcie("a1", hung(), OFF), gpu_host("h1"))
    write_rendered(tmp_path, nccl_files(groups), anew="nccl")
    assert (tmp_path / "nccl/8x-l40s/nccl.conf").exists()
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes/a1.json").write_text("{}")
    write_rendered(tmp_path, nccl_files(_advice(gpu_host("h1"))), anew="nccl")
    assert sorted(path.name for path in (tmp_path / "nccl").iterdir()) == [
        "kubernetes.yaml",
        "slurm.sh",
        "torchrun.sh",
    ]
    assert (tmp_path / "nodes/a1.json").exists()
