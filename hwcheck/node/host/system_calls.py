"""Facts of the host that no file holds: sizes of file systems, limits, the kernel's clock."""

from __future__ import annotations

import os
import resource
from typing import Optional

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.facts import Filesystem
from hwcheck.contract.reasons import of_errno

STA_UNSYNC = 0x0040
TIME_ERROR = 5
"""Status bit and return value of a clock that nothing keeps right (adjtimex(2))."""


def filesystem(path: str) -> Filesystem:
    """Return the file system that holds ``path``. Raises CouldNotMeasure."""
    try:
        answer = os.statvfs(path)
    except OSError as error:
        words = "%s: %s" % (path, error.strerror)
        raise CouldNotMeasure(words, of_errno(error.errno)) from None
    return Filesystem(
        size_bytes=answer.f_frsize * answer.f_blocks,
        free_bytes=answer.f_frsize * answer.f_bavail,
        read_only=bool(answer.f_flag & os.ST_RDONLY),
    )


def locked_memory_limit_bytes() -> Optional[int]:
    """Return this process's soft RLIMIT_MEMLOCK; None means unlimited."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


def clock_synchronized() -> bool:
    """Return whether the kernel's clock is disciplined. Raises CouldNotMeasure."""
    try:
        import ctypes
    except ImportError:
        raise CouldNotMeasure("this Python has no ctypes to ask the kernel's clock") from None

    class Timex(ctypes.Structure):
        # struct timex up to the field that is read, and room for what the kernel adds.
        _fields_ = (
            ("modes", ctypes.c_uint),
            ("offset", ctypes.c_long),
            ("freq", ctypes.c_long),
            ("maxerror", ctypes.c_long),
            ("esterror", ctypes.c_long),
            ("status", ctypes.c_int),
            ("rest", ctypes.c_char * 256),
        )

    answer = Timex(modes=0)  # read only
    library = ctypes.CDLL(None, use_errno=True)
    try:
        state = library.adjtimex(ctypes.byref(answer))
    except AttributeError:
        raise CouldNotMeasure("the C library has no adjtimex") from None
    if state < 0:
        number = ctypes.get_errno()
        raise CouldNotMeasure("adjtimex: %s" % os.strerror(number), of_errno(number))
    return state != TIME_ERROR and not answer.status & STA_UNSYNC
