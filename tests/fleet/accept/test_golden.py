"""The accepted hosts as a reference: medians, one host for each kind, read back and judged by."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.contract.wire import to_json
from hwcheck.errors import UsageError
from hwcheck.fleet.accept.golden import golden_hosts, read_golden
from hwcheck.fleet.accept.record import write_record
from hwcheck.judge.judge import judge
from hwcheck.results.run_folder import HostRecord, RunFolder, read_run
from tests import factories

ID = "20270131T120000Z-a1b2c3"


def accepted() -> dict[str, list[HostRecord]]:
    """Return the visits of three hosts: one with a slow leg at first and a good one later."""
    good = {
        name: [factories.gpu_host(name, (factories.leg(peak_gbps=peak),))]
        for name, peak in (("n1", 440.0), ("n2", 450.0), ("n3", 460.0))
    }
    slow = factories.gpu_host("n2", (factories.leg(peak_gbps=100.0),))
    return {**good, "n2": [slow, *good["n2"]]}


def golden() -> HostRecord:
    (made,) = golden_hosts(ID, accepted())
    return made


def busbw(record: HostRecord) -> float:
    assert record.report is not None
    samples = [each for result in record.report.results for each in result.samples]
    (found,) = [s.value for s in samples if (s.metric, s.subject) == ("busbw_gbps", "leg default")]
    return float(found)


def test_a_golden_host_has_the_median_of_the_last_answers_and_no_identity() -> None:
    made = golden()
    assert busbw(made) == busbw(factories.gpu_host("n", (factories.leg(peak_gbps=450.0),)))
    assert made.host == f"{ID}-1"
    assert "GPU-n" not in to_json(made)


def test_each_kind_of_host_has_its_own() -> None:
    records = {**accepted(), "h": [factories.gpu_host("h", gpu_name="NVIDIA H200")]}
    assert [each.host for each in golden_hosts(ID, records)] == [f"{ID}-1", f"{ID}-2"]
    assert golden_hosts(ID, {}) == []


@pytest.mark.parametrize(("peak", "warns"), [(440.0, False), (330.0, True)])
def test_one_host_alone_is_held_against_what_was_accepted(peak: float, warns: bool) -> None:
    run = factories.run(factories.gpu_host("n9", (factories.leg(peak_gbps=peak),)))
    assert not [f for f in judge(run, shipped()).findings if "golden" in f.limit]
    judged = judge(replace(run, golden=(golden(),)), shipped())
    said = [f for f in judged.findings if f"golden {ID}-1" in f.limit and f.outcome == "warn"]
    assert bool(said) is warns
    assert {f.host for f in judged.findings} == {"n9"}
    assert [each.host for each in judged.hosts] == ["n9"]


def test_a_version_is_held_against_the_accepted_one() -> None:
    host = factories.gpu_host("n9")
    assert host.report is not None
    results = tuple(
        replace(
            result,
            samples=tuple(
                replace(each, value="999.1") if each.metric == "driver_version" else each
                for each in result.samples
            ),
        )
        for result in host.report.results
    )
    run = factories.run(replace(host, report=replace(host.report, results=results)))
    judged = judge(replace(run, golden=(golden(),)), shipped())
    assert [
        f.metric for f in judged.findings if "the golden host" in f.limit and f.outcome != "pass"
    ]


def test_a_run_keeps_its_golden_hosts(tmp_path: Path) -> None:
    run = factories.run(factories.gpu_host("n9"))
    folder = RunFolder.create(tmp_path, run.meta)
    folder.write_host(run.records[0])
    folder.finish(interrupted=False)
    assert read_run(folder.path).golden == ()
    folder.write_golden([golden()])
    (kept,) = read_run(folder.path).golden
    assert busbw(kept) == busbw(golden())


def written(path: Path, **changes: object) -> Path:
    data = {"format": 1, "version": "0.1", "id": ID, "hosts": [golden()]}
    path.write_text(to_json({**data, **changes}))
    return path


def test_a_file_and_a_record_are_read_alike(tmp_path: Path) -> None:
    file = written(tmp_path / "golden.json")
    write_record(tmp_path / "r.tar.gz", ID, {"golden.json": file, "a.txt": b"x"})
    for path in (file, tmp_path / "r.tar.gz"):
        (host,) = read_golden(path)
        assert busbw(host) == busbw(golden())


def test_what_is_no_golden_file_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "golden.json"
    for content, words in (
        ("x", "not JSON"),
        ("[]", "no golden hosts"),
        (json.dumps({"hosts": [], "format": 2, "version": "9"}), "by hwcheck 9, a newer one"),
        (json.dumps({"hosts": [{"host": "n"}], "format": 1}), "lacks"),
    ):
        file.write_text(content)
        with pytest.raises(UsageError, match=words) as refused:
            read_golden(file)
        assert str(refused.value).startswith(f"hwcheck_golden: {file}: ")
    write_record(tmp_path / "r.tar.gz", ID, {"a.txt": b"x"})
    with pytest.raises(UsageError, match="hosts that were not accepted"):
        read_golden(tmp_path / "r.tar.gz")
    data = bytearray((tmp_path / "r.tar.gz").read_bytes())
    (tmp_path / "r.tar.gz").write_bytes(bytes(data[:-4]))
    with pytest.raises(UsageError, match="cut short"):
        read_golden(tmp_path / "r.tar.gz")
