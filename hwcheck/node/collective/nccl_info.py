"""What NCCL says of itself at ``NCCL_DEBUG=INFO``: settings it took, and the way its data went.

Read from the formats of NCCL 2.8 to 2.30 (NVIDIA/nccl: src/misc/param.cc, src/transport/p2p.cc,
shm.cc, net.cc, nvls.cc, src/init.cc, src/enqueue.cc) and of RCCL. Lines of several ranks may run
into each other and carry a launcher's prefix, so nothing is anchored to the start of a line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, Iterable, Iterator, Mapping, Tuple

MOST = 100  # names and messages kept: a log is hostile
CUT = 200  # characters kept of one

_VERSION = re.compile(r"\b[NR]CCL version :? ?(\d{1,3}(?:\.\d{1,5}){1,3})")
_SET = re.compile(r"\b([NR]CCL_[A-Z0-9_]{1,80}) set (?:by environment )?to ([^\s]{0,999})")
# "0[0] -> 1[1] via ...", "0[3000] -> 1[4000] [send] via ...", "0 -> 1 via ..."
_VIA = re.compile(
    r"[\]\d] via (?:(P2P/(?:direct pointer|[A-Za-z]{1,20}))|(SHM)|(direct shared memory)"
    r"|((?:NET|COLLNET)/[^/\n]{1,40})/\d{1,4}(?:\(\d{1,9}\))?(/GDRDMA)?)"
)
_COLL = re.compile(r"(\d{1,4}) coll channels\b|\bcoll channels: ?(\d{1,4})")
_NVLS = re.compile(r"\b(?:[1-9]\d{0,3} nvls channels|nvls channels: ?[1-9]|Connected NVLS tree)")
_ROWS = re.compile(r"\bChannel \d{1,4}/(\d{1,4}) :(?:[ \t]+\d{1,6})+\s*?$", re.M)
_RANKS = re.compile(r"\bn[rR]anks[ :]{1,2}(\d{1,7})\b")
_NETWORK = re.compile(
    r"(?:Using network|Assigned NET plugin) ([\w./-]{1,40}(?: [\w./-]{1,40})??)"
    r"(?: to comm)?\s*?$",
    re.M,
)
_USING = re.compile(r"NET/(IB|Socket) ?: Using ([^\n;]{1,9999})")
_DEVICE = re.compile(r"\[\d{1,4}\]=?\{?([\w.@+:/-]{1,80})")
# Up to 2.22 without the collective's name, and before 2.20 not at all.
_CHOSEN = re.compile(
    r"(?:\b(\w{1,40})(?: \[Symmetric\])?: )?\b\d{1,20} Bytes -> "
    r"(?:Algo (\w{1,20}) proto (\w{1,20})|Kernel (\w{1,80}))"
)
INIT_COMPLETE = "Init COMPLETE"
"""What NCCL prints for each rank of a new communicator (NVIDIA/nccl, src/init.cc, 2.8 to 2.30)."""
UNNAMED = "collective"
"""In ``algorithms`` in place of a name that NCCL does not tell."""
_REFUSED = re.compile(r"Could not enable P2P between|P2P is disabled between")
_WARN = re.compile(r"\bNCCL WARN ([^\n]*)")

# NVIDIA/nccl, src/include/nccl_common.h: older versions print the index.
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")


@dataclass(frozen=True)
class NcclInfo:
    """What one log says; empty, 0 or False where it says nothing.

    ``transports`` counts connections by kind: ``P2P/IPC``, ``P2P/CUMEM``, ``P2P/direct pointer``,
    ``P2P/MNNVL``, ``SHM``, ``NET/Socket``, ``NET/IB`` and so on; ``gdrdma`` how many of the NET
    ones had GPUDirect RDMA. ``nvls``: NCCL made NVLink SHARP channels; whether a collective took
    them is in ``algorithms``, which counts ``AllReduce RING/SIMPLE`` where NCCL_DEBUG_SUBSYS had
    TUNING (from 2.20 on). ``channels`` are those of collectives and ``ranks`` those of the largest
    communicator. ``network`` is the plugin (``IB``, ``Socket``, ``AWS Libfabric``), ``interfaces``
    what it uses (``mlx5_0:1/RoCE``, ``eth0``). ``p2p_refused`` counts pairs to which the driver
    gave no P2P. ``warnings`` are the first distinct ones, cut; ``warning_count`` counts all.
    """

    version: str = ""
    env_set: Mapping[str, str] = field(default_factory=dict)
    transports: Mapping[str, int] = field(default_factory=dict)
    gdrdma: int = 0
    nvls: bool = False
    channels: int = 0
    ranks: int = 0
    algorithms: Mapping[str, int] = field(default_factory=dict)
    network: str = ""
    interfaces: Tuple[str, ...] = ()
    p2p_refused: int = 0
    warnings: Tuple[str, ...] = ()
    warning_count: int = 0


def read(text: str) -> NcclInfo:
    """Return what a log says. Any text is accepted; what is not NCCL's is passed over."""
    version, network = _VERSION.search(text), _NETWORK.search(text)
    ways = [_way(match) for match in _VIA.finditer(text)]
    channels = [int(one or other) for one, other in _COLL.findall(text)]
    warnings = [match.group(1).strip()[:CUT] for match in _WARN.finditer(text)]
    return NcclInfo(
        version=version.group(1) if version else "",
        env_set=_settings(text),
        transports=_counts(kind for kind, _ in ways),
        gdrdma=sum(direct for _, direct in ways),
        nvls=bool(_NVLS.search(text)),
        channels=max(channels or map(int, _ROWS.findall(text)), default=0),
        ranks=max(map(int, _RANKS.findall(text)), default=0),
        algorithms=_counts(_choices(text)),
        network=network.group(1) if network else "",
        interfaces=tuple(_counts(_interfaces(text))),
        p2p_refused=len(_REFUSED.findall(text)),
        warnings=tuple(_counts(warnings)),
        warning_count=len(warnings),
    )


def _way(match: re.Match[str]) -> Tuple[str, bool]:
    p2p, shm, shared, net, direct = match.groups()
    return p2p or net or ("SHM" if shm or shared else ""), bool(direct)


def _settings(text: str) -> Dict[str, str]:
    """Return the variables; NCCL ends a number with a period, and a word with none."""
    settings: Dict[str, str] = {}
    for name, value in _SET.findall(text):
        if name in settings or len(settings) < MOST:
            number = re.fullmatch(r"(-?\d+)\.", value)
            settings[name] = number.group(1) if number else value[:CUT]
    return settings


def _choices(text: str) -> Iterator[str]:
    for collective, algorithm, protocol, kernel in _CHOSEN.findall(text):
        way = kernel or "%s/%s" % (_name(algorithm, _ALGORITHMS), _name(protocol, _PROTOCOLS))
        yield "%s %s" % (collective or UNNAMED, way)


def _name(text: str, names: Tuple[str, ...]) -> str:
    index = int(text) if text.isdigit() else -1
    return names[index] if 0 <= index < len(names) else text.upper()


def _interfaces(text: str) -> Iterator[str]:
    for kind, using in _USING.findall(text):
        for device in _DEVICE.findall(using):
            yield device if kind == "IB" else device.partition(":")[0]


def _counts(names: Iterable[str]) -> Dict[str, int]:
    """Count each name; names beyond the first hundred are passed over."""
    counts: Dict[str, int] = {}
    for name in names:
        if name in counts or len(counts) < MOST:
            counts[name] = counts.get(name, 0) + 1
    return counts
