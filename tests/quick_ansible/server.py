"""Runs ansible-core, and hwcheck, in forks of a process that has loaded it.

usage: python server.py SOCKET FOLDER
  SOCKET  the number of one that listens
  FOLDER  keeps what a call has packed, compiled and parsed; servers may share it

Ansible reads its configuration while it is imported. So there is one process for each configuration
that callers have (``configuration`` in the client), which imports Ansible once and forks for every
call; hwcheck likewise (``quick_hwcheck.py``). All end when the standard input of the first does.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import importlib.resources
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from typing import Any, TextIO

from ansible import HERE, KEY_BYTES, forget, start, who

COMMANDS = ("ansible.cli.inventory", "ansible.cli.playbook")
HWCHECK = (
    *("matplotlib.backends.backend_svg", "matplotlib.figure", "numpy"),
    "hwcheck.provision.state.run",
)
SCRIPTS = (
    "hwcheck.checks.",
    "hwcheck.connect.bootstrap",
    "hwcheck.node.",
    "hwcheck.provision.state.",
)
"""Are not for the controller to import, or not all."""
KEPT = 8
"""So many configurations; the one that was used longest ago gives way."""


def serve(listener: socket.socket, kept: str) -> None:
    """Hand each call to the process of its configuration, until standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    loaded: dict[bytes, socket.socket] = {}
    while True:
        ready, _, _ = select.select([0, listener], [], [])
        if 0 in ready:
            return
        caller, _ = listener.accept()
        key, files, _, _ = socket.recv_fds(caller, KEY_BYTES, 3)
        if not files:  # it was killed before it could ask
            caller.close()
            continue
        calls = loaded.pop(key, None)
        if calls is None:
            if len(loaded) == KEPT:
                loaded.pop(next(iter(loaded))).close()
            calls, others = socket.socketpair()
            if os.fork() == 0:
                for each in (calls, listener, caller, *loaded.values()):
                    each.close()
                for file in files:
                    os.close(file)
                fork_for_each(others, kept)
                return
            others.close()
        try:
            socket.send_fds(calls, [b"\0"], [caller.fileno(), *files])
            loaded[key] = calls
        except BrokenPipeError:  # Ansible cannot be loaded so: the caller does it, and says why
            calls.close()
        caller.close()
        for file in files:
            os.close(file)


def fork_for_each(calls: socket.socket, kept: str) -> None:
    """Load Ansible as the first caller is configured; run each call in a process of its own."""
    loaded = False
    while True:
        _, fds, _, _ = socket.recv_fds(calls, 1, 4)
        if not fds:
            return
        caller = socket.socket(fileno=fds[0])
        line = caller.makefile("rb").readline()
        request = json.loads(line) if line.endswith(b"\n") else None  # or it was killed meanwhile
        if request and not loaded:
            if is_hwcheck(request):
                load_hwcheck(request)
            else:
                load(request, kept)
            loaded = True
        if request and os.fork() == 0:
            calls.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            answer(caller, request, fds[1:], kept)
            return
        caller.close()
        for file in fds[1:]:
            os.close(file)


def load(request: dict[str, Any], kept: str) -> None:
    """Import ansible-core in place of what stands in for it."""
    sys.path.remove(HERE)
    forget()
    configure(request)
    for name in COMMANDS:
        importlib.import_module(name)
    sys.path.append(HERE)
    importlib.import_module("shortcuts").install(kept)
    sys.path.remove(HERE)
    gc.freeze()


def is_hwcheck(request: dict[str, Any]) -> bool:
    """Whether the caller is hwcheck, and not a program of Ansible."""
    return request["module"] is None and os.path.basename(request["arguments"][0]) == "hwcheck"


def load_hwcheck(request: dict[str, Any]) -> None:
    """Import hwcheck, and what it imports as it needs it; read its schemas and templates."""
    configure(request)
    for name in HWCHECK:
        importlib.import_module(name)
    package = importlib.import_module("hwcheck")
    for each in pkgutil.walk_packages(package.__path__, "hwcheck."):
        if not each.name.startswith(SCRIPTS):
            importlib.import_module(each.name)
    from hwcheck.connect import payload
    from hwcheck.report.report import environment
    from hwcheck.results.schema_check import schema_problem

    payload.build()
    schema_problem({}, "run")
    for template in importlib.resources.files("hwcheck.report").joinpath("templates").iterdir():
        kind = template.name.split(".")[1]
        environment("md" if kind == "md" else "html", {}).get_template(template.name)
    forget()
    gc.freeze()


def configure(request: dict[str, Any]) -> None:
    """Take the caller's environment and folder."""
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["folder"])


def answer(caller: socket.socket, request: dict[str, Any], files: list[int], kept: str) -> None:
    """Run one call in a fork; tell how it ended, or end it with the caller."""
    if json.loads(json.dumps(who())) != request["who"]:
        caller.sendall(b"\n")
        os._exit(0)
    pid = os.fork()
    if pid == 0:
        caller.close()
        run(request, files, kept)
        return
    for file in files:
        os.close(file)
    child = os.pidfd_open(pid)
    while child not in select.select([caller, child], [], [])[0]:
        signals = caller.recv(1)
        with contextlib.suppress(ProcessLookupError):
            if signals:
                os.kill(pid, signals[0])
            elif request["alone"]:
                os.kill(pid, signal.SIGKILL)
            else:
                os.killpg(pid, signal.SIGKILL)
        if not signals:
            break
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):
        caller.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def run(request: dict[str, Any], files: list[int], kept: str) -> None:
    """Be what the caller is, and start Ansible."""
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = open_streams(*request["errors"])
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    configure(request)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = request["arguments"]
    if is_hwcheck(request):
        for each in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_DFL)
        for each in request["ignored"]:
            signal.signal(each, signal.SIG_IGN)
        before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:1] = [os.path.dirname(sys.argv[0]), *before]
    else:
        gc.disable()  # no call lasts so long that it would be worth the while
        own_folder(kept)
        own_roles()
        sys.path[0] = request["folder"]
    finish(request["module"])


def finish(module: str | None) -> None:
    """Start it; end as Python does, but do not take apart what all forks have in common.

    To free each object would copy the pages of them all.
    """
    code: object = None
    try:
        start(module)
    except SystemExit as end:
        code = end.code
    if code is None or isinstance(code, int):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit((code or 0) & 0xFF)
    sys.exit(code)  # and says what is wrong with a stream


def open_streams(reading: str, writing: str) -> tuple[TextIO, TextIO, TextIO]:
    """Open the three as Python does at its start; these say what it does with bytes of no text."""
    how: dict[str, Any] = {"encoding": "utf-8", "closefd": False}
    lines = 1 if os.isatty(1) else -1
    output = open(1, "w", buffering=lines, errors=writing, **how)  # noqa: SIM115
    errors = open(2, "w", buffering=1, errors="backslashreplace", **how)  # noqa: SIM115
    return open(0, errors=reading, **how), output, errors


def own_folder(kept: str) -> None:
    """Let this process make and remove its temporary folder, as it does when it imports Ansible.

    What Ansible packs for a node, 0.3 s for each module, is packed once for all.
    """
    from ansible import constants  # type: ignore[attr-defined]
    from ansible.utils.path import cleanup_tmp_file

    atexit.unregister(cleanup_tmp_file)
    parent, name = os.path.split(constants.DEFAULT_LOCAL_TMP)
    constants.DEFAULT_LOCAL_TMP = tempfile.mkdtemp(prefix=name, dir=parent)
    os.symlink(kept, os.path.join(constants.DEFAULT_LOCAL_TMP, "ansiballz_cache"))
    atexit.register(cleanup_tmp_file, constants.DEFAULT_LOCAL_TMP, warn=True)


def own_roles() -> None:
    """Let this process look for roles where its caller does: often a folder of one call."""
    from ansible import constants  # type: ignore[attr-defined]

    constants.DEFAULT_ROLES_PATH = constants.config.get_config_value("DEFAULT_ROLES_PATH")


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
