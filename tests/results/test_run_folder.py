"""The run folder: what is written is read back, what is damaged is refused."""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.contract.columnar import pack
from hwcheck.contract.load_run import LoadRun, Series
from hwcheck.contract.reasons import NONE, VISIT_ENDED, Reason
from hwcheck.contract.wire import CheckResult, Leg, Report, Sample, SizeTiming, to_dict
from hwcheck.errors import UsageError
from hwcheck.results.files import DiskError
from hwcheck.results.run_folder import (
    CUT_OFF,
    UNDER_WAY,
    HostPlan,
    HostRecord,
    RunFolder,
    RunMeta,
    folder_name,
    read_run,
    read_series,
    write_rendered,
)
from hwcheck.results.schema_check import schema_problem
from hwcheck.results.series import VisitSeries
from tests.small_disk import fill

LEG = Leg("all_reduce", "net", "gloo", 2, "done", sizes=(SizeTiming(8, 20, 1, 2, 0.1, 3, 3, 0),))
REPORT = Report(
    {"hostname": "n", "gpus": [{"index": 0, "name": "A"}]},
    (
        CheckResult(
            "power_cap", "done", NONE, (Sample("power_limit_w", 700.0, "W", "gpu0"),), (LEG,)
        ),
    ),
)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    hosts = (HostPlan("node01", "192.0.2.1", {"gpus": 8}), HostPlan("node02", "192.0.2.2"))
    return RunFolder.create(tmp_path / "runs", RunMeta("", "", ("power_cap",), hosts))


def test_what_is_written_is_read_back(folder: RunFolder) -> None:
    record = HostRecord("node01", "reported", started="now", duration_s=2.5, report=REPORT)
    folder.write_host(record)
    folder.finish(interrupted=True)
    run = read_run(folder.path)
    assert run.meta == folder.meta
    assert run.meta.interrupted
    assert run.meta.finished
    assert run.records[0] == record
    assert (run.records[1].host, run.records[1].state) == ("node02", "not_visited")


def test_the_series_of_a_load(folder: RunFolder) -> None:
    load = LoadRun("cuda", "torch", (), Series((0.0, 0.2), {"gpu0": {"power_w": (70, None)}}), 1, 2)
    folder.write_series("node01", pack(load))
    assert read_series(folder.path, "node01") == VisitSeries(load)
    assert read_series(folder.path, "node02") is None


def test_a_damaged_series_is_refused(folder: RunFolder) -> None:
    folder.write_series("node01", {"backend": "cuda"})
    with pytest.raises(UsageError, match=r"damaged run folder: .*series/node01\.json: "):
        read_series(folder.path, "node01")


def test_a_run_that_never_ended_can_be_read(folder: RunFolder) -> None:
    run = read_run(folder.path)
    assert run.meta.finished == ""
    assert {record.state for record in run.records} == {"not_visited"}
    assert (
        "the run itself ended before its turn, or as its visit began" in run.records[0].reason.text
    )


def test_a_host_that_was_under_way_when_the_run_died_says_so(folder: RunFolder) -> None:
    folder.write_host(HostRecord("node01", "lost", UNDER_WAY))
    folder.write_host(HostRecord("node02", "partial", UNDER_WAY, "run", report=REPORT))
    assert [record.reason for record in read_run(folder.path).records] == [CUT_OFF, CUT_OFF]


def test_a_run_that_was_stopped_says_so_of_a_host_without_a_record(folder: RunFolder) -> None:
    folder.finish(interrupted=True)
    assert read_run(folder.path).records[0].reason == Reason(
        VISIT_ENDED, "the run was stopped before its turn"
    )


def test_a_host_that_is_gone_from_a_whole_run_is_damage(folder: RunFolder) -> None:
    folder.write_host(HostRecord("node01", "reported", report=REPORT))
    folder.finish(interrupted=False)
    with pytest.raises(UsageError, match=r"damaged run folder: .*/nodes/node02\.json: missing"):
        read_run(folder.path)


def test_a_run_without_visits_has_no_records(tmp_path: Path) -> None:
    meta = RunMeta("", "", (), (HostPlan("node01", "192.0.2.1"),))
    folder = RunFolder.create(tmp_path / "runs", meta)
    folder.finish(interrupted=False)
    assert read_run(folder.path).records[0].state == "not_visited"


def test_files_on_disk_match_the_schema(folder: RunFolder) -> None:
    folder.write_host(HostRecord("node01", "reported", report=REPORT))
    assert schema_problem(json.loads((folder.path / "run.json").read_text()), "run") == ""
    host = json.loads((folder.path / "nodes" / "node01.json").read_text())
    assert schema_problem(host, "host") == ""


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"protocol": 2}, "protocol: must be one of [1], not 2"),
        ({"results": {}}, "results: must be array, not {}"),
        ({"extra": 1}, "top level: must not contain {'extra'} properties"),
        ({"facts": {"a": {"nested": 1}}}, "facts/a: "),
        ({"facts": {"a": "x" * 501}}, "facts/a: "),
        ({"facts": {"a": float("inf")}}, "facts/a: "),
        ({"duration_s": float("inf")}, "duration_s: "),
    ],
)
def test_an_answer_of_the_wrong_shape_is_named(change: dict, problem: str) -> None:
    assert schema_problem(to_dict(REPORT), "report") == ""
    assert problem in schema_problem(to_dict(REPORT) | change, "report")


SAMPLE = Sample("power_limit_w", 700.0, "W", "gpu0")


@pytest.mark.parametrize(
    ("results", "problem"),
    [
        ((CheckResult("a", "done"), CheckResult("a", "busy")), "result 'a' is there twice"),
        (
            (CheckResult("a", "done", samples=(SAMPLE, replace(SAMPLE, value=400.0))),),
            "sample ('power_limit_w', 'gpu0') is there twice",
        ),
        (
            (CheckResult("a", "done", legs=(LEG, replace(LEG, state="hang"))),),
            "leg ('all_reduce', 'net') is there twice",
        ),
        ((CheckResult("a", "done"), CheckResult("b", "done", samples=(SAMPLE,))), ""),
    ],
    ids=["result", "sample", "leg", "none"],
)
def test_what_is_there_twice_is_refused(
    folder: RunFolder, results: tuple[CheckResult, ...], problem: str
) -> None:
    folder.write_host(HostRecord("node01", "reported", report=Report({}, results)))
    assert schema_problem(to_dict(Report({}, results)), "report") == problem
    if problem:
        with pytest.raises(UsageError, match="is there twice"):
            read_run(folder.path)


def test_a_host_that_is_planned_twice_is_refused(folder: RunFolder) -> None:
    run = json.loads((folder.path / "run.json").read_text())
    run["hosts"].append(run["hosts"][0])
    (folder.path / "run.json").write_text(json.dumps(run))
    with pytest.raises(UsageError, match="host 'node01' is there twice"):
        read_run(folder.path)


@pytest.mark.parametrize("name", ["../../elsewhere", "..", "a/b", "<b>", ""])
def test_a_run_whose_id_names_another_place_is_refused(folder: RunFolder, name: str) -> None:
    """An acceptance and the history find the folder of a run by it."""
    run = json.loads((folder.path / "run.json").read_text()) | {"id": name}
    (folder.path / "run.json").write_text(json.dumps(run))
    with pytest.raises(UsageError, match=r"damaged run folder: .*: id: must match pattern"):
        read_run(folder.path)


def test_a_log_grows(folder: RunFolder) -> None:
    folder.append_log("node01", "one\n")
    folder.append_log("node01", "two\n")
    assert (folder.path / "nodes" / "node01.log").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("link", ["nccl", "nccl/group1"])
@pytest.mark.parametrize("files", [{"nccl/group1/nccl.conf": "new"}, {}])
def test_nothing_is_rendered_or_removed_through_a_link(
    tmp_path: Path, link: str, files: dict[str, str]
) -> None:
    home, run = tmp_path / "home", tmp_path / "run"
    for kept in (home / "nccl.conf", home / "group1/nccl.conf"):
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("precious")
    (run / link).parent.mkdir(parents=True)
    (run / link).symlink_to(home)
    write_rendered(run, files, anew="nccl")
    assert (home / "nccl.conf").read_text() == "precious"
    assert (home / "group1/nccl.conf").read_text() == "precious"
    assert not (run / link).is_symlink()
    for name, text in files.items():
        assert (run / name).read_text() == text


def test_rendered_files_replace_the_old(folder: RunFolder) -> None:
    write_rendered(folder.path, {"report.md": "old"})
    write_rendered(folder.path, {"report.md": "new"})
    assert (folder.path / "report.md").read_text() == "new"
    assert not list(folder.path.glob("*.new"))


@pytest.mark.parametrize(
    ("file", "content", "text"),
    [
        ("run.json", None, "not a run folder"),
        ("run.json", "{", "not JSON"),
        ("run.json", "[]", r"top level: must be object, not \[\]"),
        ("run.json", '{"format": 2}', "damaged run folder"),
        ("nodes/node01.json", "\x00\xff", "not JSON"),
        ("nodes/node01.json", '{"host": "node01"}', "top level: lacks state, reason"),
        ("nodes/node01.json", "[" * 100_000, "not JSON"),
    ],
)
def test_a_damaged_folder_is_one_line_that_names_the_file(
    folder: RunFolder, file: str, content: str | None, text: str
) -> None:
    path = folder.path / file
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(UsageError, match=text) as caught:
        read_run(folder.path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_about_another_host_is_refused(folder: RunFolder) -> None:
    folder.write_host(HostRecord("node02", "reported", report=REPORT))
    (folder.path / "nodes" / "node02.json").rename(folder.path / "nodes" / "node01.json")
    with pytest.raises(UsageError, match="it is about 'node02'"):
        read_run(folder.path)


def test_text_that_is_no_unicode_can_be_written(folder: RunFolder) -> None:
    folder.write_host(HostRecord("node01", "lost", Reason("not_measured", "\ud800")))
    assert read_run(folder.path).records[0].reason.text == "\ud800"
    write_rendered(folder.path, {"report.md": "\ud800"})


def test_an_unwritable_place_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    meta = RunMeta("", "", ("power_cap",), (HostPlan("a", "a"),))
    with pytest.raises(UsageError, match="cannot create the run folder"):
        RunFolder.create(file, meta)
    assert os.listdir(tmp_path) == ["file"]


def test_a_full_disk_leaves_no_half_of_a_run_folder(small_disk: Path) -> None:
    fill(small_disk)
    meta = RunMeta("", "", ("power_cap",), (HostPlan("a", "a"),))
    out = small_disk / "made" / "runs"
    with pytest.raises(UsageError, match=r"cannot create the run folder: .*: No space left on dev"):
        RunFolder.create(out, meta)
    assert os.listdir(small_disk) == ["filler"]


def test_a_disk_that_fills_up_keeps_what_is_there(small_disk: Path) -> None:
    hosts = (HostPlan("node01", "a"), HostPlan("node02", "b"))
    folder = RunFolder.create(small_disk, RunMeta("", "", ("power_cap",), hosts))
    folder.write_host(HostRecord("node01", "reported", report=REPORT))
    fill(small_disk)
    said = f"^cannot write to the run folder: {folder.path}: No space left on device; make room"
    for write in (
        lambda: folder.write_host(HostRecord("node01", "lost")),
        lambda: folder.append_log("node01", "text"),
        lambda: folder.finish(interrupted=False),
        lambda: write_rendered(folder.path, {"report.md": "text"}),
    ):
        with pytest.raises(DiskError, match=said):
            write()
    assert not list(small_disk.rglob("*.new"))
    assert read_run(folder.path).records[0].state == "reported"


@pytest.mark.parametrize("state", ["reported", "partial"])
def test_an_answer_without_a_report_is_damaged(folder: RunFolder, state: str) -> None:
    folder.write_host(HostRecord("node01", state))
    with pytest.raises(UsageError, match=r"node01\.json: report: must be object, not null"):
        read_run(folder.path)


@pytest.mark.parametrize("expect", [{"gpus": "x"}, {"gpus": None}, {"new": [8]}, {"kernel": ""}])
def test_an_expectation_of_the_wrong_kind_is_damaged(
    folder: RunFolder, expect: dict[str, object]
) -> None:
    file = folder.path / "run.json"
    meta = json.loads(file.read_text())
    meta["hosts"][0]["expect"] = expect
    file.write_text(json.dumps(meta))
    with pytest.raises(UsageError, match=f"hosts/0/expect/{next(iter(expect))}: "):
        read_run(folder.path)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_no_json(folder: RunFolder, constant: str) -> None:
    folder.write_host(HostRecord("node01", "lost", duration_s=77.5))
    file = folder.path / "nodes" / "node01.json"
    file.write_text(file.read_text().replace("77.5", constant))
    with pytest.raises(UsageError, match=f"not JSON .{constant} is no JSON"):
        read_run(folder.path)


def test_a_run_that_could_not_be_read_back_is_not_begun(tmp_path: Path) -> None:
    hosts = (HostPlan("n" * 201, "192.0.2.1"),)
    with pytest.raises(UsageError, match="this run cannot be recorded: hosts/0/name: "):
        RunFolder.create(tmp_path / "runs", RunMeta("", "", (), hosts))
    assert list(tmp_path.iterdir()) == []


def test_long_arguments_are_read_back(tmp_path: Path) -> None:
    meta = RunMeta("", "", (), (HostPlan("a", "b"),), inventory="a," * 60_000, limit="a:" * 60_000)
    assert read_run(RunFolder.create(tmp_path, meta).path).meta.inventory == "a," * 60_000


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["FIFO", "device", "link", "folder"])
@pytest.mark.parametrize("file", ["run.json", "nodes/node01.json", "again/nodes/node01.json"])
def test_what_is_no_plain_file_is_refused(folder: RunFolder, file: str, kind: str) -> None:
    path = folder.path / file
    text = (folder.path / "run.json").read_text()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "device":
        if os.geteuid() != 0:
            pytest.skip("only root makes a device")
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero never ends
    elif kind == "folder":
        path.mkdir()
    else:
        (folder.path / "elsewhere.json").write_text(text)
        path.symlink_to(folder.path / "elsewhere.json")
    reason = "a symbolic link" if kind == "link" else "not a file"
    with pytest.raises(UsageError, match=f"damaged run folder: .*/{file}: {reason}"):
        read_run(folder.path)


def test_a_folder_of_it_that_is_a_link_is_refused(folder: RunFolder) -> None:
    (folder.path / "nodes").rename(folder.path / "moved")
    (folder.path / "nodes").symlink_to("moved")
    with pytest.raises(UsageError, match="a symbolic link"):
        read_run(folder.path)


def test_a_link_to_the_whole_folder_is_read(folder: RunFolder) -> None:
    latest = folder.path.parent / "latest"
    latest.symlink_to(folder.path)
    assert read_run(latest).meta == read_run(folder.path).meta


def test_runs_of_one_second_sort_as_they_began(tmp_path: Path) -> None:
    names = []
    for _ in range(20):
        names.append(folder_name("2026-01-31T12:00:00Z", tmp_path))
        (tmp_path / names[-1]).mkdir()
    (tmp_path / "20260131T120000Z-notes").mkdir()
    assert names == sorted(set(names))
    assert folder_name("2026-01-31T12:00:01Z", tmp_path) > names[-1]
