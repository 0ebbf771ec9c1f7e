"""What NVML says of pairs of GPUs, from a scenario's paths and exceptions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.lab.nvml_readers import constants, one_of

LEVELS = constants("NVML_TOPOLOGY_")
STATUSES = constants("NVML_P2P_STATUS_", lower=False)
CAPABILITIES = {"read": "read", "write": "write", "nvlink": "nvlink", "atomics": "atomics",
                "pci": "pci", "prop": "pci"}  # fmt: skip


def pairs(key: str, name: str, gpus: int) -> list[tuple[int, int]]:
    """Return the ordered pairs of ``all``, ``0-1`` (both ways) or ``1>0``. Raises ValueError."""
    if name == "all":
        return [(one, other) for one in range(gpus) for other in range(gpus) if one != other]
    match = re.fullmatch(r"(\d+)([->])(\d+)", str(name))
    one, other = (int(match[1]), int(match[3])) if match else (0, 0)
    if not match or one == other or max(one, other) >= gpus:
        raise ValueError(f"{key}: {name!r} is not a pair of these {gpus} GPUs, such as 0-1 or 1>0")
    return [(one, other), (other, one)] if match[2] == "-" else [(one, other)]


def level(one: str, other: str) -> int:
    """Return the nearest thing that two paths have in common."""
    here, there = one.split("/"), other.split("/")
    shared = 0
    while shared < min(len(here), len(there)) and here[shared] == there[shared]:
        shared += 1
    if shared == 0:
        return LEVELS["system"]
    if shared == 1:
        return LEVELS["node"]
    if shared == 2:
        return LEVELS["hostbridge"]
    if here[shared - 1].startswith("board"):
        return LEVELS["internal"]
    ends = {each[shared:][:1][0] if each[shared:] else "" for each in (here, there)}
    beside = all(not end or end.startswith("board") for end in ends)
    return LEVELS["single"] if beside else LEVELS["multiple"]


def topology_lines(gpus: Sequence[Mapping[str, Any]], given: Mapping[str, str]) -> dict[str, str]:
    """Return the level of each pair whose paths are known, or that is given."""
    found = {
        f"topology.{one}.{other}": str(level(here["path"], there["path"]))
        for one, here in enumerate(gpus)
        for other, there in enumerate(gpus)
        if one != other and "path" in here and "path" in there
    }
    for name, value in given.items():
        for one, other in pairs("topology", name, len(gpus)):
            found |= one_of(LEVELS)(f"topology.{one}.{other}", value)
    return found


def p2p_lines(gpus: int, given: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the status of each ordered pair and capability; the most exact name counts."""
    found: dict[str, str] = {}
    for name in sorted(given, key=lambda name: (name != "all", ">" in name)):
        for capability, status in given[name].items():
            if capability not in CAPABILITIES:
                raise ValueError(f"p2p: {name}: unknown capability {capability!r}")
            for one, other in pairs("p2p", name, gpus):
                key = f"p2p.{one}.{other}.{CAPABILITIES[capability]}"
                found |= one_of(STATUSES)(key, status)
    return found
