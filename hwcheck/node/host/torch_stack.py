"""What torch an interpreter has, asked of itself without importing torch, which takes seconds.

Started by ``host.software`` as ``python -c <boot> <payload>``; one line of JSON goes to stdout.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys

from hwcheck.node.host.tree import contents

VERSION = re.compile(r"""^__version__\b[^=\n]*=\s*["']([^"'\n]+)""", re.MULTILINE)
NCCL_WHEEL = re.compile(r"nvidia-nccl-\w+")


def main() -> None:
    """Write what there is; an empty text stands for what is not there."""
    sys.stdout.write(json.dumps({"torch": torch_version(), "nccl": nccl_version()}) + "\n")


def torch_version() -> str:
    """Return what ``torch.__version__`` would be; empty without torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return ""
    text = contents(os.path.join(os.path.dirname(spec.origin), "version.py"))
    match = VERSION.search((text or b"").decode("utf-8", "replace"))
    return match.group(1) if match else _installed("torch")


def nccl_version() -> str:
    """Return the NCCL that torch's wheel asked for, or that of a conda environment; or empty."""
    from importlib import metadata  # here: it takes email, csv and socket; a visit asks for a name

    try:
        wanted = " ".join(metadata.requires("torch") or [])
    except metadata.PackageNotFoundError:
        wanted = ""
    wheel = NCCL_WHEEL.search(wanted)
    library = os.path.realpath(os.path.join(sys.prefix, "lib", "libnccl.so.2"))
    return (_installed(wheel.group()) if wheel else "") or version_in_name(library)


def _installed(distribution: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


FULL_NAME = re.compile(r"libnccl\.so\.(\d+(?:\.\d+)+)\Z")


def version_in_name(library: str) -> str:
    """Return ``2.26.2`` of ``libnccl.so.2.26.2``; empty where the name has no full version."""
    match = FULL_NAME.search(library)
    return match.group(1) if match else ""
