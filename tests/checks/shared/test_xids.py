from __future__ import annotations

import pytest

from hwcheck.checks.shared import xids
from hwcheck.checks.xid import METRICS


def event(code: int, rest: str = "", address: str = "0000:18:00") -> xids.XidEvent:
    parsed = xids.parse(f"NVRM: Xid (PCI:{address}): {code}{rest}")
    assert parsed is not None
    return parsed


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen", "pci 0000:18:00.0 xid 79"),
        ("NVRM: Xid (PCI:0008:01:00): 79", "pci 0008:01:00.0 xid 79"),
        ("NVRM: Xid (PCI:00018:01:00): 79", "pci 00018:01:00.0 xid 79"),
        ("NVRM: Xid (PCI:0000:CA:00 GPU-I:03): 43, pid=1", "pci 0000:ca:00.0 xid 43"),
        ("NVRM: Xid (0000:03:00): 31, Ch 00000010", "pci 0000:03:00.0 xid 31"),
        (
            "nvidia-nvswitch12: SXid (PCI:0000:C3:00.0): 24007, Fatal, Link 30 timeout",
            "pci 0000:c3:00.0 sxid 24007",
        ),
    ],
)
def test_shapes(text: str, subject: str) -> None:
    parsed = xids.parse(text)
    assert parsed is not None
    assert parsed.subject == subject


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
        "NVRM: Xid (PCI:garbage): 79",
        "evil[1]: NVRM: Xid (PCI:0000:18:00): 79, from another program",
        "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Severity 1 Engine instance 30",
        "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Data {0x00000000}",
    ],
)
def test_what_is_no_event(text: str) -> None:
    assert xids.parse(text) is None


@pytest.mark.parametrize(
    ("code", "rest", "action"),
    [
        (79, "", xids.RESTART),
        (48, "", xids.RESET),
        (95, "", xids.RESET),
        (119, "", xids.RESET),
        (54, "", xids.REPAIR),
        (92, "", xids.WATCH),
        (13, "", xids.APPLICATION),
        (94, "", xids.APPLICATION),
        (39, "", xids.APPLICATION),
        (104, "", xids.APPLICATION),
        (43, "", xids.NOTHING),
        (45, "", xids.NOTHING),
        (63, "", xids.NOTHING),
        (149, ", NETIR_LINK_EVT Fatal XC0 i0 Link 08", xids.RESET),
        (145, ", RLW_RXPIPE Nonfatal XC1 i0 Link 03", xids.NOTHING),
        (154, ", GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "reset"),
        (154, ", GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "reset"),
        (154, ", GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", "noth"),
        (154, ", GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)", xids.RESET),
        (154, ", GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)", xids.RESTART),
        (154, ", GPU recovery action changed from 0x1 (PF FLR) to 0x0 (None)", xids.NOTHING),
        (154, ", GPU recovery action changed from 0x0 (None) to 0x5 (new)", xids.WATCH),
        (154, ", in words of another day", xids.WATCH),
        (1, "", xids.WATCH),
        (173, "", xids.WATCH),  # Seen, and not in NVIDIA's catalog.
        (174, "", xids.WATCH),
        (168, "", xids.WATCH),
        (171, "", xids.NOTHING),
        (4711, "", xids.WATCH),
    ],
)
def test_what_a_code_asks_for(code: int, rest: str, action: str) -> None:
    assert event(code, rest).action.startswith(action)


def test_every_action_has_a_metric() -> None:
    actions = {action for _, action in xids.XID_CATALOG.values()} | set(
        xids.RECOVERY_ACTIONS.values()
    )
    assert actions | {xids.WATCH, xids.FABRIC} == set(METRICS)


def test_a_reset_settles_what_came_before_on_that_gpu() -> None:
    reset = ", GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    before, after, other = event(48), event(95), event(48, address="0000:2a:00")
    left, settled = xids.outstanding([before, other, event(154, reset), after])
    assert (left, settled) == ([other, after], 1)
    assert xids.outstanding([]) == ([], 0)


def sxid_event(code: int, word: str) -> xids.XidEvent:
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
        (4711, "Non-fatal", xids.WATCH, "an NVSwitch error that is not in the catalog"),
        (4711, "Fatal", xids.FABRIC, "an NVSwitch error"),
    ],
)
def test_what_a_number_asks_for(code: int, word: str, action: str, meaning: str) -> None:
    found = sxid_event(code, word)
    assert found.action == action
    assert meaning in found.meaning
    assert f"({word.lower()} by the driver's word)" in found.meaning


def test_every_number_is_one_of_an_nvswitch() -> None:
    """They start at 10000, to be told from those of a GPU (ctrl_dev_nvswitch.h)."""
    assert all(10000 < code < 30000 for code in xids.SXID_CATALOG)
    assert not set(xids.SXID_CATALOG) & set(xids.XID_CATALOG)


def test_every_severity_has_an_action() -> None:
    severities = {severity for _, severity in xids.SXID_CATALOG.values()}
    assert severities == set(xids.SXID_ACTIONS)


NVLINK5 = "NVRM: Xid (PCI:0018:01:00): {}, {}"


@pytest.mark.parametrize(
    ("code", "words", "action", "says"),
    [
        # Of the catalog's rows, with the interrupt words of R575 and newer and of older drivers.
        (149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x0 0x0)", xids.RESET, xids.PEER),
        (149, "NETIR_LINK_DOWN Fatal XC0 i0 Link 17 (0x00a00011)", xids.RESET, xids.SIGNAL),
        (149, "NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6)", xids.NOTHING, xids.SOFTWARE),
        (149, "NETIR_LINK_DOWN Fatal XC0 i0 Link 3 (0x02800011)", xids.NOTHING, "other logs"),
        (149, "NETIR_LINK_EVT Fatal XC 1 i 2 Link 01 [0x0000000a]", xids.RESET, "injected"),
        (
            149,
            "NETIR_BER_EVENT Nonfatal XC0 i0 Link 04 (0x00000013 0x1)",
            xids.NOTHING,
            xids.SIGNAL,
        ),
        (145, "RLW_REMAP Nonfatal XC1 i0 Link 10 (0x00000004 0x00000004)", xids.NOTHING, "Xid 154"),
        (145, "RLW_REMAP Fatal XC1 i0 Link 10 (0x00000082 0x00000040)", xids.RESET, "RLW_REMAP"),
        (145, "RLW_RXPIPE Nonfatal XC0 i0 Link 02 (0x00000086 0x00000001)", xids.RESET, "RXPIPE"),
        (145, "RLW_RXPIPE Nonfatal XC0 i0 Link 02 (0x000004c2 0x00000002)", xids.RESET, "RXPIPE"),
        (145, "RLW_RXPIPE Nonfatal XC0 i0 Link 02 (0x00000006 0x00000001)", xids.NOTHING, "RXPIPE"),
        (
            145,
            "pid=4, name=<unknown>, RLW_SRC_TRACK Fatal XC0 i1 Link 00 (0x7 0x1)",
            xids.RESET,
            "0",
        ),
        (144, "SAW_MVB Fatal XC0 i0 Link 00 (0x00000001 0x00000002)", xids.RESET, "SAW_MVB"),
        (146, "TLW_RX_PIPE1 Nonfatal XC0 i0 Link 03 (0x10 0x20)", xids.NOTHING, "on link 3"),
        (150, "MSE Degraded Fatal XC0 i0 Link 00 (0x0 0xffffffff)", xids.RESET, "MSE DEGRADED"),
        (148, "driver-specific detail", xids.RESET, "the message says how bad"),
        (148, "driver-specific detail, nonfatal", xids.NOTHING, "the message says how bad"),
    ],
)
def test_nvlink_5_is_decoded_by_sub_unit_and_status(
    code: int, words: str, action: str, says: str
) -> None:
    found = xids.parse(NVLINK5.format(code, words))
    assert found is not None
    assert found.action == action
    assert says in found.meaning


@pytest.mark.parametrize(
    ("ages_s", "count"),
    [((), 0), ((5.0,), 1), ((5.0, 100.0, 250.0), 1), ((5.0, 186.0), 2), ((900.0, 5.0, 6.0), 2)],
)
def test_a_burst_is_one_incident(ages_s: tuple[float, ...], count: int) -> None:
    assert xids.incidents(ages_s) == count
