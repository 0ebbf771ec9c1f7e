"""The launcher with a collective that misbehaves in the legs whose environment says so.

``FAULT`` is what it does, and ``JOIN_S`` how long a rank takes until it meets the others.
Started in place of the launcher (``launch.BOOT``); the product code knows nothing of faults.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import signal
import threading
import time
from dataclasses import replace
from typing import Any

MIB = 1024 * 1024
HEALTHY_BYTES = MIB


def boot() -> str:
    """Return the code that starts this launcher; for ``launch.BOOT``."""
    here = os.path.dirname(os.path.abspath(__file__))
    return f"import sys; sys.path[:0] = [sys.argv[1], {here!r}]; import faulty; faulty.main()"


def main() -> None:
    from hwcheck.node.collective import operations, runtime
    from hwcheck.node.together import launcher

    load, join = operations.load, runtime.join

    def join_late(*given: Any) -> Any:
        time.sleep(float(os.environ.get("JOIN_S", "0")))
        return join(*given)

    runtime.join = join_late
    operations.load = lambda name: replace(load(name), run=run(name, load(name).run))
    launcher.main()


def run(name: str, healthy: Any) -> Any:
    from hwcheck.node.collective.runtime import dist

    def faulty(source: Any, buffer: Any, rank: int, ranks: int) -> None:
        def well(buffer: Any) -> None:
            healthy(source, buffer, rank, ranks)

        fault = os.environ.get("FAULT", "")
        if os.environ.get("FAULT_OF", name) != name:
            fault = ""
        bytes_ = max(source.numel(), buffer.numel()) * buffer.element_size()
        large = bytes_ > HEALTHY_BYTES
        if fault and dist.get_rank() == 1 and (large or fault in ALWAYS):
            FAULTS[fault](buffer, well)
        else:
            well(buffer)

    return faulty


def corrupt(buffer: Any, healthy: Any) -> None:
    healthy(buffer)
    buffer[12345] += 1


def nan(buffer: Any, healthy: Any) -> None:
    healthy(buffer)
    buffer[-1] = float("nan")


def hang(buffer: Any, healthy: Any) -> None:
    threading.Event().wait()


def deaf_hang(buffer: Any, healthy: Any) -> None:
    """Hang with no ear for the dump signal and with shared memory as NCCL names it."""
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    with open(os.environ["SEGMENT"], "w+b") as stream:
        stream.truncate(4096)
        kept = mmap.mmap(stream.fileno(), 4096)
        threading.Event().wait()
        kept.close()


def leave(buffer: Any, healthy: Any) -> None:
    os._exit(7)


def crash(buffer: Any, healthy: Any) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def fail(buffer: Any, healthy: Any) -> None:
    raise RuntimeError("the wire\nis cut")


def drag(buffer: Any, healthy: Any) -> None:
    time.sleep(0.02)
    healthy(buffer)


def spy(buffer: Any, healthy: Any) -> None:
    """Write the environment as C libraries see it."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    names = json.loads(os.environ["SPY_NAMES"])
    seen = {name: getenv(name.encode()) for name in names}
    with open(os.environ["SPY_FILE"], "w", encoding="utf-8") as stream:
        json.dump({name: value.decode() for name, value in seen.items() if value}, stream)
    healthy(buffer)


def talk(buffer: Any, healthy: Any) -> None:
    """Print more than a log keeps, once."""
    if not SAID:
        print("the first words")
        print("x" * int(os.environ["TALK_BYTES"]))
        print("the last words", flush=True)
        SAID.append(True)
    healthy(buffer)


SAID: list[bool] = []
ALWAYS = ("spy", "drag", "talk", "hang_at_once")
FAULTS = {
    "corrupt": corrupt,
    "nan": nan,
    "hang": hang,
    "hang_at_once": hang,
    "deaf_hang": deaf_hang,
    "leave": leave,
    "crash": crash,
    "fail": fail,
    "drag": drag,
    "spy": spy,
    "talk": talk,
}
