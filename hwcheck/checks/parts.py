"""The parts of the node are on record, and are those that were ordered."""

from __future__ import annotations

import re
from typing import Dict, Iterator, Optional, Tuple

from hwcheck.contract.check import CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.facts import Part
from hwcheck.contract.limits import AtLeast, Equal, FromSample, like_most
from hwcheck.contract.quantities import RackPlace
from hwcheck.contract.reasons import NO_PERMISSION
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import AnswerOfKind, Survey, among_equals
from hwcheck.node.node import Gpu, Node

COMPARED_ELSEWHERE = ("gpu", "nic")
"""Parts whose firmware the checks vbios and infiniband_ports compare."""


PART_MODEL = Metric("part_model", "", "what the part is")
PART_NUMBER = Metric("part_number", "", "the maker's number of the part")
PART_SERIAL = Metric("part_serial", "", "serial number of the part")
PART_FIRMWARE = Metric(
    "part_firmware",
    "",
    "firmware of a machine, processor, drive or NVSwitch",
    (
        like_most(
            "DMTF DSP0134, BIOS Version, and what drivers give: nodes of one kind are "
            "delivered with one firmware, and behave alike only with it",
            alike="part_model",
        ),
        Equal(
            FromSample("part_firmware_of_most"),
            source="NVM Express Base Specification, Identify Controller, and Linux, "
            "/proc/cpuinfo: parts of one model in one node take one firmware",
            confidence="derived",
            otherwise="warn",
        ),
    ),
)
PART_PLACE = Metric(
    "part_place", "", "where the part is: in its rack, or among the GPUs of its node"
)
CARD_FIRMWARE = Metric(
    "card_firmware", "", "firmware of a GPU or network card, compared by other checks"
)


@check(
    metrics=[
        Metric(
            "parts_named",
            "parts",
            "parts that name themselves",
            (
                AtLeast(
                    "DMTF DSP0134, required structures: a machine names its system, board and "
                    "processors; compared with like nodes besides",
                    warn=1,
                    confidence="derived",
                ),
            ),
            required=True,
        ),
        PART_MODEL,
        PART_NUMBER,
        PART_SERIAL,
        PART_FIRMWARE,
        Metric("part_firmware_of_most", "", "firmware that most parts of this model have here"),
        PART_PLACE,
        CARD_FIRMWARE,
    ],
    remedy=Remedy(
        cause="another part than was ordered, one that is missing, or firmware that an update "
        "left behind",
        fix="hold the delivery note against the part; bring firmware to that of the other nodes; "
        "where the order is wrong, correct hwcheck_parts",
        command="sudo dmidecode -t system,baseboard,chassis,processor,memory; lspci -vv; "
        "nvme list; nvidia-smi --query-gpu=index,serial,vbios_version --format=csv",
    ),
    gpu=False,
    optional="parts that name themselves",
    group="host",
    stage="inventory",
)
def parts(node: Node) -> Iterator[Sample]:
    """Record chassis, boards, processors, memory, GPUs, cards, drives and NVSwitches.

    Model, part number, serial number and firmware, as far as firmware, bus and drivers tell. With
    them on record a repair is seen, and what was delivered is held against what was ordered, where
    the inventory declares that (hwcheck_parts). Serial numbers of the machine itself may be read by
    root only. Not applicable where nothing names itself. Of a rack that NVLink spans the GPUs tell
    its serial number, and slot, tray and host of the node in it (nvidia-smi -q, Platform Info).
    Trays of a rack that hold nothing but NVSwitches are not on any node's bus.
    """
    machine, gpus = node.host.parts(), node.host.pci_gpus()
    hidden = node.host.hidden_parts()
    if not machine and not gpus and "parts" not in node.request.expect:
        raise NotApplicable("no part names itself; " + (hidden or "the machine has no DMI"))
    yield Sample("parts_named", len(machine) + len(gpus), "parts")
    for part in machine:
        yield from _samples(part)
    firmware = [
        AnswerOfKind(part.name, "%s %s" % (_kind(part), part.model), part.firmware)
        for part in machine
        if part.firmware and _kind(part) not in COMPARED_ELSEWHERE
    ]
    yield from among_equals("part_firmware", firmware)
    if hidden and "parts" in node.request.expect:
        words = "serial numbers of the machine are hidden: " + hidden
        raise CouldNotMeasure(words, NO_PERMISSION)
    if not gpus:
        return
    answers = Survey(node, _of_gpu)
    racks: Dict[Tuple[str, str], None] = {}
    for gpu, (part, place) in answers.answers:
        yield from _samples(part._replace(name=gpu.subject))
        if place is not None:
            yield Sample("part_place", "module %d" % place.module, "", gpu.subject)
            of_node = "slot %d, tray %d, host %d" % (place.slot, place.tray, place.host)
            racks[place.chassis_serial, of_node] = None
    for number, (serial, of_node) in enumerate(racks):
        name = "rack" if len(racks) == 1 else "rack%d" % number
        yield Sample("part_serial", serial, "", name)
        yield Sample("part_place", of_node, "", name)
    answers.conclude("NVML sees no GPU")


def _of_gpu(gpu: Gpu) -> Tuple[Part, Optional[RackPlace]]:
    number, serial, vbios = gpu.board_part_number(), gpu.serial(), gpu.vbios()
    return Part("", gpu.name(), number or "", serial or "", vbios or ""), gpu.rack_place()


def _samples(part: Part) -> Iterator[Sample]:
    yield Sample("part_model", part.model or "unknown", "", part.name)
    of_card = part.firmware if _kind(part) in COMPARED_ELSEWHERE else ""
    texts = {"part_number": part.number, "part_serial": part.serial, "card_firmware": of_card}
    for metric, text in texts.items():
        if text:
            yield Sample(metric, text, "", part.name)


def _kind(part: Part) -> str:
    return re.sub(r"\d+$", "", part.name.partition(" ")[0])
