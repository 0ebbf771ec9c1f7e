"""RDMA devices and their ports as sysfs shows them."""

from __future__ import annotations

import os
import re
from typing import Dict, List, Optional, Tuple

from hwcheck.contract.facts import Gid, RdmaPort
from hwcheck.node.host.pci import ADDRESS, PciReader

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

HW_COUNTERS = (
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "out_of_buffer",
    "rx_icrc_encapsulated",
    "roce_adp_retrans",
    "roce_slow_restart",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
)
"""Transport counters of mlx5 (NVIDIA, Understanding mlx5 Linux Counters and Status Parameters).
Other drivers have some of them or none."""

PKEY = re.compile(r"0x[0-9a-f]{1,4}")
EMPTY_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


class RdmaReader(PciReader):
    """The RDMA half of ``node.NodeHost``."""

    _keys: Optional[Dict[str, Tuple[int, ...]]] = None

    def rdma_ports(self) -> List[RdmaPort]:
        """Ports of the RDMA devices; empty without any.

        Virtual functions beside their card and bridges that manage NVSwitches are left out.
        """
        return [
            self._rdma_port(device, port)
            for device in self._list(CLASS)
            if not os.path.lexists(self._path(CLASS + device + "/device/physfn"))
            and os.path.basename(self._resolve(CLASS + device + "/device"))
            not in self._switch_bridges()
            for port in self._list(CLASS + device + "/ports")
        ]

    def _rdma_port(self, device: str, number: str) -> RdmaPort:
        port = "%s%s/ports/%s/" % (CLASS, device, number)
        rate = self._read(port + "rate")
        gbps = re.match(r"([\d.]+) Gb/sec", rate)
        lanes = re.search(r"\((\d+)X", rate)
        driver = os.path.realpath(self._path(CLASS + device + "/device/driver"))
        address = os.path.basename(self._resolve(CLASS + device + "/device"))
        is_pci = bool(ADDRESS.fullmatch(address))
        return RdmaPort(
            name="%s/%s" % (device, number),
            driver=os.path.basename(driver) if os.path.isdir(driver) else "",
            firmware=self._read(CLASS + device + "/fw_ver").strip(),
            link_layer=self._read(port + "link_layer").strip(),
            state=_word(self._read(port + "state")),
            physical_state=_word(self._read(port + "phys_state")),
            rate_gbps=float(gbps.group(1)) if gbps else None,
            lanes=int(lanes.group(1)) if lanes else None,
            counters={
                **self._counters(port + "counters/", COUNTERS),
                **self._counters(port + "hw_counters/", HW_COUNTERS),
            },
            gids=self._gids(port),
            board=self._read(CLASS + device + "/board_id").strip(),
            may_be_bridge=self._may_be_bridge(address),
            pci_address=address if is_pci else "",
            pci_ids=self.pci_ids(address) if is_pci else "",
            pkeys=self._pkeys(port),
            iwarp="RNIC" in self._read(CLASS + device + "/node_type"),
        )

    def _counters(self, folder: str, names: Tuple[str, ...]) -> Dict[str, int]:
        texts = {name: self._read(folder + name).strip() for name in names}
        return {name: int(text) for name, text in texts.items() if text.isdigit()}

    def _pkeys(self, port: str) -> Tuple[int, ...]:
        if self._keys is None:
            self._keys = {}
        if port not in self._keys:  # mlx5 asks the card's firmware for each of 128 entries
            folder = port + "pkeys/"
            texts = (self._read(folder + index).strip() for index in self._list(folder))
            keys = {int(text, 16) for text in texts if PKEY.fullmatch(text)}
            self._keys[port] = tuple(sorted(keys - {0}))
        return self._keys[port]

    def _gids(self, port: str) -> Tuple[Gid, ...]:
        gids = []
        for index in self._list(port + "gids"):
            address = self._read(port + "gids/" + index).strip()
            if index.isdigit() and address and address != EMPTY_GID:
                kind = self._read(port + "gid_attrs/types/" + index).strip()
                gids.append(Gid(int(index), address, kind))
        return tuple(sorted(gids, key=lambda gid: gid.index))


def _word(text: str) -> str:
    # "4: ACTIVE"
    return text.partition(":")[2].strip()
