"""Under which NCCL environment hosts run together: as they are set, or with nothing set. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from hwcheck.contract.collective_spec import SITE, SYSTEM_CONF
from hwcheck.results.options import MultiHostOptions
from hwcheck.run.multi_host.orders import Ready

DEFAULT = "default"
MULTI_HOST_LEGS = (SITE, DEFAULT)
TEXT = 4000


def leg_of(options: MultiHostOptions, ready: Mapping[str, Ready]) -> str:
    """Return the leg: what is asked, or ``site`` where a host has a setting.

    A fabric that needs settings to work at all is not measured without them.
    """
    return options.leg or (SITE if any(each.settings for each in ready.values()) else DEFAULT)


def in_force(leg: str, ready: Mapping[str, Ready]) -> dict[str, str]:
    """Return each host's NCCL settings under a leg; NCCL reads /etc/nccl.conf under any."""
    made = {}
    for name, each in ready.items():
        lines = [
            f"{variable}={value} ({origin})"
            for variable, value, origin in each.settings
            if leg == SITE or origin == SYSTEM_CONF
        ]
        if lines:
            made[name] = ", ".join(lines)[:TEXT]
    return made
