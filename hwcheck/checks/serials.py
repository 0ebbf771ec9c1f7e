"""Every GPU is one that can be told from all others."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional

from hwcheck.contract.check import BY_IDENTITY, Metric, Remedy, Varies, check
from hwcheck.contract.limits import AtMost
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import Survey
from hwcheck.node.node import Gpu, Node


class _Identity(NamedTuple):
    uuid: str
    serial: Optional[str]
    part_number: Optional[str]


BOARD_SERIAL = Metric(
    "board_serial",
    "",
    "serial number of the board; several GPUs may share a board",
    varies=BY_IDENTITY,
    fact="board",
)
BOARD_PART_NUMBER = Metric(
    "board_part_number",
    "",
    "part number of the board",
    varies=Varies("boards of one design are made under several; the GPUs are compared themselves"),
)


@check(
    metrics=[
        Metric(
            "gpu_uuid",
            "",
            "identifier of the GPU",
            required=True,
            varies=BY_IDENTITY,
        ),
        Metric(
            "gpus_of_this_uuid",
            "GPUs",
            "GPUs of this node that give the same identifier",
            (
                AtMost(
                    "NVML API Reference Guide, nvmlDeviceGetUUID: globally unique and immutable",
                    fail=1,
                ),
            ),
            required=True,
        ),
        BOARD_SERIAL,
        BOARD_PART_NUMBER,
    ],
    remedy=Remedy(
        cause="a board whose infoROM was written with that of another",
        fix="have the board replaced: tools that choose GPUs by identifier choose the wrong one",
        command="nvidia-smi --query-gpu=index,uuid,serial,pci.bus_id --format=csv",
    ),
    per_gpu=True,
    group="GPUs",
    stage="inventory",
)
def serials(node: Node) -> Iterator[Sample]:
    """Record what identifies each GPU and its board, and that no two GPUs are one.

    With the serial number on record a fault can be followed through repairs, and an exchange of
    boards between two runs is seen. Consumer boards have no serial number to tell.
    """
    answers = Survey(node, _identify)
    uuids = [identity.uuid for _, identity in answers.answers]
    for gpu, identity in answers.answers:
        yield Sample("gpu_uuid", identity.uuid, "", gpu.subject)
        yield Sample("gpus_of_this_uuid", uuids.count(identity.uuid), "GPUs", gpu.subject)
        if identity.serial is not None:
            yield Sample("board_serial", identity.serial, "", gpu.subject)
        if identity.part_number is not None:
            yield Sample("board_part_number", identity.part_number, "", gpu.subject)
    answers.conclude("NVML sees no GPU")


def _identify(gpu: Gpu) -> _Identity:
    return _Identity(gpu.uuid(), gpu.serial(), gpu.board_part_number())
