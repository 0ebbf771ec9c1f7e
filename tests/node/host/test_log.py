from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.node.host import log
from hwcheck.node.host.reader import NodeHost
from tests.node.roots import Root

WORDS = ("NVRM: Xid",)
XID = "NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus."
KMSG = (
    "5,0,0,-;Linux version 6.8.0-31-generic (buildd@host)\n"
    "6,1,2500000,-;nvidia: loading\n"
    f"3,2,90000000,-;{XID}\n"
    " SUBSYSTEM=pci\n"
    " DEVICE=+pci:0000:18:00.0\n"
    "4,3,95000000,c;NVRM: other\n"
)
MONOTONIC = (
    "[    0.000000] node kernel: Linux version 6.8.0\n"
    f"[   90.000000] node kernel: {XID}\n"
    "[   91.000000] node systemd[1]: not the kernel: NVRM: Xid\n"
)
SYSLOG = (
    f"Nov 20 09:00:00 node kernel: [  50.000000] {XID}\n"
    "Nov 21 10:00:00 node kernel: [    0.000000] Linux version 6.8.0\n"
    f"Nov 21 10:00:01 node user[7]: kernel: [   80.000000] {XID}\n"
    f"2026-11-21T10:01:30.5+00:00 node kernel: [   90.000000] {XID}\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.write("proc/uptime", "100.00 700.00\n")
    return root


def read(root: Root) -> tuple[list[tuple[str, float]], bool, float]:
    kernel = root.host.kernel_log(WORDS)
    messages = [(message.text, message.age_s) for message in kernel.messages]
    return messages, kernel.complete, kernel.reach_s


def test_the_kernels_buffer(root: Root) -> None:
    root.write("dev/kmsg", KMSG)
    assert read(root) == ([(XID, 10.0)], True, 100.0)


def test_a_buffer_that_lost_its_beginning(root: Root) -> None:
    root.write("dev/kmsg", KMSG.split("\n", 1)[1])
    assert read(root) == ([(XID, 10.0)], False, 97.5)


def test_a_file_tells_what_the_buffer_has_lost(root: Root) -> None:
    root.write("dev/kmsg", f"4,900,85000000,-;filler\n3,901,90000000,-;{XID}\n")
    root.write("var/log/kern.log", f"{SYSLOG}2026-11-21T10:01:31+00:00 node kernel: [ 91.0] more\n")
    assert read(root) == ([(XID, 10.0)], True, 100.0)
    root.write("var/log/kern.log", SYSLOG.replace("   90.0", "   30.0") + SYSLOG.split("\n")[-2])
    assert read(root) == ([(XID, 70.0), (XID, 10.0)], True, 100.0)


def test_a_file_that_somebody_stopped_writing_leaves_a_hole(root: Root) -> None:
    root.write("dev/kmsg", f"3,900,95000000,-;{XID}\n")
    root.write("var/log/kern.log", SYSLOG)
    assert read(root) == ([(XID, 5.0)], False, 5.0)
    more = "2026-11-21T10:01:35+00:00 node kernel: [ 95.0] more\n"
    root.write("var/log/syslog", SYSLOG.split("\n", 2)[2] + more)  # not so far, and without a hole
    assert read(root) == ([(XID, 10.0), (XID, 5.0)], False, 10.0)


def test_a_file_that_lost_its_beginning_too_counts_as_far_as_it_goes(root: Root) -> None:
    lines = SYSLOG.split("\n", 2)[2]
    root.write("dev/kmsg", KMSG.split("\n", 1)[1])
    root.write("var/log/messages", lines)
    assert read(root) == ([(XID, 10.0)], False, 97.5)
    root.write("dev/kmsg", "4,900,85000000,-;filler\n")
    root.write("var/log/messages", lines.replace("   90.0", "   30.0") + lines)
    assert read(root) == ([(XID, 70.0)], False, 70.0)


def test_a_file_of_another_boot_is_none(root: Root) -> None:
    root.write("dev/kmsg", f"3,900,95000000,-;{XID}\n")
    root.write("var/log/syslog", SYSLOG.replace("Linux version", "no beginning"))
    long_ago = time.time() - 200
    os.utime(root.path / "var/log/syslog", (long_ago, long_ago))
    assert read(root) == ([(XID, 5.0)], False, 5.0)


def test_a_text_file_holds_other_boots_and_programs(root: Root) -> None:
    root.write("var/log/messages", SYSLOG)
    assert read(root) == ([(XID, 10.0)], True, 100.0)


def test_only_the_end_of_a_long_file_is_read(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "READ_LIMIT_BYTES", 150)
    root.write("var/log/syslog", SYSLOG)
    assert read(root) == ([(XID, 10.0)], False, 10.0)


def test_a_long_buffer_is_bounded(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "READ_LIMIT_BYTES", 8192)
    root.write("dev/kmsg", KMSG + "6,4,96000000,-;filler\n" * 2000 + f"3,5,97000000,-;{XID}\n")
    assert read(root) == ([(XID, 10.0)], True, 100.0)


def test_no_log_at_all(root: Root) -> None:
    with pytest.raises(CouldNotMeasure, match="kernel log cannot be read"):
        root.host.kernel_log(WORDS)


def test_a_log_without_a_kernel_line_is_none(root: Root) -> None:
    root.write("var/log/syslog", "Nov 21 10:00:01 node sshd[7]: session opened\n")
    with pytest.raises(CouldNotMeasure, match="kernel log cannot be read"):
        root.host.kernel_log(WORDS)


def test_without_uptime_there_is_no_age(root: Root) -> None:
    root.write("dev/kmsg", KMSG)
    (root.path / "proc/uptime").unlink()
    with pytest.raises(CouldNotMeasure, match="uptime"):
        root.host.kernel_log(WORDS)


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a journalctl of our own first in PATH, and take the kernel's buffer away."""
    script = tmp_path / "bin/journalctl"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\ncat <<'E'\n" + MONOTONIC + "E\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(log.LogReader, "_buffer", lambda self: ([], False))
    monkeypatch.setattr(log, "TEXT_FILES", ())
    monkeypatch.setattr(log.LogReader, "uptime_s", lambda self: 100.0)
    return script


def test_the_journal_stands_in(journal: Path) -> None:
    log = NodeHost().kernel_log(WORDS)
    assert [(m.text, m.age_s) for m in log.messages] == [(XID, 10.0)]
    assert log.complete


def test_the_journal_of_this_machine_is_not_that_of_another_root(journal: Path, root: Root) -> None:
    with pytest.raises(CouldNotMeasure, match="kernel log cannot be read"):
        root.host.kernel_log(WORDS)


def test_a_journal_that_hangs_is_given_up(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(log, "TIME_LIMIT_S", 0.2)
    with pytest.raises(CouldNotMeasure, match="kernel log cannot be read"):
        NodeHost().kernel_log(WORDS)


def test_a_journal_that_may_not_be_read_is_empty(journal: Path) -> None:
    journal.write_text("#!/bin/sh\necho 'Hint: you are not in the group' >&2\n")
    with pytest.raises(CouldNotMeasure, match="group adm"):
        NodeHost().kernel_log(WORDS)


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="needs /dev/kmsg")
def test_the_buffer_of_this_machine() -> None:
    try:
        log = NodeHost().kernel_log(("",))
    except CouldNotMeasure:
        assert os.geteuid() != 0 or os.path.exists("/.dockerenv")
        return
    assert log.messages
    assert all(message.age_s >= 0 for message in log.messages)
