"""What NVML says of where one GPU is: its way to other GPUs, to CPUs and to memory."""

from __future__ import annotations

import re
from typing import Any, Iterable, List, Optional

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.quantities import P2PStatus
from hwcheck.node.nvml.links import LinkReader
from hwcheck.node.nvml.reader import text

ANCESTORS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""nvmlGpuTopologyLevel_t in the words of nvidia-smi; two GPUs of one board share a switch too."""

STATUSES = ("OK", "CNS", "GNS", "TNS", "DR", "NS", "U")
"""nvmlGpuP2PStatus_t in order, as ``nvidia-smi topo -p2p`` prints it."""

READ, WRITE, NVLINK, ATOMICS = range(4)
"""nvmlGpuP2PCapsIndex_t. pynvml 13 has a tuple for the first, so its constants are not used."""

NVLINK_VERSIONS = ("", "1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0", "6.0")
"""NVML_NVLINK_VERSION_* in order."""

CPU_WORDS, NODE_WORDS = 128, 16
"""Words of 64 bits for the most CPUs (8192) and NUMA nodes (1024) that Linux is built for."""

SCOPE_NODE = 0
"""NVML_AFFINITY_SCOPE_NODE."""

NO_ADDRESS = re.compile(r"(?:[fF:]+(?:\.[0-7fF])?)?")
"""What NVML gives for the far end of an NVLink that a guest is not shown: nothing, or all ones
(NVIDIA/nccl, src/graph/xml.cc, ncclTopoGetXmlFromGpu)."""


class TopologyReader(LinkReader):
    """The topology half of ``node.Gpu``. ``peer`` is NVML's index of another GPU."""

    def pcie_path(self, peer: int) -> Optional[str]:
        """PIX, PXB, PHB, NODE or SYS: the way over PCIe to the GPU with this index."""
        name = "nvmlDeviceGetTopologyCommonAncestor"
        level = self.remembered(
            ("path", peer),
            lambda: self.optional("path to gpu%d" % peer, name, self._peer(peer)),
        )
        return None if level is None else ANCESTORS.get(int(level))

    def p2p_status(self, peer: int) -> P2PStatus:
        """Access of this GPU to the memory of the GPU with this index."""
        quantity, name = "P2P with gpu%d" % peer, "nvmlDeviceGetP2PStatus"
        other = self._peer(peer)
        read, write = (self.read(quantity, name, other, index) for index in (READ, WRITE))
        rest = (self.optional(quantity, name, other, index) for index in (NVLINK, ATOMICS))
        nvlink, atomics = (None if code is None else _status(code) for code in rest)
        return P2PStatus(_status(read), _status(write), nvlink, atomics)

    def nvlink_remotes(self) -> List[str]:
        """PCI address of what each active NVLink leads to, in their order.

        It is empty where NVML has none: a guest may not be shown its NVSwitches. Ask where they
        lead to no switch: what is behind one is not told.
        """
        return [self._remote(link.link) for link in self.nvlinks() if link.active]

    def nvlink_version(self) -> Optional[str]:
        """``4.0``; None without an active NVLink or where the driver does not say."""
        # The first active link speaks for all.
        active = [link.link for link in self.nvlinks() if link.active]
        if not active:
            return None
        code = self.optional("NVLink version", "nvmlDeviceGetNvLinkVersion", active[0])
        has_name = code is not None and 0 < int(code) < len(NVLINK_VERSIONS)
        return NVLINK_VERSIONS[int(code)] if has_name else None

    def cpu_affinity(self) -> Optional[str]:
        """CPUs that are near: ``0-31,64-95``."""
        return self._numbers("CPU affinity", "nvmlDeviceGetCpuAffinity", CPU_WORDS)

    def numa_affinity(self) -> Optional[str]:
        """NUMA nodes whose memory is near: ``0``, ``0,3-9``."""
        name = "nvmlDeviceGetMemoryAffinity"
        return self._numbers("NUMA affinity", name, NODE_WORDS, SCOPE_NODE)

    def numa_id(self) -> Optional[int]:
        """NUMA node that the GPU's own memory is; None where it is none."""
        node = self.optional("NUMA id", "nvmlDeviceGetNumaNodeId")
        return None if node is None or int(node) < 0 else int(node)

    def _peer(self, index: int) -> Any:
        if self._problem:
            return None  # what is asked of this GPU will say so
        name = "nvmlDeviceGetHandleByIndex"
        try:
            return self.remembered(("peer", index), lambda: self._nvml.ask((name,), index))
        except CouldNotMeasure as error:
            about = "%s: its peer gpu%d" % (self.subject, index)
            raise CouldNotMeasure.of(error.reason.about(about)) from None

    def _remote(self, link: int) -> str:
        quantity = "far end of NVLink %d" % link
        address = text(self.once(quantity, "nvmlDeviceGetNvLinkRemotePciInfo", link).busId)
        if NO_ADDRESS.fullmatch(address):
            return ""
        try:
            return sysfs_address(address)
        except CouldNotMeasure as error:
            about = "%s: %s" % (self.subject, quantity)
            raise CouldNotMeasure.of(error.reason.about(about)) from None

    def _numbers(self, quantity: str, name: str, words: int, *args: Any) -> Optional[str]:
        mask = self.optional(quantity, name, words, *args)
        if mask is None:
            return None
        numbers = []
        for place, word in enumerate(mask):
            bits = int(word)
            if bits:
                numbers += [64 * place + bit for bit in range(64) if bits >> bit & 1]
        return number_list(numbers) or None


def number_list(numbers: Iterable[int]) -> str:
    """Return ascending numbers as Linux writes a list of CPUs: ``0-31,64-95``."""
    ranges: List[List[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join("%d" % a if a == b else "%d-%d" % (a, b) for a, b in ranges)


def sysfs_address(bus_id: str) -> str:
    """Return NVML's ``00000000:18:00.0`` as sysfs spells it: ``0000:18:00.0``.

    Raises CouldNotMeasure when it is not a PCI address.
    """
    match = re.fullmatch(r"([0-9a-fA-F]+):([0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])", bus_id)
    if not match:
        raise CouldNotMeasure("%r is not a PCI address" % bus_id[:40])
    return "%04x:%s" % (int(match.group(1), 16), match.group(2).lower())


def _status(code: int) -> str:
    return STATUSES[code] if 0 <= code < len(STATUSES) else STATUSES[-1]
