"""Kernel logs: what the driver's events are, how many incidents, what to do."""

from __future__ import annotations

import json
import random

import pytest

from hwcheck.checks.shared import xids
from hwcheck.explain.explain import explain
from hwcheck.explain.kernel_log import GRAVITY, MOST_EVENTS, MOST_NAMED, read
from hwcheck.explain.records import KernelLogEvents
from hwcheck.explain.sources import LogFile
from tests.factories import HOSTILE
from tests.proportion import assert_in_proportion

OFF = "NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus."
ECC = "NVRM: Xid (PCI:0000:2a:00): 94, pid=77, Contained: SM (0x1)."
SXID = "nvidia-nvswitch3: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 30 timeout"
NVLINK5 = (
    "NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 "
    "(0x004505c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"
)


def log_of(text: str) -> KernelLogEvents:
    found = read("dmesg.txt", text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "stamp",
    [
        "",
        "[   12.345678] ",
        "[   12.345678 <    0.000012>] ",
        "<4>[   12.345678] ",
        "kern  :err   : [   12.345678] ",
        "[Mon Nov 23 00:31:37 2026] ",
        "2026-11-23T00:31:37,123456+00:00 ",
        "Nov 23 00:31:37 node7 kernel: ",
        "Nov  3 00:31:37 node7 kernel: [   12.345678] ",
        "2026-11-23T00:31:37+0000 node7 kernel: ",
        "2026-11-23T00:31:37.123456+00:00 node7 kernel: [   12.345678] ",
        "[   12.345678] node7 kernel: ",
    ],
)
@pytest.mark.parametrize("event", [OFF, SXID])
def test_each_form_of_a_log(stamp: str, event: str) -> None:
    (entry,) = explain(LogFile("f", f"{stamp}{event}\n{stamp}{event}\n"))
    assert isinstance(entry, KernelLogEvents)
    assert [each.count for each in entry.events] == [2]
    assert entry.incidents == (1 if stamp else None)


def test_what_an_event_means_and_asks_for() -> None:
    found = log_of(f"[1.0] {ECC}\n[2.0] {OFF}\n[3.0] {SXID}\n[4.0] {NVLINK5}\n")
    assert [each.name for each in found.events] == [
        "Xid 79 of 0000:18:00.0",
        "SXid 24007 of 0000:c3:00.0",
        "Xid 149 of 0008:01:00.0",
        "Xid 94 of 0000:2a:00.0",
    ]
    assert found.notes[0].startswith("4 events in 1 incident: those within 3 minutes")
    assert found.notes[1] == "Xid 79 of 0000:18:00.0: the GPU fell off the bus; restart the node"
    assert "NETIR_LINK_EVT on link 8, fatal" in found.notes[3]
    assert "drain the node, reset the GPU" in found.notes[3]
    assert "look at the application first" in found.notes[4]


def test_two_sub_units_of_one_code_are_told_apart() -> None:
    other = NVLINK5.replace("NETIR_LINK_EVT", "NETIR_BER_EVENT").replace("Fatal", "Nonfatal")
    found = log_of(f"{NVLINK5}\n{other}\n{other}\n")
    assert [(each.count, "BER" in each.meaning) for each in found.events] == [(1, False), (2, True)]


def test_events_apart_are_incidents_of_their_own() -> None:
    assert log_of(f"[10.0] {OFF}\n[100.0] {ECC}\n[400.0] {ECC}\n").incidents == 2
    of_the_day = "Nov 23 00:{}:00 node7 kernel: "
    text = "".join(f"{of_the_day.format(minute)}{ECC}\n" for minute in ("01", "03", "09"))
    assert log_of(text).incidents == 2


def test_after_a_boot_seconds_begin_again() -> None:
    boot = "[    0.000000] Linux version 6.8.0-1028-nvidia\n"
    assert log_of(f"{boot}[20.0] {ECC}\n{boot}[21.0] {ECC}\n").incidents == 2
    assert log_of(f"{boot}[20.0] {ECC}\n[21.0] {ECC}\n").incidents == 1


def test_a_day_that_is_none_leaves_incidents_open() -> None:
    assert log_of(f"Nov 99 00:31:37 n kernel: {ECC}\n").incidents is None
    assert log_of(f"Feb 29 00:31:37 n kernel: {ECC}\n").incidents == 1


def test_a_reset_settles_what_came_before() -> None:
    reset = "NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x1 () to 0x0 (None)"
    found = log_of(f"[1.0] {OFF}\n[2.0] {reset}\n[3.0] {ECC}\n")
    assert [each.code for each in found.events] == [94]
    assert found.settled == 1
    assert found.notes[-1].startswith("1 event before a reset")


def test_the_drivers_words_without_a_number() -> None:
    lost = (
        "[5.0] NVRM: The NVIDIA GPU 0000:5d:00.0\n"
        "[5.0] NVRM: (PCI ID: 10de:2330) installed in this system has\n"
        "[5.0] NVRM: fallen off the bus and is not responding to commands.\n"
        "[5.1] nvidia: probe of 0000:9b:00.0 failed with error -1\n"
    )
    found = log_of(lost)
    assert [each.name for each in found.events] == [
        "Xid 79 of 0000:5d:00.0",
        "a start of the GPU that failed of 0000:9b:00.0",
    ]


@pytest.mark.parametrize("code", [173, 174])
def test_a_code_that_no_catalog_has_is_watched(code: int) -> None:
    (event,) = log_of(f"NVRM: Xid (PCI:0000:18:00): {code}, words\n").events
    assert (event.action, "not in the catalog" in event.meaning) == (xids.WATCH, True)


@pytest.mark.parametrize(
    "text",
    [
        f"Nov 23 00:31:37 node7 trainer[7]: {OFF}\n",
        f"2026-11-23T00:31:37Z node7 trainer[7]: {OFF}\n",
        f"the log said: {OFF}\n",
        "[  1.0] one line\n",
        "[  1.0] (II) Xorg\n" * 9,
        "2026-11-23T00:31:37Z a program that starts\n" * 9,
        "",
    ],
)
def test_what_is_no_kernel_log(text: str) -> None:
    assert read("f", text) is None


def test_a_healthy_log_says_so() -> None:
    (entry,) = explain(LogFile("f", "[    1.0] usb 1-1: new device\n" * 5))
    assert entry.kind == "kernel-log"
    (note,) = entry.notes
    assert note.startswith("5 lines of the kernel, and none of an Xid")


UE = (
    "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 "
    "(channel:0 slot:0 page:0x1 offset:0x0 grain:32)"
)
HALTED = (
    "mlx5_core 0000:18:00.0: poll_health:835:(pid 0): device's health compromised - "
    "reached miss count"
)
RECOVERED = "mlx5_core 0000:18:00.0: mlx5_health_try_recover:335:(pid 9): health recovery succeeded"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (UE, "memory CPU_SrcID#0_MC#0_Chan#0_DIMM#0: memory of the host had an error that could"),
        (HALTED, "pci 0000:18:00.0: the firmware of a network card does not answer; the latest"),
        (
            UE.replace("1 UE", "11 CE"),
            "had errors, all corrected, 11 errors; the latest line: EDAC",
        ),
    ],
)
def test_faults_of_the_machine_are_those_of_the_check(message: str, words: str) -> None:
    (note,) = log_of(f"[1.0] {message}\n").notes
    assert words in note
    assert message[:60] in note
    both = log_of(f"[1.0] {message}\n[2.0] {OFF}\n").notes
    assert both == ("Xid 79 of 0000:18:00.0: the GPU fell off the bus; restart the node", note)


@pytest.mark.parametrize("text", [UE.replace("1 UE", "10 CE"), f"{HALTED}\n[1.0] {RECOVERED}"])
def test_what_is_usual_or_over_is_no_fault_of_the_machine(text: str) -> None:
    quiet = "[1.0] usb 1-1: new device\n" * 3
    (note,) = log_of(f"[1.0] {text}\n{quiet}").notes
    assert "and none of an Xid" in note


def test_faults_of_many_parts_are_bounded() -> None:
    flood = "".join(
        f"[1.0] {UE.replace('MC0', f'MC{n}').replace('CPU_', f'{n}_')}\n" for n in range(50)
    )
    notes = log_of(flood).notes
    assert len(notes) == MOST_NAMED + 1
    assert notes[-1] == "and 10 more faults of the machine"


def test_the_json_form() -> None:
    found = json.loads(json.dumps(log_of(f"[1.0] {OFF}\n").to_dict()))
    assert found["events"] == [
        {
            "kind": "xid",
            "code": 79,
            "pci_address": "0000:18:00.0",
            "count": 1,
            "meaning": "the GPU fell off the bus",
            "action": "restart the node",
        }
    ]
    assert (found["settled"], found["incidents"]) == (0, 1)


def test_every_action_has_a_place() -> None:
    actions = {action for _, action in xids.XID_CATALOG.values()}
    assert actions | {*xids.RECOVERY_ACTIONS.values(), *xids.SXID_ACTIONS.values()} <= {*GRAVITY}


def test_a_flood_is_bounded() -> None:
    flood = "".join(
        f"[{n}.0] NVRM: Xid (PCI:{n % 60:04x}:18:00): 31, x\n" for n in range(MOST_EVENTS + 5)
    )
    found = log_of(flood)
    assert sum(each.count for each in found.events) == MOST_EVENTS
    assert len(found.notes) == 1 + MOST_NAMED + 1
    assert found.notes[-1].startswith("and 20 more kinds")


def test_hostile_text_is_no_harm() -> None:
    assert explain(LogFile("f", f"[1.0] NVRM: Xid (PCI:{HOSTILE}): 79\n{HOSTILE}\n"))
    noise = random.Random(7)
    letters = "[]<>:.0123456789 NVRMXidkernel()PC,"
    for _ in range(300):
        read("f", "".join(noise.choice(letters) for _ in range(400)))


@pytest.mark.parametrize(
    "piece",
    ["[ 1.0" + " " * 50, "<4>[1.0 <", "a " * 30 + "kernel: ", "Nov 23 00:31:37 ", f"[1.0] {ECC}\n"],
)
def test_time_grows_with_the_text(piece: str) -> None:
    assert_in_proportion(lambda text: read("f", text), piece * 4000)
