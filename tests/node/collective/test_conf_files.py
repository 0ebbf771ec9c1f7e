"""The files that NCCL reads whatever a leg's environment is."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from hwcheck.contract.collective_spec import SYSTEM_CONF_NOTE, USER_CONF_NOTE
from hwcheck.node.collective import conf_files

OLD, NEW = "NCCL 2.22.3", "NCCL 2.23.4"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    conf = tmp_path / "nccl.conf"
    monkeypatch.setattr(conf_files, "SYSTEM_CONF", str(conf))
    return conf


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: Path) -> Path:
    """The home folder of the user database; HOME is another one, without the file."""
    folder = tmp_path / "home"
    folder.mkdir()
    entry = pwd.getpwuid(os.getuid())
    there = pwd.struct_passwd((*entry[:5], str(folder), entry[6]))
    monkeypatch.setattr(conf_files.pwd, "getpwuid", lambda uid: there)
    monkeypatch.setenv("HOME", str(tmp_path))
    return folder


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ("NCCL_P2P_DISABLE=1\n", True),
        ("# a comment with a = in it\n", False),
        ("", False),
        (None, False),
    ],
)
def test_a_file_of_the_system_that_sets_something_is_noted(
    home: Path, system: Path, text: str | None, noted: bool
) -> None:
    if text is not None:
        system.write_text(text)
    for library in (OLD, NEW, ""):
        assert conf_files.notes(library) == ((SYSTEM_CONF_NOTE,) if noted else ())


def test_a_file_that_cannot_be_read_is_noted(home: Path, system: Path) -> None:
    system.mkdir()  # reading it fails
    assert conf_files.notes(NEW) == (SYSTEM_CONF_NOTE,)


@pytest.mark.parametrize(
    ("library", "noted"),
    [(OLD, True), ("2.18.5", True), (NEW, False), ("NCCL 2.30.7", False), ("", False)],
)
def test_a_personal_file_is_noted_where_nccl_cannot_be_kept_from_it(
    home: Path, library: str, noted: bool
) -> None:
    (home / ".nccl.conf").write_text("NCCL_P2P_LEVEL=LOC\n")
    assert conf_files.notes(library) == ((USER_CONF_NOTE,) if noted else ())


def test_a_user_without_a_home_has_no_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(conf_files.pwd, "getpwuid", nobody)
    assert conf_files.notes(OLD) == ()
