from __future__ import annotations

import os
from pathlib import Path

from hwcheck.node.host import tree


def test_absent_files_are_empty(tmp_path: Path) -> None:
    files = tree.Tree(str(tmp_path))
    assert files._text("etc/nothing") is None
    assert files._read("etc/nothing") == ""
    assert files._list("etc") == []
    assert not files._exists("etc")


def test_a_path_with_a_slash_is_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/b").write_bytes(b"caf\xe9")
    (tmp_path / "etc/a").write_text("")
    files = tree.Tree(str(tmp_path))
    assert files._read("/etc/b") == "caf\ufffd"
    assert files._text("/etc/a") == ""
    assert files._list("/etc") == ["a", "b"]


def test_a_link_out_of_the_root_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/in").symlink_to(tmp_path / "inner")
    (tmp_path / "inner/out").symlink_to(tmp_path)
    files = tree.Tree(str(tmp_path / "inner"))
    assert files._resolve("in") == str(tmp_path / "inner")
    assert files._resolve("out") == ""


def test_a_long_file_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "long"
    file.write_bytes(b"x" * 5000)
    assert tree.contents(str(file), 4096) == b"x" * 4096


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert tree.contents(str(tmp_path / "fifo")) == b""


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    assert tree.contents(str(tmp_path)) is None
