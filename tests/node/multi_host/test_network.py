from __future__ import annotations

import pytest

from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.multi_host.network import own_place


def test_by_name_and_by_route() -> None:
    assert own_place("lo", "") == ("lo", "127.0.0.1")
    assert own_place("", "127.0.0.9") == ("lo", "127.0.0.1")
    assert own_place("", "localhost") == ("lo", "127.0.0.1")


@pytest.mark.parametrize(
    ("interface", "toward", "reason"),
    [
        ("nosuch0", "127.0.0.1", "hwcheck_interface: nosuch0 has no IPv4 address here"),
        ("", "no-such-host.invalid", "no route to no-such-host.invalid .*: set hwcheck_interface"),
    ],
)
def test_what_leads_nowhere(interface: str, toward: str, reason: str) -> None:
    with pytest.raises(CouldNotMeasure, match=reason):
        own_place(interface, toward)
