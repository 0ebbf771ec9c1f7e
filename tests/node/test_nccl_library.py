from __future__ import annotations

import pytest

from hwcheck.node.nccl_library import version_in_name


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("/usr/lib/libnccl.so.2.26.2", "2.26.2"),
        ("libnccl.so.2", ""),
        ("/opt/libnccl.so.2.26.2.bak", ""),
        ("", ""),
    ],
)
def test_version_in_name(name: str, version: str) -> None:
    assert version_in_name(name) == version
