"""nvidia_repository: the node takes packages from it, with its priority."""

from __future__ import annotations

import re
from typing import Any

from hwcheck.provision.state.asserts import ask, asserts
from hwcheck.provision.state.packages import is_debian

NAMES = ("DISTRIBUTION", "ARCHITECTURE")
"""Stand in an address for NVIDIA's names of the node's."""


@asserts("nvidia_repository_url")
def test_repository(host: Any, wanted: str) -> None:
    """The package manager knows the repository."""
    command = "apt-cache policy" if is_debian(host) else "dnf -q repolist -v"
    # apt writes file:/srv, whatever stands in its sources; a slash at the end means nothing.
    place, sources = (re.sub(r"file:/+", "file:/", text) for text in (wanted, ask(host, command)))
    pattern = re.escape(place.rstrip("/"))
    for name in NAMES:
        pattern = pattern.replace(name, r"[^/\s]+")
    found = re.search(pattern, sources)
    assert found, f"{wanted} is not among the node's repositories"
