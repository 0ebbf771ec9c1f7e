from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hwcheck.connect.payload import Payload, bootstrap_arguments, build, zip_files
from tests.interpreters import interpreter

TOKEN = "t0k3n"
MAIN = b"""
import os, sys
def main(request, payload, load):
    sys.stdout.write("request %r %s %d\\n" % (request, payload, os.getpgrp() == os.getpid()))
    sys.stdout.flush()
    if request.get("crash"):
        raise RuntimeError("boom")
    return 7
"""
PAYLOAD = Payload.of(
    zip_files(
        {
            "hwcheck/__init__.py": b"",
            "hwcheck/node/__init__.py": b"",
            "hwcheck/checks/__init__.py": b"load = None",
            "hwcheck/node/main.py": MAIN,
        }
    )
)


def talk(
    home: Path,
    *,
    push: bytes = PAYLOAD.data,
    request: dict[str, Any] | None = None,
    before: bytes = b"",
    header: bytes | None = None,
    command: Sequence[str] = (sys.executable,),
    environment: dict[str, str] | None = None,
    preexec_fn: Any = None,
) -> tuple[list[dict[str, Any]], list[str], int]:
    """Run the bootstrap as a node would; return its frames, its other lines and its exit status."""
    body = json.dumps(request or {}).encode()
    if header is None:
        header = b"hwcheck %s %d %d\n" % (TOKEN.encode(), len(push), len(body))
    done = subprocess.run(
        [*command, *bootstrap_arguments(PAYLOAD.sha256, TOKEN)],
        input=before + header + push + body,
        capture_output=True,
        timeout=30,
        env=environment or {"HOME": str(home)},
        preexec_fn=preexec_fn,
    )
    mark = f"@hwcheck:{TOKEN} "
    lines = done.stdout.decode().splitlines()
    frames = [json.loads(line.removeprefix(mark)) for line in lines if line.startswith(mark)]
    return frames, [line for line in lines if not line.startswith(mark)], done.returncode


def cached(home: Path) -> Path:
    return home / ".cache" / "hwcheck" / PAYLOAD.sha256


def test_stores_the_payload_and_finds_it_the_next_time(tmp_path: Path) -> None:
    frames, lines, status = talk(tmp_path, request={"a": 1})
    path = cached(tmp_path)
    assert frames[0]["kind"] == "started"
    assert frames[0]["cached"] is False
    assert lines == [f"request {{'a': 1}} {path} 1"]
    assert status == 7
    for each in (path.parent, path, path / "hwcheck", path / "hwcheck/node/main.py"):
        assert stat.S_IMODE(each.stat().st_mode) & 0o077 == 0, f"{each} is ours alone"
    assert list(path.parent.iterdir()) == [path]
    frames, lines, status = talk(tmp_path, push=b"")
    assert frames[0]["cached"] is True
    assert (len(lines), status) == (1, 7)


def visit(home: Path, **environment: str) -> None:
    """Run the real payload once."""
    built = build()
    request = json.dumps({"token": TOKEN, "checks": ["driver"]}).encode()
    process = subprocess.Popen(
        [sys.executable, *bootstrap_arguments(built.sha256, TOKEN)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"HOME": str(home), **environment},
    )
    with process:
        assert process.stdin
        assert process.stdout
        hello = json.loads(process.stdout.readline().partition(b" ")[2])
        push = b"" if hello["cached"] else built.data
        head = f"hwcheck {TOKEN} {len(push)} {len(request)}\n".encode()
        process.stdin.write(head + push + request)
        process.stdin.flush()
        lines = [*process.stdout]  # stdin stays open until then: it is the lifeline
    assert "report" in [json.loads(line.partition(b" ")[2])["kind"] for line in lines]


def test_compiled_code_is_kept_beside_the_payload(tmp_path: Path) -> None:
    visit(tmp_path)
    cache = tmp_path / ".cache" / "hwcheck"
    assert [path.name for path in cache.iterdir()] == [build().sha256]
    compiled = cache / build().sha256 / "hwcheck/node/__pycache__"
    first = {path.name: path.stat().st_mtime_ns for path in compiled.iterdir()}
    assert first
    visit(tmp_path)
    again = {path.name: path.stat().st_mtime_ns for path in compiled.iterdir()}
    assert again == first, "nothing was compiled"
    damaged = next(compiled.iterdir())
    damaged.write_bytes(b"")
    visit(tmp_path)
    assert damaged.stat().st_size, "damaged, so compiled and kept again"


def test_a_login_that_wants_no_compiled_code_gets_it_in_the_cache(tmp_path: Path) -> None:
    visit(tmp_path, PYTHONDONTWRITEBYTECODE="1")
    cache = tmp_path / ".cache" / "hwcheck" / build().sha256
    assert list(cache.glob("hwcheck/node/__pycache__/*.pyc"))


def age(path: Path, days: float) -> None:
    then = time.time() - days * 86400
    os.utime(path, (then, then))


def test_a_push_removes_payloads_that_nobody_used_for_a_month(tmp_path: Path) -> None:
    folder = cached(tmp_path).parent
    folder.mkdir(parents=True, mode=0o700)
    names = {
        "a" * 64 + ".pyz": 31,  # of former versions
        "b" * 64 + ".pyz": 29,
        "a" * 64 + ".code": 31,
        "b" * 64 + ".code": 29,
        "A" * 64 + ".pyz": 31,
        "a" * 63 + ".pyz": 31,
        "c" * 64 + ".pyz.1.token": 31,
        "d" * 64 + ".pyz.1.token": 29,
        "c" * 64 + ".code.77": 31,
        "d" * 64 + ".code.77": 29,
        "c" * 64 + ".zip": 31,
        "c" * 64 + ".pyzzle": 31,
        "notes.txt": 400,
    }
    folders = {
        "e" * 64: 31,
        "f" * 64: 29,
        "e" * 63: 31,
        "E" * 64: 31,
        "e" * 64 + ".unpack.7.token": 31,
        "f" * 64 + ".unpack.7.token": 29,
        "e" * 64 + ".other": 31,
    }
    for name, days in names.items():
        (folder / name).write_text("")
        age(folder / name, days)
    for name, days in folders.items():
        (folder / name / "hwcheck").mkdir(parents=True)
        (folder / name / "hwcheck/file.py").write_text("")
        age(folder / name, days)
    _, lines, status = talk(tmp_path)
    assert (len(lines), status) == (1, 7)
    left = {path.name for path in folder.iterdir()}
    assert left == {*names, *folders, cached(tmp_path).name} - {
        "a" * 64 + ".pyz",
        "a" * 64 + ".code",
        "c" * 64 + ".pyz.1.token",
        "c" * 64 + ".code.77",
        "e" * 64,
        "e" * 64 + ".unpack.7.token",
    }


def test_a_payload_in_use_stays_young(tmp_path: Path) -> None:
    talk(tmp_path)
    age(cached(tmp_path), 31)
    talk(tmp_path, push=b"")
    assert time.time() - cached(tmp_path).stat().st_mtime < 3600


def test_an_old_payload_that_cannot_be_removed_spoils_nothing(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a file that its owner cannot remove")
    folder = cached(tmp_path).parent
    folder.mkdir(parents=True, mode=0o700)
    stuck, old = folder / ("0" * 64 + ".pyz"), folder / ("f" * 64 + ".pyz")
    for path in (stuck, old):
        path.write_text("")
        age(path, 31)
    subprocess.run(["mount", "--bind", stuck, stuck], check=True)  # unlink: device or resource busy
    try:
        _, lines, status = talk(tmp_path)
    finally:
        subprocess.run(["umount", "-l", stuck], check=True)
    assert (len(lines), status) == (1, 7)
    assert (stuck.exists(), old.exists()) == (True, False)


def test_a_payload_of_which_a_file_is_gone_is_removed_and_comes_anew(tmp_path: Path) -> None:
    talk(tmp_path)
    (cached(tmp_path) / "hwcheck/node/main.py").unlink()
    frames, lines, status = talk(tmp_path, push=b"")
    assert (frames[1]["kind"], frames[1]["phase"]) == ("error", "cache")
    assert frames[1]["reason"] == f"{cached(tmp_path)} had lost files and is removed: run again"
    assert (lines, status) == ([], 1)
    assert list(cached(tmp_path).parent.iterdir()) == []
    frames, lines, status = talk(tmp_path)
    assert (frames[0]["cached"], len(lines), status) == (False, 1, 7)


def test_a_payload_that_crashes_stays(tmp_path: Path) -> None:
    talk(tmp_path)
    talk(tmp_path, push=b"", request={"crash": True})
    assert list(cached(tmp_path).parent.iterdir()) == [cached(tmp_path)]


def test_an_old_payload_that_is_removed_in_part_keeps_no_good_name(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a file that its owner cannot remove")
    old = cached(tmp_path).parent / ("f" * 64)
    stuck = old / "hwcheck/stuck.py"
    stuck.parent.mkdir(parents=True)
    cached(tmp_path).parent.chmod(0o700)
    stuck.write_text("")
    subprocess.run(["mount", "--bind", stuck, stuck], check=True)  # unlink: device or resource busy
    age(old, 31)
    try:
        _, lines, status = talk(tmp_path)
    finally:
        (left,) = tmp_path.rglob("stuck.py")
        subprocess.run(["umount", "-l", left], check=True)
    assert (len(lines), status) == (1, 7)
    assert not old.exists()


def test_a_payload_that_others_can_write_is_refused(tmp_path: Path) -> None:
    talk(tmp_path)
    cached(tmp_path).chmod(0o770)
    (frame,), lines, _ = talk(tmp_path)
    assert (frame["kind"], frame["phase"]) == ("error", "cache")
    assert "is not ours alone" in frame["reason"]
    assert lines == []


def test_a_payload_of_somebody_else_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    talk(tmp_path)
    os.chown(cached(tmp_path), 12345, -1)
    (frame,), lines, _ = talk(tmp_path)
    assert "is not ours alone" in frame["reason"]
    assert lines == []


@pytest.mark.parametrize("target", ["elsewhere", "nowhere"])
def test_a_link_in_the_cache_is_not_followed(tmp_path: Path, target: str) -> None:
    talk(tmp_path)
    cached(tmp_path).rename(tmp_path / "elsewhere")
    cached(tmp_path).symlink_to(tmp_path / target)
    (frame,), lines, _ = talk(tmp_path)
    assert "is not a directory" in frame["reason"]
    assert lines == []


def test_of_several_that_unpack_at_once_all_run(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, *bootstrap_arguments(PAYLOAD.sha256, TOKEN)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"HOME": str(tmp_path)},
        )
        for _ in range(6)
    ]
    firsts = [process.stdout.readline() for process in processes if process.stdout]
    assert [b'"cached": false' in first for first in firsts] == [True] * 6, "none has it yet"
    header = b"hwcheck %s %d 2\n" % (TOKEN.encode(), len(PAYLOAD.data))
    with ThreadPoolExecutor(6) as pool:
        push = header + PAYLOAD.data + b"{}"
        answers = list(pool.map(lambda process: process.communicate(push, timeout=30), processes))
    assert [out.count(b"request {}") for out, _ in answers] == [1] * 6
    assert [process.returncode for process in processes] == [7] * 6
    assert list(cached(tmp_path).parent.iterdir()) == [cached(tmp_path)]


def test_a_damaged_push_is_refused(tmp_path: Path) -> None:
    frames, lines, status = talk(tmp_path, push=PAYLOAD.data[:-1] + b"x")
    assert frames[1] == {"kind": "error", "phase": "push", "reason": "the payload arrived damaged"}
    assert (lines, status) == ([], 1)
    assert list(cached(tmp_path).parent.iterdir()) == []


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_cache_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    cached(tmp_path).parent.mkdir(parents=True)
    cached(tmp_path).parent.chmod(mode)
    (frame,), lines, _ = talk(tmp_path)
    assert (frame["kind"], frame["phase"]) == ("error", "cache")
    assert "is not ours alone" in frame["reason"]
    assert lines == []


@pytest.mark.parametrize("mode", [0o707, 0o777])
def test_a_cache_folder_of_all_users_is_refused(tmp_path: Path, mode: int) -> None:
    talk(tmp_path)
    (tmp_path / ".cache").chmod(mode)
    (frame,), lines, _ = talk(tmp_path)
    assert frame["reason"] == f"{tmp_path / '.cache'} is not ours alone: chown it and chmod go-w it"
    assert lines == []


@pytest.mark.parametrize("mode", [0o770, 0o1777])
def test_a_cache_folder_in_which_nobody_else_can_put_ours_aside_is_taken(
    tmp_path: Path, mode: int
) -> None:
    talk(tmp_path)
    (tmp_path / ".cache").chmod(mode)
    _, lines, status = talk(tmp_path, push=b"")
    assert (len(lines), status) == (1, 7)


def test_a_home_that_others_can_write_is_refused_as_by_sshd(tmp_path: Path) -> None:
    talk(tmp_path)
    tmp_path.chmod(0o777)
    (frame,), lines, _ = talk(tmp_path, push=b"")
    assert frame["reason"] == f"{tmp_path} is not ours alone: chown it and chmod go-w it"
    assert lines == []


@pytest.mark.parametrize("folder", [".cache", ""])
def test_a_group_with_others_in_it_may_not_write_above_the_cache(
    tmp_path: Path, folder: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another group")
    talk(tmp_path)
    os.chown(tmp_path / folder, -1, 12345)
    (tmp_path / folder).chmod(0o770)
    (frame,), lines, _ = talk(tmp_path, push=b"")
    assert "is not ours alone" in frame["reason"]
    assert lines == []


# Runs what follows where these are the users and groups.
USERS = """
set -e
mount --bind "$1/passwd" /etc/passwd
mount --bind "$1/group" /etc/group
mount --bind "$1/home" /mnt
shift
exec "$@"
"""


@pytest.mark.parametrize(
    ("passwd", "group", "taken"),
    [
        ("", "alice:x:4711:", True),
        ("", "alice:x:4711:alice", True),
        ("", "alice:x:4711:alice,mallory", False),
        ("mallory:x:4712:4711::/:/bin/sh", "alice:x:4711:", False),
        ("", "staff:x:4711:", False),
    ],
)
def test_a_group_of_one_has_nobody_else_in_it(
    tmp_path: Path, passwd: str, group: str, taken: bool
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    (tmp_path / "passwd").write_text(
        f"root:x:0:0::/root:/bin/sh\nalice:x:4711:4711::/:/bin/sh\n{passwd}\n"
    )
    (tmp_path / "group").write_text(f"root:x:0:\n{group}\n")
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 4711, 4711)
    home.chmod(0o770)
    command = ["unshare", "--mount", "sh", "-c", USERS, "sh", str(tmp_path)]
    command += ["setpriv", "--reuid=4711", "--regid=4711", "--clear-groups", "/usr/bin/python3"]
    frames, _, status = talk(Path("/mnt"), command=command)
    assert (frames[0]["kind"] == "started", status == 7) == (taken, taken)
    if not taken:
        assert frames[0]["reason"] == "/mnt is not ours alone: chown it and chmod go-w it"


@pytest.mark.parametrize(("mode", "taken"), [(0o1777, True), (0o755, True), (0o777, False)])
def test_what_lies_on_another_disk_is_held_against_the_same(
    tmp_path: Path, mode: int, taken: bool
) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "disk" / "mine").mkdir(parents=True, mode=0o700)
    (tmp_path / "disk").chmod(mode)
    (tmp_path / "home" / ".cache").symlink_to(tmp_path / "disk" / "mine")
    frames, lines, status = talk(tmp_path / "home")
    assert (frames[0]["kind"] == "started", status == 7) == (taken, taken)
    if not taken:
        assert f"{tmp_path / 'disk'} is not ours alone" in frames[0]["reason"]
    else:
        assert lines == [f"request {{}} {tmp_path / 'disk/mine/hwcheck' / PAYLOAD.sha256} 1"]


def test_a_folder_above_of_somebody_else_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    talk(tmp_path)
    os.chown(tmp_path, 12345, -1)
    (frame,), lines, _ = talk(tmp_path, push=b"")
    assert "is not ours alone" in frame["reason"]
    assert lines == []


def test_a_cache_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    talk(tmp_path)
    os.chown(tmp_path / ".cache", 12345, -1)
    (frame,), lines, _ = talk(tmp_path)
    assert "is not ours alone" in frame["reason"]
    assert lines == []


def test_a_cache_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".cache").mkdir()
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / ".cache" / "hwcheck").symlink_to(tmp_path / "mine")
    (frame,), _, _ = talk(tmp_path)
    assert "is not a directory" in frame["reason"]


def test_a_missing_home_is_one_error(tmp_path: Path) -> None:
    (frame,), _, status = talk(tmp_path / "none")
    assert frame["reason"] == f"no home directory: {tmp_path / 'none'}"
    assert status == 1


def test_a_full_disk_is_one_error(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    frames, lines, _ = talk(tmp_path, preexec_fn=limit)
    assert frames[1]["phase"] == "cache"
    assert "File too large" in frames[1]["reason"]
    assert frames[1]["reason"].endswith("; make room, or let this user write to ~/.cache/hwcheck")
    assert lines == []
    assert list(cached(tmp_path).parent.iterdir()) == []


def test_a_home_that_cannot_be_written_to_is_one_error(tmp_path: Path) -> None:
    (tmp_path / ".cache").write_text("a file")
    (frame,), lines, _ = talk(tmp_path)
    assert frame["phase"] == "cache"
    assert frame["reason"].endswith("; make room, or let this user write to ~/.cache/hwcheck")
    assert lines == []


def test_lines_before_the_header_are_dropped(tmp_path: Path) -> None:
    before = b"a password\nhwcheck other 1 1\n" + b"x" * 10_000 + b"\n"
    _, lines, status = talk(tmp_path, before=before)
    assert (len(lines), status) == (1, 7)


@pytest.mark.parametrize("header", [b"", b"hwcheck t0k3n 999999 2\n"])
def test_ends_when_the_controller_is_gone(tmp_path: Path, header: bytes) -> None:
    frames, _, status = talk(tmp_path, header=header, push=b"")
    assert frames[1]["reason"] == "the controller closed the connection"
    assert status == 1


def test_a_crash_of_the_payload_is_one_error(tmp_path: Path) -> None:
    frames, _, status = talk(tmp_path, request={"crash": True})
    assert frames[1]["phase"] == "run"
    assert "RuntimeError('boom'" in frames[1]["reason"]
    assert status == 1


def test_a_module_in_the_home_folder_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "zlib.py").write_text("raise SystemExit('caught')")
    (tmp_path / "json.py").write_text("raise SystemExit('caught')")
    done = subprocess.run(
        [sys.executable, *bootstrap_arguments(PAYLOAD.sha256, TOKEN)],
        input=b"",
        capture_output=True,
        cwd=tmp_path,
        env={"HOME": str(tmp_path)},
    )
    assert b"caught" not in done.stderr
    assert b"started" in done.stdout


@pytest.mark.parametrize("version", ["2.7", "3.6"])
def test_an_old_python_says_what_it_needs(tmp_path: Path, version: str) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    (frame,), lines, status = talk(tmp_path, command=[python])
    assert (frame["kind"], frame["phase"]) == ("error", "python")
    assert frame["reason"].startswith(f"needs Python 3.8 or newer, found {version}.")
    assert (lines, status) == ([], 1)
