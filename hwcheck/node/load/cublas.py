"""The version of the cuBLAS that this process has loaded."""

from __future__ import annotations

import ctypes
import re

NAME = re.compile(r"/.*/libcublas\.so[.\d]*$", re.MULTILINE)
PARTS = range(3)
"""MAJOR_VERSION, MINOR_VERSION and PATCH_LEVEL of libraryPropertyType (CUDA, library_types.h)."""


def cublas_version(maps: str = "/proc/self/maps") -> str:
    """Return ``12.8.4``, or an empty text where no cuBLAS of its own is loaded.

    Torch does not say it, and wheels and containers of one torch and CUDA bring several: that of
    the file it has loaded is asked (cuBLAS documentation, cublasGetProperty).
    """
    with open(maps, encoding="utf-8", errors="replace") as stream:
        loaded = NAME.search(stream.read())
    if not loaded:
        return ""
    library, parts = ctypes.CDLL(loaded.group(0)), []
    for part in PARTS:
        value = ctypes.c_int()
        if library.cublasGetProperty(part, ctypes.byref(value)) != 0:
            return ""
        parts.append(str(value.value))
    return ".".join(parts)
