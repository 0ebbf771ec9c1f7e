"""What is typed after ``accept``: refused in one line, and nothing is written."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.cli.command import path_of
from hwcheck.cli.program import run
from hwcheck.cli.root import call, parse
from hwcheck.fleet.accept.criteria import parse_criteria
from hwcheck.fleet.accept.record import write_record
from hwcheck.fleet.sweep.state import Lock
from hwcheck.results.run_folder import UNDER_WAY, RunFolder
from tests import factories

GOOD = """\
format: 1
name: order
requirements:
  - {id: R, text: right, source: order, stage: idle, checks: [xid]}
"""


@pytest.mark.parametrize(
    ("typed", "path", "flags"),
    [
        ("accept --hosts a", "accept run", {"hosts": "a"}),
        ("accept run --hosts a", "accept run", {"hosts": "a"}),
        ("accept --hosts a run", "accept run", {"hosts": "a"}),
        ("accept --out run --explain", "accept run", {"out": "run"}),
        ("accept verify a.tar.gz", "accept verify", {"archive": "a.tar.gz", "file": None}),
        ("accept sign a.tar.gz --key k", "accept sign", {"archive": "a.tar.gz", "key": "k"}),
        ("accept verify --file a.tar.gz", "accept verify", {"archive": None, "file": "a.tar.gz"}),
        ("validate --hosts accept", "validate", {"hosts": "accept"}),
        ("explain accept", "explain", {"path": "accept"}),
        ("sweep --hosts a run", "sweep run", {"hosts": "a"}),
    ],
)
def test_what_may_be_left_out(typed: str, path: str, flags: dict[str, object]) -> None:
    (ctx,) = parse(typed.split())
    assert path_of(ctx) == path
    assert flags.items() <= ctx.params.items()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yml").write_text(GOOD)
    state = GOOD.replace("idle, checks: [xid]", "state, roles: [nccls]")
    (tmp_path / "roles.yml").write_text(state)
    (tmp_path / "bad.yml").write_text(GOOD.replace("idle", "idel"))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("accpt", "accpt: no such command; did you mean accept?"),
        ("accept runn", "accept runn: it is one of run, status, record, rma, golden, sign, ver"),
        ("accept --hosts n1 --criteria none.yml", "--criteria none.yml: No such file"),
        ("accept --hosts n1 --criteria bad.yml", "bad.yml:4: stage: idel: no such word; did you"),
        ("accept --criteria good.yml", "no host is named"),
        ("accept status", "acceptance: no acceptance has begun here"),
        ("accept record --hosts n1", "no acceptance has begun here"),
        ("accept verify", "accept verify: name the archive"),
        ("accept verify none.tar.gz", "none.tar.gz: No such file"),
        ("accept verify good.yml", "good.yml: no record that can be trusted: not gzip"),
        ("accept sign good.yml --key k", "no record that can be trusted"),
        ("accept sign a.tar.gz", "accept sign: name the key"),
        ("accept status --key k", "--key: it goes with accept sign"),
        ("accept verify a.tar.gz --hosts n1", "--hosts: it goes with accept run, status, record"),
        ("accept --hosts n1 --forks 0", "--forks 0"),
        ("accept --hosts n1 --out=", "--out is empty"),
        ("accept golden", "acceptance: no acceptance has begun here"),
        ("accept criteria --gpu h100_smx", "--gpu h100_smx: no such GPU model; did you mean h100"),
        ("accept status --gpu h100_sxm", "--gpu: it goes with accept criteria"),
        ("accept status --attach here", "--attach: it goes with accept rma"),
        ("accept --hosts n1 --criteria roles.yml", "roles.yml: roles: nccls: no role with assert"),
        ("accept --hosts n1 --criteria h100_smx", "--criteria h100_smx: No such file"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    words: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.rglob("*"))
    with pytest.raises(SystemExit) as ended:
        run([*words.split()])
    said = capsys.readouterr().err
    assert ended.value.code == 2, said
    assert message in said
    assert len(said.strip().splitlines()) == 1
    assert sorted(folder.rglob("*")) == before


def begun(folder: Path) -> Path:
    """Return the folder of an acceptance that has begun."""
    made = folder / "acceptance"
    made.mkdir()
    (made / "criteria.yml").write_text(GOOD)
    about = {
        "format": 1,
        "id": "20270131T120000Z-abcdef",
        "started": "2027-01-31T12:00:00Z",
        "inventory": "n1,",
        "criteria": "good.yml",
        "sha256": parse_criteria(GOOD, "good.yml", shipped()).sha256,
        "version": "0.1.0",
    }
    (made / "acceptance.json").write_text(json.dumps(about))
    return made


def ended_with(words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        run([*words.split()])
    return int(str(ended.value.code)), capsys.readouterr().err


def test_the_criteria_of_an_acceptance_stay(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = begun(folder)
    (folder / "other.yml").write_text(GOOD.replace("right", "left"))
    code, said = ended_with("accept status --criteria other.yml --hosts n1,", capsys)
    assert code == 2
    assert "began with others (good.yml)" in said
    (made / "criteria.yml").write_text(GOOD.replace("right", "left"))
    code, said = ended_with("accept status --hosts n1,", capsys)
    assert code == 2
    assert "changed since the acceptance began" in said


def test_half_an_acceptance_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = begun(folder)
    (made / "acceptance.json").write_text('{"format": 1')
    code, said = ended_with("accept status", capsys)
    assert code == 2
    assert "acceptance.json: not JSON" in said


def test_two_acceptances_of_one_folder_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = begun(folder)
    with Lock(made, "acceptance", "n1,", "accept run"):
        code, said = ended_with("accept run --hosts n1,", capsys)
    assert code == 2
    assert "one at a time: accept run, since" in said
    assert not (made / "runs").exists()


def record_of(folder: Path, **about: object) -> Path:
    """Write a record that is whole, with this in its ``acceptance.json``."""
    made = begun(folder)
    data = {**json.loads((made / "acceptance.json").read_text()), **about}
    file = folder / "r.tar.gz"
    write_record(file, "r", {"acceptance.json": json.dumps(data).encode()})
    return file


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"format": 2, "version": "9.1"}, "made by hwcheck 9.1, which is newer than this: use"),
        ({"format": "x"}, "acceptance.json: format: must be integer"),
    ],
)
@pytest.mark.parametrize("words", ["accept verify r.tar.gz", "accept sign r.tar.gz --key key"])
def test_the_record_of_a_newer_version_is_neither_signed_nor_verified(
    words: str,
    about: dict[str, object],
    message: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    record_of(folder, **about)
    code, said = ended_with(words, capsys)
    assert code == 2
    assert message in said
    assert len(said.strip().splitlines()) == 1
    assert not (folder / "r.tar.gz.sig").exists()


def test_a_half_written_record_is_refused_and_a_whole_one_replaces_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = record_of(folder)
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    code, said = ended_with("accept sign r.tar.gz --key key", capsys)
    assert (code, "cut short" in said) == (2, True)
    assert not (folder / "r.tar.gz.sig").exists()
    shutil.rmtree(folder / "acceptance")
    assert record_of(folder).read_bytes() == whole


def test_a_signed_record_is_not_written_anew(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = begun(folder) / "20270131T120000Z-abcdef.tar.gz"
    archive.write_bytes(b"as it was signed")
    archive.with_name(archive.name + ".sig").write_text("")
    code, said = ended_with("accept record --hosts n1,", capsys)
    assert (code, "abcdef.tar.gz is signed: it stays as it is" in said) == (2, True)
    assert archive.read_bytes() == b"as it was signed"


def test_criteria_are_printed_to_be_edited(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["accept", "criteria", "--gpu", "h100_sxm"]) == 0
    text = capsys.readouterr().out
    criteria = parse_criteria(text, "order.yml", shipped())
    assert criteria.gpu == "h100_sxm"
    assert criteria.not_shown


def test_a_link_to_a_run_folder_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The record would have what the run says, and not the run."""
    made = begun(folder)
    (folder / "elsewhere").mkdir()
    (made / "runs").mkdir()
    (made / "runs/20270131T120000Z-abcdef").symlink_to(folder / "elsewhere")
    for words in ("accept status --hosts n1,", "accept record --hosts n1,", "accept --hosts n1,"):
        code, said = ended_with(words, capsys)
        assert code == 2
        assert "runs/20270131T120000Z-abcdef: a symbolic link; put the folder itself" in said
    assert list((folder / "elsewhere").iterdir()) == []


def test_what_another_call_measures_now_is_running_and_was_not_cut_off(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = begun(folder)
    meta = factories.run(factories.gpu_host("n1")).meta
    of_idle = {"id": "20270131T120000Z-abcdef", "stage": "idle"}
    run = RunFolder.create(made / "runs", replace(meta, finished="", acceptance=of_idle))
    run.write_host(replace(factories.record("n1", ()), state="partial", reason=UNDER_WAY))

    def status() -> str:
        call(["accept", "status", "--hosts", "n1,"])
        out, said = capsys.readouterr()
        assert not said
        return " ".join(out.split())

    with Lock(made, "acceptance", "n1,", "accept run"):
        running = status()
        code, refused = ended_with("accept record --hosts n1,", capsys)
    assert f"Running: idle on n1, since {run.meta.started}; accept run, since " in running
    assert "killed" not in running
    assert "Left: 12 s: idle 12 s (1 host, as planned)" in running
    assert (code, "one at a time: accept run, since" in refused) == (2, True)
    assert not list(made.glob("*.gz*"))
    after_a_kill = status()
    assert "Running" not in after_a_kill
    assert "under way when the run itself ended (killed, " in after_a_kill
