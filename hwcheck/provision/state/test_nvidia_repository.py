"""nvidia_repository: the node takes packages from it, with its priority."""

from __future__ import annotations

from typing import Any

from hwcheck.provision.state.asserts import asserts
from hwcheck.provision.state.packages import repository_problem


@asserts("nvidia_repository_url")
def test_repository(host: Any, wanted: str) -> None:
    """The package manager knows the repository."""
    wrong = repository_problem(host, wanted)
    assert not wrong, wrong
