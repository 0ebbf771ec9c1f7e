"""The payload's importer, asked directly: this process has a hwcheck of its own."""

from __future__ import annotations

import importlib.util
import stat
import traceback
from pathlib import Path
from types import ModuleType

import pytest

from hwcheck.node.importer import HEADER, PYNVML, SOURCES, Importer, install
from hwcheck.payload import joined, zip_files
from tests.small_disk import fill

MADE = {"hwcheck/made/__init__.py": "SELF = __name__\n", "hwcheck/made/up.py": "VALUE = 1\n"}


def payload(folder: Path, sources: dict[str, str] | None = None) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / "payload.pyz"
    files = {SOURCES: joined(sources or MADE), PYNVML: b"PYNVML = 1\n"}
    path.write_bytes(zip_files(files))
    return str(path)


def run(importer: Importer, name: str) -> ModuleType:
    spec = importer.find_spec(name)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    importer.exec_module(module)
    return module


def test_modules_and_packages(tmp_path: Path) -> None:
    path = payload(tmp_path)
    importer = Importer(path)
    package, module = run(importer, "hwcheck.made"), run(importer, "hwcheck.made.up")
    assert (package.SELF, module.VALUE) == ("hwcheck.made", 1)
    assert module.__file__ == f"{path}/hwcheck/made/up.py"
    assert (package.__path__, package.__package__) == ([f"{path}/hwcheck/made"], "hwcheck.made")
    assert run(importer, "pynvml").PYNVML == 1
    assert importer.modules_of("hwcheck.made") == ["up"]


@pytest.mark.parametrize("name", ["json", "hwcheck.made.down", "hwcheck", "hwchecks"])
def test_what_is_not_in_it_is_left_to_others(tmp_path: Path, name: str) -> None:
    assert Importer(payload(tmp_path)).find_spec(name) is None


def test_a_zip_of_plain_modules_is_left_to_python(tmp_path: Path) -> None:
    path = tmp_path / "plain.pyz"
    path.write_bytes(zip_files({"hwcheck/made.py": b""}))
    assert Importer(str(path)).find_spec("hwcheck.made") is None


def kept(tmp_path: Path) -> Path:
    path = tmp_path / "kept.code"
    importer = Importer(payload(tmp_path))
    run(importer, "hwcheck.made.up")
    importer.keep(str(path))
    return path


def test_what_was_kept_is_not_compiled_again(tmp_path: Path) -> None:
    path = kept(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    other = payload(tmp_path / "other", {"hwcheck/made/up.py": "VALUE = 2\n"})
    importer = Importer(other)
    importer.read(str(path))
    assert run(importer, "hwcheck.made.up").VALUE == 1, "the code that was kept"
    before = path.stat().st_mtime_ns
    importer.keep(str(path))
    assert path.stat().st_mtime_ns == before, "nothing new, so nothing is written"
    assert run(Importer(other), "hwcheck.made.up").VALUE == 2, "the control: nothing read"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(HEADER, b"3.7.0 of another make\n", 1),
        lambda data: b"",
    ],
)
def test_what_is_damaged_or_foreign_is_compiled_again(tmp_path: Path, damage: object) -> None:
    path = kept(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    importer = Importer(payload(tmp_path, {"hwcheck/made/up.py": "VALUE = 2\n"}))
    importer.read(str(path))
    assert run(importer, "hwcheck.made.up").VALUE == 2
    importer.keep(str(path))
    again = Importer(payload(tmp_path))
    again.read(str(path))
    assert run(again, "hwcheck.made.up").VALUE == 2, "what was written over the damaged file"


def test_a_folder_that_takes_nothing_costs_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    importer = Importer(payload(tmp_path))
    run(importer, "hwcheck.made.up")
    importer.keep(str(tmp_path / "none" / "kept.code"))
    said = capsys.readouterr().err
    assert said.startswith("hwcheck: compiled code is not kept: ")
    assert said.count("\n") == 1


def test_a_full_disk_is_left_as_it_was(
    tmp_path: Path, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    importer = Importer(payload(tmp_path))
    run(importer, "hwcheck.made.up")
    fill(small_disk)
    importer.keep(str(small_disk / "kept.code"))
    assert "No space left on device" in capsys.readouterr().err
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_a_traceback_shows_the_source(tmp_path: Path) -> None:
    importer = Importer(payload(tmp_path, {"hwcheck/made.py": "\nwrong = 1 / 0  # here\n"}))
    with pytest.raises(ZeroDivisionError) as caught:
        run(importer, "hwcheck.made")
    text = "".join(traceback.format_exception(caught.value))
    assert 'hwcheck/made.py", line 2' in text
    assert "wrong = 1 / 0  # here" in text


def test_one_importer_for_a_payload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    path = payload(tmp_path)
    assert install(path) is install(path)
    assert sum(isinstance(finder, Importer) for finder in sys.meta_path) == 1
