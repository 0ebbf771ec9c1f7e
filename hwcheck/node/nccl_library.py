"""The name of NCCL's library."""

from __future__ import annotations

import re

FULL_NAME = re.compile(r"libnccl\.so\.(\d+(?:\.\d+)+)\Z")


def version_in_name(library: str) -> str:
    """Return ``2.26.2`` of ``libnccl.so.2.26.2``; empty where the name has no full version."""
    found = FULL_NAME.search(library)
    return found.group(1) if found else ""
