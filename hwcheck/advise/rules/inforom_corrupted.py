"""A board's own record is damaged."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="The infoROM of a GPU is corrupted",
    follows="the board's record of errors, limits and identity cannot be trusted",
    fix="update the infoROM with the vendor's tool, and have the board replaced when it comes back",
    confirm="nvidia-smi -q | grep -i -A6 inforom; sudo dmesg | grep -i inforom",
    source="NVML API Reference Guide, nvmlDeviceValidateInforom",
)
def inforom_corrupted(case: Case) -> Sign | None:
    """Look for it. The checksums hold or they do not."""
    return sign("certain", case.bad("inforom", "inforom_valid"))
