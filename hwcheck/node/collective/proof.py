"""What NCCL says about a leg against what the leg was to be."""

from __future__ import annotations

from typing import Dict, List, Mapping

from hwcheck.contract.collective_spec import COMMON_ENV, LOGGING, NO_CONF, SITE, LegPlan
from hwcheck.contract.reasons import NONE, OTHER_WAY, UNPROVEN, Reason
from hwcheck.contract.wire import Value
from hwcheck.node.collective.nccl_info import CUT, NcclInfo

# What must not be seen in a leg, and one of which must be seen in it.
FORBIDDEN: Mapping[str, List[str]] = {"p2p_off": ["P2P"], "net": ["P2P", "SHM", "NVLS"]}
WANTED: Mapping[str, List[str]] = {
    "net": ["NET", "COLLNET"],
    "p2p_sys": ["P2P"],
    "prove_transport": ["P2P", "SHM"],  # its environment allows neither, see gates
}
# Older versions tell what NCCL_P2P_DISABLE=1 comes to (NVIDIA/nccl, src/graph/paths.cc).
PRINTED_AS = {"NCCL_P2P_DISABLE": ("NCCL_P2P_LEVEL", "LOC")}
# NCCL looks only at the GPUs' paths to the switch (src/transport/nvls.cc, ncclNvlsInit;
# src/graph/search.cc, ncclTopoSearchTryNvls); without P2P and SHM it sees one GPU, and no NVLS.
NVLS_NOTE = "NCCL_P2P_DISABLE left NVLS on: this figure is of NVLink, not of shared memory"
PERHAPS_NVLS_NOTE = (
    "NCCL_P2P_DISABLE left channels of NVLS, and NCCL before 2.20 does not say what a collective "
    "takes: this figure may be of NVLink, not of shared memory"
)
MOST_KINDS = 20
TEXT = 200


def facts(info: NcclInfo) -> Dict[str, Value]:
    """Return what a log says of the way of the data, for the leg's record."""
    shown: Dict[str, Value] = dict(list(info.transports.items())[:MOST_KINDS])
    shown.update(gdrdma=info.gdrdma, nvls=info.nvls, channels=info.channels)
    if info.algorithms:
        shown["algorithms"] = ", ".join(info.algorithms)[:TEXT]
    if info.network:
        shown["network"] = (" ".join((info.network, *info.interfaces)))[:TEXT]
    taken = [
        "%s=%s" % (name, value)
        for name, value in info.env_set.items()
        if name not in {*COMMON_ENV, *NO_CONF} and not name.startswith(LOGGING)
    ]
    if taken:
        shown["settings"] = ", ".join(taken)[:TEXT]
    if info.p2p_refused:
        shown["p2p_refused"] = info.p2p_refused
    return shown


def by_nvls(info: NcclInfo) -> bool:
    """Whether a collective went through the NVSwitch: such a way has no connection to name."""
    return any(" NVLS" in name for name in info.algorithms)


def perhaps_by_nvls(info: NcclInfo) -> bool:
    """Whether NCCL made channels of NVLS and is too old to say what a collective takes."""
    if not info.nvls or not info.version:
        return False
    major, minor = info.version.split(".")[:2]
    return (int(major), int(minor)) < (2, 20)


def notes(plan: LegPlan, info: NcclInfo) -> List[str]:
    """Return what a reader must know of a leg that did what it was to do."""
    if plan.name != "p2p_off":
        return []
    if by_nvls(info):
        return [NVLS_NOTE]
    return [PERHAPS_NVLS_NOTE] if perhaps_by_nvls(info) else []


def problem(plan: LegPlan, info: NcclInfo, *, read_env: bool = True) -> Reason:
    """Return why the leg did not use what it is to measure, or ``NONE``.

    Of two ranks or more. ``read_env`` is False where NCCL has no reason to look its variables up:
    ranks that are hosts of their own have no P2P to disable.
    """
    for name, value in plan.env.items() if read_env else ():
        taken = info.env_set.get(name)
        other, meaning = PRINTED_AS.get(name, ("", ""))
        as_set = info.env_set.get(other) == meaning if taken is None else _same(value, taken)
        # Of a node's own settings NCCL names those that it comes to look up.
        if not (as_set or (taken is None and plan.name == SITE)):
            words = "took %s" % taken[:TEXT] if taken else "does not say that it took it"
            return Reason(UNPROVEN, "%s=%s was set and NCCL %s" % (name, value, words))
    kinds = {kind.partition("/")[0] for kind in info.transports}
    if by_nvls(info) or perhaps_by_nvls(info):
        kinds.add("NVLS")
    if not kinds:
        return Reason(UNPROVEN, "NCCL names no connection between the ranks")
    for kind in FORBIDDEN.get(plan.name, []):
        if kind in kinds:
            return Reason(OTHER_WAY, "NCCL used %s" % kind)
    wanted = WANTED.get(plan.name, [])
    if wanted and not kinds & set(wanted):
        words = "NCCL used %s, not %s" % (" and ".join(sorted(kinds)), wanted[0])
        return Reason(OTHER_WAY, words)
    return NONE


def _same(value: str, taken: str) -> bool:
    """Whether NCCL took a value as it was set: it prints numbers in decimal and levels by name."""
    try:
        return int(value, 0) == int(taken)
    except ValueError:  # a reader takes no more of a value than this
        return value.isdigit() or (value[:CUT].split() or [""])[0] == taken.rstrip(".")
