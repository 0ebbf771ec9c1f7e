"""Files found and read, whatever is in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.explain import sources
from hwcheck.explain.sources import files, source


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_a_folder_is_read_by_name_without_what_is_hidden(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", ".hidden"):
        write(tmp_path / name, b"text\n")
    for folder in ("sub", ".git"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "c.txt", b"text\n")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    names = [str(Path(each.name).relative_to(tmp_path)) for each in files(tmp_path)]
    assert names == ["a.txt", "b.txt", "sub/c.txt"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    found = source(write(tmp_path / "x", "tücke\n".encode(encoding)))
    assert (found.text, found.problem) == ("tücke\n", "")


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    assert source(write(tmp_path / "x", b"caf\xe9 bar\n")).text == "caf\ufffd bar\n"


def test_a_few_nuls_are_left_out_and_said(tmp_path: Path) -> None:
    found = source(write(tmp_path / "x", b"row\n" * 100 + b"\0" * 4))
    assert "\0" not in found.text
    assert found.notes == ("4 NUL characters left out",)


@pytest.mark.parametrize("data", [bytes(range(256)) * 100, b"\0" * 1000, b"\x7fELF\x02\x01\0\0\0"])
def test_a_binary_file_is_not_read(tmp_path: Path, data: bytes) -> None:
    assert source(write(tmp_path / "x", data)).problem == "it is binary, not a log"


def test_an_empty_file(tmp_path: Path) -> None:
    assert source(write(tmp_path / "x", b"")).problem == "it is empty"


def test_a_large_file_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MOST_BYTES", 10)
    found = source(write(tmp_path / "x", b"0123456789abcdef"))
    assert found.text == "0123456789"
    assert found.notes == ("only its first 10 B of 16 B are read",)


def test_many_files_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MOST_FILES", 1)
    for name in "abc":
        write(tmp_path / name, b"x")
    *_, last = files(tmp_path)
    assert last.problem == "more files left out: at most 1 are read at once"


def test_what_cannot_be_read_in_a_folder_costs_only_itself(tmp_path: Path) -> None:
    write(tmp_path / "a", b"x")
    gone = tmp_path / "b"
    assert source(gone, must=False).problem == "it cannot be read: No such file or directory"


@pytest.mark.parametrize("kind", ["missing", "pipe", "empty folder"])
def test_a_path_that_holds_nothing_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "empty folder":
        path.mkdir()
    with pytest.raises(UsageError, match=f"^{path}"):
        list(files(path))
