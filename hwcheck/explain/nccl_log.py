"""NCCL's own log: transports and settings (``nccl_info``), its view of the node, its warnings.

Formats and constants: NVIDIA/nccl, src/graph/topo.cc (ncclTopoPrintRec), topo.h, xml.cc.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from hwcheck.advise.nccl_network import CHOOSES_GIDS
from hwcheck.explain import diag_notes
from hwcheck.explain.records import Graph, NcclLog
from hwcheck.judge.versions import nccl_defects, numbers
from hwcheck.node.collective import nccl_info
from hwcheck.node.collective.nccl_info import NcclInfo
from hwcheck.node.fabric_health import decode
from hwcheck.text import count, line, number

MOST_SPEEDS = 20
PCIE = {
    3.0: "Gen1 x16 or narrower and faster",
    6.0: "Gen2 x16 or Gen3 x8",
    12.0: "Gen3 x16 or Gen4 x8",
    24.0: "Gen4 x16 or Gen5 x8",
    48.0: "Gen5 x16",
    96.0: "Gen6 x16",
}
"""Width times speed over 80 (src/graph/topo.cc, kvDictPciGen), in GB/s each way."""

SOCKET_LINKS = {
    6.0: "an older Intel, or an Arm CPU",
    10.0: "Intel of the Skylake class",
    16.0: "AMD",
    22.0: "Intel of the Sapphire Rapids class",
    32.0: "POWER9",
    40.0: "Intel of the Emerald Rapids class",
}
"""The link between sockets as NCCL reckons it, in GB/s each way (src/graph/topo.h)."""

_LINE = re.compile(r":\d{1,9}:\d{1,9} \[\d{1,5}\] (?:\S{1,80} )?NCCL (?:INFO|WARN)\b")
_CPU = re.compile(r"\bCPU/[\dA-Fa-f-]{1,20} \((-?\d{1,3})/(-?\d{1,3})/(-?\d{1,3})\)")
_LINK = re.compile(r"\+ (PCI|SYS|NVL|NET|C2C|PXN)\[(\d{1,6}(?:\.\d{1,3})?)\]")
_SAME_GPU = re.compile(r"\bGPU/[\dA-Fa-f-]{1,20} ?:(?=GPU)")
_PATH = re.compile(r"GPU/[\dA-Fa-f-]{1,20} \(\d{1,3}/[\d.]{1,12}/([A-Z0-9]{2,4})\)")
_MNNVL = re.compile(
    r"MNNVL busId 0x[\da-fA-F]{1,16} fabric UUID [\da-fA-F]{1,16}\.[\da-fA-F]{1,16} "
    r"cliqueId 0x([\da-fA-F]{1,8}) state \d{1,3} healthMask 0x([\da-fA-F]{1,8})\b"
)
"""What src/init.cc prints of the fabric for each rank (fillInfo, NCCL 2.21 on)."""

NO_CLIQUE = 0x7FFE
"""What stands for no clique (a rack whose trays joined none, seen with NCCL hanging there)."""

SHM = "/dev/shm"  # noqa: S108 - the kernel's own name
_SEGMENT = re.compile(SHM + r"/\S{1,80}.{0,40}?(\d{4,15})")


def read(file: str, text: str) -> NcclLog | None:
    """Return what NCCL said, or None where this is no log of NCCL."""
    info = nccl_info.read(text)
    graph = _graph(text)
    if info == NcclInfo() and graph == Graph() and not _LINE.search(text):
        return None
    notes = (*info_notes(info), *fabric_notes(text), *diag_notes.notes(text), *_graph_notes(graph))
    return NcclLog(file, info, graph, notes)


def info_notes(info: NcclInfo) -> Iterator[str]:
    """Yield what the log means for whoever reads it."""
    if info.version or info.transports:
        version = f"NCCL {info.version}" if info.version else "NCCL of a version not named"
        ways = ", ".join(f"{line(kind, 60)} x{n}" for kind, n in info.transports.items())
        yield f"{version}; data went by {ways}" if ways else version
    if "NET/Socket" in info.transports:
        yield "NET/Socket is TCP: with RDMA NICs on the node this is the wrong network transport"
    net = sum(n for kind, n in info.transports.items() if kind.startswith("NET/"))
    rdma = net - info.transports.get("NET/Socket", 0)
    if rdma and not info.gdrdma:
        yield "no connection has GPUDirect RDMA: data is copied through host memory"
    set_here = {name: value for name, value in info.env_set.items() if "_DEBUG" not in name}
    if set_here:
        named = ", ".join(
            f"{name}={line(value, 60)}" for name, value in list(set_here.items())[:12]
        )
        yield f"set in its environment: {named}"
    yield from _version_notes(info)
    if info.p2p_refused:
        yield f"P2P was refused {count(info.p2p_refused, 'time')}: see nvidia-smi topo -p2p r"
    yield from _warning_notes(info)


def _version_notes(info: NcclInfo) -> Iterator[str]:
    """Yield what is known of this version: its defects, and a setting that it does not need."""
    defects = [
        defect for defect in nccl_defects() if info.version and defect.concerns(info.version)
    ]
    for defect in defects:
        if not defect.needs:
            yield f"NCCL {info.version} is known for this: {defect}; {defect.remedy}"
    others = [str(defect) for defect in defects if defect.needs]
    if others:
        yield f"known of NCCL {info.version}: {'; '.join(others)}"
    index = info.env_set.get("NCCL_IB_GID_INDEX")
    if index is not None and numbers(info.version)[:2] >= CHOOSES_GIDS:
        yield (
            f"NCCL_IB_GID_INDEX={line(index, 20)} is set: from 2.21 on NCCL chooses the RoCE v2 "
            "GID of each port itself, and a fixed index is right only where every port of every "
            "node has its address there"
        )


def fabric_notes(text: str) -> Iterator[str]:
    """Yield what NCCL was told of the NVLink fabric: its health, and a clique that is none."""
    masks = Counter(int(mask, 16) for _, mask in _MNNVL.findall(text))
    for mask, times in sorted(masks.items()):
        degraded, unhealthy = decode(mask)
        of = f"healthMask {mask:#x} of {count(times, 'GPU')}"
        wrong = [f"is unhealthy ({unhealthy})"] if unhealthy else []
        wrong += [f"does without, or repairs, its {degraded}"] if degraded else []
        if wrong:
            yield f"{of}: the NVLink fabric {' and '.join(wrong)}"
        elif mask:
            yield (
                f"{of} is a healthy NVLink fabric: each condition has two bits, and 2 means that "
                "it is not there (NVIDIA/nccl issue 2186 read 0xaa as half of the paths lost)"
            )
    cliques = {int(clique, 16) for clique, _ in _MNNVL.findall(text)}
    if NO_CLIQUE in cliques:
        yield (
            f"cliqueId {NO_CLIQUE:#x} is no clique: the fabric has none for these GPUs, so NVLink "
            "over several hosts does not start; see nvidia-imex and the fabric manager"
        )


def _warning_notes(info: NcclInfo) -> Iterator[str]:
    for warning in info.warnings[:5]:
        yield f"it warned: {line(warning, 200)}"
    shm = [warning for warning in info.warnings if SHM in warning]
    if shm:
        sizes = [int(size) for warning in shm for size in _SEGMENT.findall(warning)]
        needed = f": a segment of {max(sizes)} bytes had no room" if sizes else ""
        yield (
            f"{SHM} is too small{needed}; enlarge it (docker --shm-size=1g, or an emptyDir in "
            "memory), and leave NCCL_SHM_DISABLE unset"
        )
    if any("NVLINK connected GPUs" in warning for warning in info.warnings):
        yield "P2P is refused between GPUs that NVLink joins: an inactive or broken NVLink"
    if any("NVLS" in warning for warning in info.warnings):
        yield "NVLink SHARP cannot be set up: see the Fabric Manager"


def _graph(text: str) -> Graph:
    cpus = dict.fromkeys(_CPU.findall(text[: 1 << 22]))
    speeds: dict[str, set[float]] = {}
    for kind, speed in _LINK.findall(text):
        of_kind = speeds.setdefault(kind, set())
        if len(of_kind) < MOST_SPEEDS:
            of_kind.add(float(speed))
    paths: Counter[str] = Counter()
    for row in text.split("\n"):
        if _SAME_GPU.search(row[:4000]):
            paths.update(kind for kind in _PATH.findall(row[:4000]) if kind != "LOC")
    return Graph(
        tuple((int(arch), int(vendor), int(model)) for arch, vendor, model in list(cpus)[:16]),
        {kind: tuple(sorted(figures)) for kind, figures in speeds.items()},
        dict(paths),
    )


def _graph_notes(graph: Graph) -> Iterator[str]:
    for speed in graph.links_gbps.get("PCI", ()):
        link = PCIE.get(speed, "a degraded or unusual link")
        yield f"PCIe {number(speed)} GB/s: {link}, by what the port can do, not by what it does"
    for speed in graph.links_gbps.get("SYS", ()):
        link = SOCKET_LINKS.get(speed, "a kind that is not known here")
        yield f"between sockets {number(speed)} GB/s, as NCCL reckons for {link}"
    if graph.paths:
        ways = ", ".join(f"{n} {kind}" for kind, n in sorted(graph.paths.items()))
        yield f"ways from GPU to GPU in the rows shown: {ways}"
