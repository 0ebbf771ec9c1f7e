"""RDMA ports of one node that are alike: what one of them has, the others should have too."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Tuple

from hwcheck.contract.facts import RdmaPort
from hwcheck.node.node import NodeHost
from hwcheck.node.pcie import Place, pci_path, place_of


class PortPlace(NamedTuple):
    """Where a port is. Ports with the same ``kind`` are cabled alike.

    The kind is the card's design, the link layer, the place on the card and the way to a GPU;
    ``path`` is that way, PIX or PXB, with the addresses of the ``gpus`` that are so near. Both are
    empty where no GPU is. A port whose card's design nobody says is like no other.
    """

    kind: Tuple[str, ...]
    path: str
    gpus: Tuple[str, ...]


def sites(host: NodeHost, ports: List[RdmaPort]) -> Dict[str, PortPlace]:
    """Return the site of each port by its name."""
    gpus = [place_of(host, address) for address in host.pci_gpus()]
    by_port = {}
    for port in ports:
        path, near = _nearest(host, port.pci_address, gpus)
        function, number = port.pci_address.rpartition(".")[2], port.name.rpartition("/")[2]
        kind = (port.design or port.name, port.link_layer, function, number, path)
        by_port[port.name] = PortPlace(kind, path, near)
    return by_port


def near_gpus(host: NodeHost, pci_address: str) -> str:
    """Return the way from a card to the GPUs nearest to it, in words; empty where none is near."""
    path, near = _nearest(host, pci_address, [place_of(host, each) for each in host.pci_gpus()])
    return "%s to the GPU at %s" % (path, ", ".join(near)) if near else ""


def _nearest(host: NodeHost, pci_address: str, gpus: List[Place]) -> Tuple[str, Tuple[str, ...]]:
    if pci_address:
        place = place_of(host, pci_address)
        for path in ("PIX", "PXB"):
            near = tuple(gpu.address for gpu in gpus if pci_path(place, gpu) == path)
            if near:
                return path, near
    return "", ()
