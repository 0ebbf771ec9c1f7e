"""What a host is like for collectives over several, and where the others reach it."""

from __future__ import annotations

import fcntl
import socket
import struct
from typing import Any, Dict, Optional, Sequence, Tuple

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.collective_spec import LOGGING
from hwcheck.contract.reasons import of_errno
from hwcheck.node.node import Gpu, Node

TEXT = 300
MOST = 100


def description_of(node: Node, gpus: int) -> Dict[str, Any]:
    """Return the GPUs' model and NVLink domain, the RDMA ports, and the NCCL settings."""
    ports = node.host.rdma_ports()
    models = sorted({gpu.name() for gpu in node.gpus()}) if gpus else []
    return {
        "model": ", ".join(models)[:TEXT],
        "rdma_ports": len(ports),
        "rdma_active": sum(port.state == "ACTIVE" for port in ports),
        "nvlink_domain": _nvlink_domain(node.gpus()) if gpus else "",
        "settings": [each for each in node.host.nccl_settings() if LOGGING not in each.name][:MOST],
    }


def _nvlink_domain(gpus: Sequence[Gpu]) -> str:
    """Return cluster and clique of the fabric over several hosts that all GPUs are in, or empty."""
    domains = set()
    for gpu in gpus:
        try:
            fabric = gpu.fabric()
        except CouldNotMeasure:
            return ""
        if fabric is None or fabric.state != "completed" or not fabric.cluster_uuid:
            return ""
        domains.add("%s clique %s" % (fabric.cluster_uuid, fabric.clique_id))
    return domains.pop()[:TEXT] if len(domains) == 1 else ""


SIOCGIFADDR = 0x8915  # linux/sockios.h
ANY_PORT = 9
ADVICE = "set hwcheck_interface to the one that leads to the other hosts"


def local_address(interface: str, toward: str) -> Tuple[str, str]:
    """Return the interface and its IPv4 address: ``interface``, or that of the route to a host.

    ``toward`` is a name or an address. Nothing is sent to it. Raises CouldNotMeasure.
    """
    if interface:
        address = _address_of(interface)
        if address is None:
            raise CouldNotMeasure("hwcheck_interface: %s has no IPv4 address here" % interface)
        return interface, address
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((toward, ANY_PORT))
            address = probe.getsockname()[0]
    except OSError as error:
        words = (toward[:100], error.strerror or error, ADVICE)
        text = "no route to %s (%s): %s" % words
        raise CouldNotMeasure(text, of_errno(error.errno)) from None
    for _, name in socket.if_nameindex():
        if _address_of(name) == address:
            return name, str(address)
    raise CouldNotMeasure("no interface has %s as its first address: %s" % (address, ADVICE))


def _address_of(interface: str) -> Optional[str]:
    """Return the first IPv4 address of an interface; None where it has none (netdevice(7))."""
    request = struct.pack("256s", interface.encode("utf-8")[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket.fileno(), SIOCGIFADDR, request)
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])
