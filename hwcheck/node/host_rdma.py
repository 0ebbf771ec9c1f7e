"""RDMA devices and their ports as sysfs shows them."""

from __future__ import annotations

import os
import re
from typing import Dict, List, Tuple

from hwcheck.node.host_facts import Gid, RdmaPort
from hwcheck.node.tree import Tree

CLASS = "sys/class/infiniband/"
COUNTERS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
"""Error counters of a port (Linux ABI, stable/sysfs-class-infiniband)."""

EMPTY_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


class RdmaReader(Tree):
    """The RDMA half of ``check.Host``."""

    def rdma_ports(self) -> List[RdmaPort]:
        """See ``check.Host``."""
        return [
            self._rdma_port(device, port)
            for device in self._list(CLASS)
            for port in self._list(CLASS + device + "/ports")
        ]

    def _rdma_port(self, device: str, number: str) -> RdmaPort:
        port = "%s%s/ports/%s/" % (CLASS, device, number)
        rate = self._read(port + "rate")
        gbps = re.match(r"([\d.]+) Gb/sec", rate)
        lanes = re.search(r"\((\d+)X", rate)
        driver = os.path.realpath(self._path(CLASS + device + "/device/driver"))
        return RdmaPort(
            name="%s/%s" % (device, number),
            driver=os.path.basename(driver) if os.path.isdir(driver) else "",
            firmware=self._read(CLASS + device + "/fw_ver").strip(),
            link_layer=self._read(port + "link_layer").strip(),
            state=_word(self._read(port + "state")),
            physical_state=_word(self._read(port + "phys_state")),
            rate_gbps=float(gbps.group(1)) if gbps else None,
            lanes=int(lanes.group(1)) if lanes else None,
            counters=self._counters(port + "counters/"),
            gids=() if self._is_iwarp(device) else self._gids(port),
        )

    def _is_iwarp(self, device: str) -> bool:
        # iWARP devices have a GID table too, and no RoCE.
        return "RNIC" in self._read(CLASS + device + "/node_type")

    def _counters(self, folder: str) -> Dict[str, int]:
        texts = {name: self._read(folder + name).strip() for name in COUNTERS}
        return {name: int(text) for name, text in texts.items() if text.isdigit()}

    def _gids(self, port: str) -> Tuple[Gid, ...]:
        found = []
        for index in self._list(port + "gids"):
            address = self._read(port + "gids/" + index).strip()
            if index.isdigit() and address and address != EMPTY_GID:
                kind = self._read(port + "gid_attrs/types/" + index).strip()
                found.append(Gid(int(index), address, kind))
        return tuple(sorted(found, key=lambda gid: gid.index))


def _word(text: str) -> str:
    # "4: ACTIVE"
    return text.partition(":")[2].strip()
