"""Firmware of boards differs."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="Boards of one kind run different firmware (VBIOS, infoROM, network card)",
    follows="limits, fixes and behavior differ between boards that should be alike",
    fix="bring all boards to one version with the server vendor's firmware update, then power "
    "the node off and on",
    confirm="nvidia-smi --query-gpu=index,vbios_version,inforom.img --format=csv; ibstat | grep "
    "-i firmware",
    source="NVML API Reference Guide, nvmlDeviceGetVbiosVersion; the majority of like boards",
)
def firmware_differs(case: Case) -> Sign | None:
    """Look for it. Versions are the same or they are not."""
    images = case.bad("inforom", "inforom_image")
    return sign("certain", (*case.bad("vbios"), *images, *case.bad("infiniband_ports", "firmware")))
