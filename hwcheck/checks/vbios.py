"""All GPUs of one kind have the same VBIOS."""

from __future__ import annotations

from typing import Iterator, Optional

from hwcheck.contract.check import Metric, Remedy, Varies, check
from hwcheck.contract.limits import Equal, FromInventory, FromSample, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import AnswerOfKind, Survey, among_equals, of_kind
from hwcheck.node.node import Gpu, Node


@check(
    metrics=[
        Metric(
            "vbios",
            "",
            "version of the VBIOS",
            (
                Equal(
                    FromInventory("vbios"),
                    source="the inventory's hwcheck_vbios",
                    confidence="inventory",
                ),
                like_most(
                    "NVML API Reference Guide, nvmlDeviceGetVbiosVersion: boards of one model and "
                    "PCI subsystem id take the same VBIOS, on whichever node"
                ),
                Equal(
                    FromSample("vbios_of_most"),
                    source="derived from NVML API Reference Guide, nvmlDeviceGetVbiosVersion: "
                    "boards of one model and PCI subsystem id take the same VBIOS",
                    confidence="derived",
                    otherwise="warn",
                ),
            ),
            required=True,
            fact="vbios",
        ),
        Metric(
            "vbios_of_most",
            "",
            "VBIOS that most boards of this kind have in this node",
            required=True,
            varies=Varies("as vbios", hosts=False, neighbors=False),
        ),
    ],
    remedy=Remedy(
        cause="a board that was exchanged, or a firmware update that did not reach every GPU",
        fix="bring all boards to one version with the server vendor's firmware update, then power "
        "the node off and on",
        command="nvidia-smi --query-gpu=index,name,vbios_version --format=csv",
    ),
    per_gpu=True,
    optional="a VBIOS version that can be read",
    group="GPUs",
    stage="inventory",
)
def vbios(node: Node) -> Iterator[Sample]:
    """Read the VBIOS version of each GPU, and hold it against boards of its kind and the inventory.

    The VBIOS holds clocks, power and link settings: two versions in one node are two behaviors in
    one job. Only boards of one model and subsystem id are held against each other, since board
    makers have versions of their own.
    """
    answers = Survey(node, _version)
    yield from among_equals("vbios", [answer for _, answer in answers.answers])
    answers.conclude("no GPU of this node tells its VBIOS version")


def _version(gpu: Gpu) -> Optional[AnswerOfKind]:
    version = gpu.vbios()
    return None if version is None else of_kind(gpu, version)
