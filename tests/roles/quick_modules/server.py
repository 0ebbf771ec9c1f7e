"""Runs Ansible's modules, and scripts, in forks of a process that has loaded what they import.

usage: python3 server.py SOCKET ANSIBLE: where to listen, and the folder of the controller's package

It runs on a simulated machine, under the Python that the machine has. What a module is sent with
is what lies in ANSIBLE: it is imported from there, where it stands compiled.
"""

import atexit
import contextlib
import gc
import importlib
import importlib.util
import os
import runpy
import select
import signal
import socket
import sys
import traceback

WAYS = ("legacy_c2m", "legacy_m2c")
FIRST = (
    *("ansible.module_utils.basic", "ansible.module_utils._internal._ansiballz._loader"),
    *("ansible.module_utils.common.respawn", "ansible.module_utils.facts.namespace"),
    *("ansible.module_utils.facts.default_collectors", "ansible.module_utils.service"),
    *("ansible.module_utils.urls", "ansible.module_utils.yumdnf"),
    *(f"ansible.module_utils._internal._json._profiles._module_{way}" for way in WAYS),
    *("apt", "apt_pkg", "apt.debfile", "dnf", "dnf.cli", "dnf.subject", "dnf.const", "rpm"),
    *("base64", "zipfile", "tempfile", "shutil", "resource", "glob", "datetime"),
)


def load(folder):
    """Import what modules do; of what this machine lacks, nothing."""
    spec = importlib.util.spec_from_file_location(
        "ansible", f"{folder}/__init__.py", submodule_search_locations=[folder]
    )
    sys.modules["ansible"] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    for name in FIRST:
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)
    gc.freeze()
    gc.disable()


def serve(listener):
    """Run each caller's script in a fork, and send its exit status."""
    running = {}
    while True:
        ready, _, _ = select.select([listener, *running], [], [])
        if listener in ready:
            caller, _ = listener.accept()
            pid = begin(caller)
            running[os.pidfd_open(pid)] = pid, caller
        for end in set(ready) & set(running):
            os.close(end)
            pid, caller = running.pop(end)
            _, status = os.waitpid(pid, 0)
            code = os.waitstatus_to_exitcode(status)
            with contextlib.suppress(BrokenPipeError), caller:
                caller.sendall(bytes([code if code >= 0 else 128 - code]))


def begin(caller):
    """Start a caller's script; return the number of its process."""
    announced, files, _, _ = socket.recv_fds(caller, 4, 3)
    with caller.makefile("rb") as stream:
        folder, count, *words = stream.read(int.from_bytes(announced, sys.byteorder)).split(b"\0")[
            :-1
        ]
    pid = os.fork()
    if pid == 0:
        caller.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.closerange(3, 256)
        os.environb.clear()
        os.environb.update(each.split(b"=", 1) for each in words[int(count) :])
        os.chdir(folder)
        run([os.fsdecode(each) for each in words[: int(count)]])
    for file in files:
        os.close(file)
    return pid


def run(words):
    """Be a shell, or a Python: of the script of this path, or of what is on standard input."""
    if words[:1] == ["/bin/sh"]:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execv("/bin/sh", words)
    code = 0
    sys.argv = words or [""]
    try:
        if words:
            runpy.run_path(words[0], run_name="__main__")
        else:
            script = compile(sys.stdin.buffer.read(), "<stdin>", "exec")
            exec(script, vars(sys.modules["__main__"]))
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    load(sys.argv[2])
    with contextlib.suppress(FileNotFoundError):  # of the boot before
        os.unlink(sys.argv[1])
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen(16)
        serve(listener)
