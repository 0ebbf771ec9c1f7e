"""The infoROM of every board is intact, and of one version for boards of one kind."""

from __future__ import annotations

from typing import Iterator, Optional, Tuple

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import Equal, FromSample, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import AnswerOfKind, Survey, among_equals, of_kind
from hwcheck.node.node import Gpu, Node

INFOROM_IMAGE = Metric(
    "inforom_image",
    "",
    "version of the infoROM image",
    (
        Equal(
            FromSample("inforom_image_of_most"),
            source="derived from NVML API Reference Guide, "
            "nvmlDeviceGetInforomImageVersion: boards of one model and PCI subsystem id "
            "take the same image",
            confidence="derived",
            otherwise="warn",
        ),
        like_most(
            "NVML API Reference Guide, nvmlDeviceGetInforomImageVersion: boards of one "
            "model and PCI subsystem id take the same image, on whichever node"
        ),
    ),
)


@check(
    metrics=[
        Metric(
            "inforom_valid",
            "",
            "whether the checksums of the infoROM hold",
            (
                Equal(
                    True,
                    source="NVML API Reference Guide, nvmlDeviceValidateInforom "
                    "(NVML_ERROR_CORRUPTED_INFOROM)",
                ),
            ),
        ),
        INFOROM_IMAGE,
        Metric("inforom_image_of_most", "", "image that most boards of this kind have here"),
    ],
    remedy=Remedy(
        cause="power lost while the board wrote to its infoROM, or a board of another lot",
        fix="corrupted: update the infoROM with the vendor's tool, and have the board replaced "
        "when that fails; errors are not remembered until then. Another version: align firmware",
        command="nvidia-smi -q | grep -A5 -i inforom",
    ),
    per_gpu=True,
    optional="an infoROM that can be read",
    group="GPUs",
    stage="inventory",
)
def inforom(node: Node) -> Iterator[Sample]:
    """Verify the checksums of each board's infoROM, and compare its version.

    The infoROM keeps what a board remembers: ECC counts, retired pages and remapped rows, power
    limits. With a corrupted one a board starts without its repairs and its history.
    """
    answers = Survey(node, _ask)
    for gpu, (valid, _) in answers.answers:
        if valid is not None:
            yield Sample("inforom_valid", valid, "", gpu.subject)
    images = [image for _, (_, image) in answers.answers if image is not None]
    yield from among_equals("inforom_image", images)
    answers.conclude("no GPU of this node tells of its infoROM")


def _ask(gpu: Gpu) -> Optional[Tuple[Optional[bool], Optional[AnswerOfKind]]]:
    valid, image = gpu.inforom_valid(), gpu.inforom_image()
    if valid is None and image is None:
        return None
    return valid, None if image is None else of_kind(gpu, image)
