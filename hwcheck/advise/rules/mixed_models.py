"""GPUs of several models work together."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="A node holds other GPUs than it should, or several models",
    follows="unlike GPUs have no P2P, and the slowest sets the pace of every collective",
    fix="have the board exchanged for the model of the others, or keep jobs on GPUs of one model",
    confirm="nvidia-smi -L; nvidia-smi topo -p2p r",
    source="the inventory's hwcheck_gpu_model and the majority; unlike boards have no P2P "
    "(NVIDIA/nccl-tests issue 131)",
)
def mixed_models(case: Case) -> Sign | None:
    """Look for it. Firmware and limits that differ with the model follow from it."""
    own = case.bad("gpu_model")
    gpus = {finding.subject for finding in own}
    return sign("certain", (*own, *case.of(gpus, "vbios", "inforom", "power_cap")))
