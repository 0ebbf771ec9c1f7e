from __future__ import annotations

import pytest

from hwcheck.node import sxids, xids


def event(code: int, word: str) -> xids.Event:
    parsed = xids.parse(f"nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): {code}, {word}, Link 1")
    assert parsed is not None
    return parsed


@pytest.mark.parametrize(
    ("code", "word", "action", "meaning"),
    [
        (11012, "Non-fatal", xids.NOTHING, "corrected"),
        (20001, "Non-fatal", xids.NOTHING, "sent again"),
        (22013, "Non-fatal", xids.NOTHING, "request of a link"),
        (12028, "Non-fatal", xids.FABRIC, "stalls"),
        (19084, "Non-fatal", xids.FABRIC, "heartbeat"),
        (20012, "Non-fatal", xids.WATCH, "connection broke"),
        (22012, "Non-fatal", xids.WATCH, "connection broke"),
        (22012, "Fatal", xids.FABRIC, "connection broke"),
        (20034, "Fatal", xids.FABRIC, "went down"),
        (20034, "Non-fatal", xids.WATCH, "went down"),
        (11013, "Fatal", xids.FABRIC, "could not be corrected"),
        (23001, "Always Fatal", xids.FABRIC, "crossbar"),
        (23017, "Always fatal", xids.FABRIC, "crossbar"),
        (10004, "Non-fatal", xids.WATCH, "too warm"),
        (10005, "Non-fatal", xids.NOTHING, "no longer"),
        (4711, "Non-fatal", xids.NOTHING, "an NVSwitch error"),
        (4711, "Fatal", xids.FABRIC, "an NVSwitch error"),
    ],
)
def test_what_a_number_asks_for(code: int, word: str, action: str, meaning: str) -> None:
    found = event(code, word)
    assert found.action == action
    assert meaning in found.meaning
    assert f"({word.lower()} by the driver's word)" in found.meaning


def test_every_number_is_one_of_an_nvswitch() -> None:
    """They start at 10000, to be told from those of a GPU (ctrl_dev_nvswitch.h)."""
    assert all(10000 < code < 30000 for code in sxids.CATALOG)
    assert not set(sxids.CATALOG) & set(xids.CATALOG)


def test_every_severity_has_an_action() -> None:
    severities = {severity for _, severity in sxids.CATALOG.values()}
    assert severities == set(xids.SXID_ACTIONS)
