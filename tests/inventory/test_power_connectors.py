from __future__ import annotations

import pytest

from hwcheck.inventory.power_connectors import supply_w


@pytest.mark.parametrize(
    ("connectors", "watts"),
    [
        ("none", 75),
        ("6-pin", 150),
        ("8-pin, 8-pin", 375),
        ("6-pin,8-PIN", 300),
        ("12V-2x6", 675),
        ("12VHPWR", 675),
        ("450 W", 525),
        ("8-pin, 175w", 400),
    ],
)
def test_slot_and_connectors_together(connectors: str, watts: float) -> None:
    assert supply_w(connectors) == watts


@pytest.mark.parametrize(
    "connectors", ["", "2 x 8-pin", "8-pin; 8-pin", "8-pin,", "450", "0 W", "1e9 W", "none, 8-pin"]
)
def test_what_is_no_connector_is_refused(connectors: str) -> None:
    with pytest.raises(ValueError, match=r"is not none, 6-pin, .* or a figure such as 450 W"):
        supply_w(connectors)
