"""What tests share: a stand-in for NVIDIA's library, a disk that is soon full."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from socket import AF_UNIX
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from tests import apart, choose

LONGEST = ("roles", "lab", "node")
"""These folders begin, so that no worker is left with a long file at the end."""
URGENT = -5
"""Niceness by which a test that is marked ``urgent`` differs from others."""


def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run in namespaces of our own, or give each worker of pytest-xdist such."""
    if hasattr(config, "workerinput"):
        return
    if config.getoption("tx", None):
        config.option.tx = apart.workers(len(config.option.tx))
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.suspend_global_capture(in_=True)
    apart.begin(config.invocation_params.args)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of ``make quick`` and ``make near``."""
    parser.addoption("--quick", action="store_true", help="only files that start no process")
    parser.addoption("--near", metavar="COMMIT", help="only tests near to what differs from it")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file that ``--quick`` or ``--near`` does not choose."""
    if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    if config.getoption("quick") and choose.starts_processes(collection_path):
        return True
    near = near_files(config.getoption("near"))
    return None if near is None or collection_path in near else True


@cache
def near_files(commit: str | None) -> set[Path] | None:
    """Return the files of tests near to what differs from a commit; None where none is named."""
    return None if commit is None else choose.near(choose.changed_files(commit))


def pytest_configure() -> None:
    """Let programs that tests start end by SIGINT: a shell's job in the background ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected, nor look at them later: they stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let files with urgent tests begin, then the longest."""
    here = Path(__file__).parent
    order = {folder: place for place, folder in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.relative_to(here).parts[0], len(LONGEST)))
    items.sort(key=lambda item: not has_urgent_tests(str(item.path)))
    items.sort(key=lambda item: item.get_closest_marker("alone") is None)


@cache
def has_urgent_tests(file: str) -> bool:
    """Whether a test of the file is marked so, or alone; who gives the tests out sees no marks."""
    text = Path(file).read_text("utf-8")
    return "mark.urgent" in text or "mark.alone" in text


class OneUrgentWorker(LoadFileScheduling):  # type: ignore[misc]
    """A worker gets whole files, and one worker all that have urgent tests.

    Of these only one runs at a time: on several workers, most would wait for each other.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return "urgent" if has_urgent_tests(str(self.config.rootpath / file)) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneUrgentWorker:
    """Give the tests out (pytest-xdist, Overview, Custom schedulers)."""
    return OneUrgentWorker(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let no other worker's test run beside one that is marked ``alone``.

    One that is marked ``urgent`` gets the processors before theirs, and has no other such beside
    it; where this user may not give it that, it runs alone.
    """
    if not has_workers():
        return (yield)
    # The folder of all workers of this run; pytest keeps no public name for it.
    folder = item.config._tmp_path_factory.getbasetemp().parent  # type: ignore[attr-defined]
    alone = item.get_closest_marker("alone") is not None
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with ExitStack() as stack:
        if item.get_closest_marker("urgent"):
            _lock(stack, folder / "urgent", fcntl.LOCK_EX)
            try:
                os.setpriority(os.PRIO_PROCESS, 0, usual + URGENT)
                stack.callback(os.setpriority, os.PRIO_PROCESS, 0, usual)
            except PermissionError:
                alone = True
        # Who waits to be alone is passed by nobody that comes later.
        with (folder / "turn").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            _lock(stack, folder / "alone", fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            fcntl.flock(turn, fcntl.LOCK_UN)
        return (yield)


def has_workers() -> bool:
    """Whether this process is one of several; what is beside its own folder is for all."""
    return "PYTEST_XDIST_WORKER" in os.environ


def _lock(stack: ExitStack, path: Path, how: int) -> None:
    """Hold a lock until the stack is left."""
    file = stack.enter_context(path.open("w"))
    fcntl.flock(file, how)
    # Not by closing it: a process that the test forked may have it open as well.
    stack.callback(fcntl.flock, file, fcntl.LOCK_UN)


@contextmanager
def ansible_server(kept: Path) -> Iterator[None]:
    """Let Ansible's programs and hwcheck be run by a server that has loaded what they import.

    ``kept`` is a folder for what one call leaves to the next (``server.py``). Not where another
    ansible-core is to be tried.
    """
    if "HWCHECK_TEST_ANSIBLE" in os.environ:
        yield
        return
    folder = Path(__file__).with_name("quick_ansible")
    with tempfile.TemporaryDirectory(prefix="hw-") as private, socket.socket(AF_UNIX) as listener:
        listener.bind(f"{private}/ansible")
        listener.listen(64)
        kept.mkdir(exist_ok=True)
        command = [sys.executable, folder / "server.py", str(listener.fileno()), kept]
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], start_new_session=True
        )
        with server, pytest.MonkeyPatch.context() as patch:
            patch.setenv("HWCHECK_TEST_ANSIBLE_SERVER", f"{private}/ansible")
            patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
            yield
            assert server.poll() is None, "the server of Ansible's programs has ended"
            assert server.stdin is not None
            server.stdin.close()


@pytest.fixture(scope="session", autouse=True)
def quick_ansible(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run Ansible's programs and hwcheck by their server; ``real_ansible`` starts them itself."""
    folder = tmp_path_factory.getbasetemp()
    with ansible_server((folder.parent if has_workers() else folder) / "ansible"):
        yield


@pytest.fixture
def real_ansible(quick_ansible: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start Ansible's programs, and hwcheck, as a user does."""
    monkeypatch.delenv("HWCHECK_TEST_ANSIBLE_SERVER", raising=False)


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``new`` and ``old``: NVML of a newer and an older driver."""
    if shutil.which("gcc") is None:
        assert os.environ.get("CI") != "true", "gcc is missing, and CI must not skip this"
        pytest.skip("gcc is needed to build a stand-in for libnvidia-ml")
    from tests.node import two_gpus  # here: it needs pynvml, and the GPU tests do not

    folder = tmp_path_factory.mktemp("nvml")
    two_gpus.write(folder / "new", older=False)
    two_gpus.write(folder / "old", older=True)
    return folder


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of its own with room for 32 KiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=32k,mode=700", "hwcheck-test", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        assert os.environ.get("CI") != "true", done.stderr
        pytest.skip(f"no small file system here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
