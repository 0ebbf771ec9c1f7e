"""RDMA devices of a node, as sysfs shows them.

``host: rdma`` names the devices; ``host: rdma_port`` says what all of them have, and each entry
what one has differently (keys: ``PORT``). ``pci`` is the address of its card in the PCI tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.lab.pci_tree import PciTree
from tests.lab.tree_writer import ScenarioError, TreeWriter, section

PORT: Mapping[str, Any] = {
    "pci": "",
    "firmware": "28.39.2048",
    "board": "",
    "node_type": "1: CA",
    "link_layer": "InfiniBand",
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "rate": "400 Gb/sec (4X NDR)",
    "counters": {},
    "pkeys": ["0xffff"],
    "gids": [],
    "interface": "",
}
"""``board``: the maker's id of the design; ``gids``: each ``address`` and ``kind``;
``interface``: its network interface; ``pkeys``: the keys of its partitions."""

COUNTERS = (
    *("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors"),
    *("local_link_integrity_errors", "excessive_buffer_overrun_errors"),
    *("port_xmit_data", "port_rcv_data"),
)


def write_rdma(
    tree: TreeWriter, pci: PciTree, devices: Mapping[str, Any], common: Mapping[str, Any]
) -> None:
    """Write every device with its one port. Raises ScenarioError."""
    for name, own in devices.items():
        says = section(own, f"host: rdma: {name}", section(common, "host: rdma_port", PORT))
        place = pci.places.get(says["pci"])
        if place is None:
            raise ScenarioError(f"host: rdma: {name}: no PCI device {says['pci']!r}")
        card = pci.says(says["pci"])
        if card["gone"] or not card["driver"]:
            continue
        folder = f"{place.folder}/infiniband/{name}"
        tree.write(folder + "/fw_ver", says["firmware"])
        tree.write(folder + "/node_type", says["node_type"])
        if says["board"]:
            tree.write(folder + "/board_id", says["board"])
        tree.link(folder + "/device", place.folder)
        tree.link("sys/class/infiniband/" + name, folder)
        if says["interface"]:
            tree.folder(f"{place.folder}/net/{says['interface']}")
        _write_port(tree, folder + "/ports/1", says)


def _write_port(tree: TreeWriter, port: str, says: Mapping[str, Any]) -> None:
    for name in ("link_layer", "state", "phys_state", "rate"):
        tree.write(f"{port}/{name}", says[name])
    for name, count in section(says["counters"], "counters", dict.fromkeys(COUNTERS, 0)).items():
        tree.write(f"{port}/counters/{name}", str(count))
    for index, key in enumerate([*says["pkeys"], "0x0000"]):
        tree.write(f"{port}/pkeys/{index}", key)
    for index, gid in enumerate(says["gids"]):
        tree.write(f"{port}/gids/{index}", gid["address"])
        tree.write(f"{port}/gid_attrs/types/{index}", gid["kind"])
