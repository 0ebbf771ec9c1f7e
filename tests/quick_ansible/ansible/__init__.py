"""Stands in for ansible-core where a program is started: a server that has it loaded runs it.

On ``PYTHONPATH`` this folder comes before ansible-core, so ``python -m ansible`` and
``ansible-playbook`` start what is here. It asks the server (``tests/quick_ansible/server.py``) for
a process with its own arguments, environment, folder and open files, and ends as that ends. Where
there is no server, or this process is not what the server's children would be, it runs ansible-core
itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import runpy
import signal
import socket
import sys
from collections.abc import Sequence

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SERVER = "HWCHECK_TEST_ANSIBLE_SERVER"
LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
KEY_BYTES = 32
IMPORTED = ("ANSIBLE_", "HOME", "LANG", "LC_", "PYTHON", "TMPDIR", "TZ")
"""How the variables begin that Ansible, and Python for it, read at the start."""
READ_LATER = (
    *("ANSIBLE_CACHE_PLUGIN_CONNECTION", "ANSIBLE_SSH_CONTROL_PATH_DIR"),
    "ANSIBLE_ROLES_PATH",
)
"""Those of them that a plugin reads, when a play asks for it, or the server before each call."""


def main() -> None:
    """Run the script that is named in ``sys.argv``."""
    run(None)


def run(module: str | None) -> None:
    """Run ``python -m <module>``, or the script; the words are in ``sys.argv``."""
    sys.path.remove(HERE)
    below = [path for path in os.environ["PYTHONPATH"].split(os.pathsep) if path != HERE]
    os.environ["PYTHONPATH"] = os.pathsep.join(below)
    if not below:
        del os.environ["PYTHONPATH"]
    path = os.environ.pop(SERVER, "")
    # A password is typed at a terminal, and colors are for one.
    for_terminal = sys.stdout.isatty() and "ANSIBLE_NOCOLOR" not in os.environ
    if path and not for_terminal and "--ask-become-pass" not in sys.argv:
        ask(path, module, configuration())
    forget()
    start(module)


def forget() -> None:
    """Let ``import ansible`` find ansible-core."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "ansible"]:
        del sys.modules[name]


def start(module: str | None) -> None:
    """Run it in this process."""
    if module is None:
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def ask(path: str, module: str | None, key: bytes, signals: Sequence[int] = ()) -> None:
    """Let the server run it and end as it ends; return where it must be run here.

    ``signals`` that reach this process are handed on, or ignored as here; without any, the end of
    this process is that of all that the other has started.
    """
    ignored = [each for each in signals if signal.getsignal(each) == signal.SIG_IGN]
    request = {
        "who": who(),
        "module": module,
        "arguments": sys.argv,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "alone": bool(signals),
        "ignored": ignored,
        "errors": [sys.stdin.errors, sys.stdout.errors] if signals else ["strict", "strict"],
    }
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        socket.send_fds(server, [key], [0, 1, 2])
        for each in set(signals) - set(ignored):
            signal.signal(each, lambda number, _: server.sendall(bytes([number])))
        try:
            server.sendall(json.dumps(request).encode() + b"\n")
            answer = server.makefile().readline().strip()
        except ConnectionError:  # it cannot be loaded as it is configured
            return
    if not answer:
        return
    code = int(answer)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def configuration() -> bytes:
    """Return a digest of what Ansible reads while it is imported."""
    read = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith(IMPORTED) and name not in READ_LATER
    )
    files = ["ansible.cfg", os.path.expanduser("~/.ansible.cfg"), "/etc/ansible/ansible.cfg"]
    files += [os.environ["ANSIBLE_CONFIG"]] if "ANSIBLE_CONFIG" in os.environ else []
    texts = []
    for file in filter(os.path.isfile, files):
        with open(file, "rb") as stream:
            texts.append((os.path.abspath(file), stream.read()))
    return hashlib.sha256(repr((read, texts)).encode()).digest()


def who() -> list[object]:
    """Return what a process of the server must have in common with this one."""
    spaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("mnt", "net", "pid", "uts")]
    limits = [list(resource.getrlimit(limit)) for limit in LIMITS]
    mask = os.umask(0)
    os.umask(mask)
    coding = [sys.getfilesystemencoding(), sys.flags.utf8_mode]
    return [sys.executable, os.getresuid(), os.getresgid(), mask, spaces, limits, coding]
