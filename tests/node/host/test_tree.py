from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.node.host import tree
from hwcheck.node.host.reader import NodeHost


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


READERS: dict[str, Callable[[NodeHost], object]] = {
    "proc/sys/kernel/numa_balancing": lambda host: host.kernel_setting("kernel/numa_balancing"),
    "proc/swaps": lambda host: host.swap_used_bytes(),
    "proc/self/mountinfo": lambda host: host.mounts(),
    "proc/meminfo": lambda host: host.memory_total_bytes(),
    "proc/uptime": lambda host: host.uptime_s(),
    "proc/driver/nvidia/params": lambda host: host.driver_parameter("x"),
    "sys/bus/pci/devices/0000:01:00.0/config": lambda host: host.pci_answers("0000:01:00.0"),
    "sys/bus/pci/devices/0000:01:00.0/aer_dev_fatal": lambda host: host.aer_errors("0000:01:00.0"),
}


@pytest.mark.parametrize("path", READERS)
@pytest.mark.parametrize(
    ("number", "code"), [(errno.EACCES, "no_permission"), (errno.EIO, "not_measured")]
)
@pytest.mark.parametrize("refusing", ["open", "read"])
def test_what_refuses_a_file_is_the_code_of_the_reason(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    number: int,
    code: str,
    refusing: str,
) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text("x")
    opened: set[int] = set()
    real_open, real_read = os.open, os.read

    def open_(name: Any, *args: Any, **options: Any) -> int:
        if str(name) != str(file):
            return real_open(name, *args, **options)
        if refusing == "open":
            raise OSError(number, os.strerror(number))
        opened.add(descriptor := real_open(name, *args, **options))
        return descriptor

    def read(descriptor: int, size: int) -> bytes:
        if descriptor in opened:
            raise OSError(number, os.strerror(number))
        return real_read(descriptor, size)

    monkeypatch.setattr(os, "open", open_)
    monkeypatch.setattr(os, "read", read)
    with pytest.raises(CouldNotMeasure) as raised:
        READERS[path](NodeHost(str(tmp_path)))
    assert raised.value.reason.code == code


def test_a_file_that_can_be_read_and_says_nothing_is_not_refused(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/uptime").write_text("")
    with pytest.raises(CouldNotMeasure) as raised:
        NodeHost(str(tmp_path)).uptime_s()
    assert raised.value.reason.code == "not_measured"
