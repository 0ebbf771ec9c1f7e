"""The health that a GPU reports of its NVSwitch fabric: a mask of small fields, in words.

NVML API Reference Guide, Fabric definitions: a flag has two bits, of which 1 means that it is so, 2
that it is not, and 0 that the driver does not say. So 0xaa is a fabric of which all is well.
"""

from __future__ import annotations

from typing import Tuple

DEGRADED = (("bandwidth", 0), ("route recovery", 2), ("access timeout recovery", 6))
UNHEALTHY = (("route", 4),)
CONFIGURATION_SHIFT, CONFIGURATION_MASK = 8, 0xF
CONFIGURATIONS = (
    "",
    "",
    "wrong system GUID",
    "wrong chassis serial number",
    "no partition",
    "too few NVLinks",
    "incompatible GPU firmware",
    "invalid location",
    "invalid GPU state",
)
"""NVML_GPU_FABRIC_HEALTH_MASK_*: flags are two bits (1 is true), the configuration is four."""


def decode(mask: int) -> Tuple[str, str]:
    """Return what the fabric does without or repairs, and what is wrong with it; in words."""
    configuration = (mask >> CONFIGURATION_SHIFT) & CONFIGURATION_MASK
    problem = CONFIGURATIONS[configuration] if configuration < len(CONFIGURATIONS) else ""
    unhealthy = [flag for flag, shift in UNHEALTHY if (mask >> shift) & 3 == 1]
    return (
        ", ".join(flag for flag, shift in DEGRADED if (mask >> shift) & 3 == 1),
        ", ".join(unhealthy + [problem] * bool(problem)),
    )
