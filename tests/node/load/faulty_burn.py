"""The burn's launcher with the CPU in place of GPUs, some of which misbehave as their uuid says.

Started in place of the launcher (``launch.BOOT``); the product code knows nothing of faults.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

from hwcheck.node.load.products import PAIRS

INT_OF = {2: "int16", 4: "int32"}


def boot() -> str:
    """Return the code that starts this launcher; for ``launch.BOOT``."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = f"import sys; sys.path[:0] = [sys.argv[1], {here!r}]; "
    return path + "import faulty_burn; faulty_burn.main()"


def main() -> None:
    from hwcheck.node.load import burn, copies, device, launcher, products

    copies.MEASURE_S = 0.02
    burn.WINDOW_S = 0.2
    launcher.lack = lambda spec: ""
    burn.open_device = lambda spec: device.Cpu()
    products.multiply = faulty(products.multiply)
    launcher.main()


def flip(matrix: Any, bit: int = 0) -> None:
    """Flip one bit of one element."""
    import torch

    whole = matrix.view(getattr(torch, INT_OF[matrix.element_size()]))
    whole[3, 5] ^= 1 << bit


def faulty(healthy: Any) -> Any:
    calls = 0

    def multiply(left: Any, right: Any, out: Any) -> None:
        nonlocal calls
        calls += 1
        fault = os.environ["CUDA_VISIBLE_DEVICES"]
        healthy(left, right, out)
        if calls == 1 and fault == "first":
            flip(out)
        if fault == "stuck":
            hang(out)
        if fault == "raise":
            raise RuntimeError("CUDA out of memory.\nTried to allocate 1 GiB")
        if calls > PAIRS + 1 and fault in LATER:  # the first products, and the one that is timed
            LATER[fault](out)

    return multiply


def hang(out: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Event().wait()


def crash(out: Any) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def rest(out: Any) -> None:
    """Be no fault, and leave the processor to others."""
    time.sleep(0.02)


LATER = {"flip": flip, "hang": hang, "crash": crash, "rest": rest}
