"""The topology file that NCCL is told to read is there."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import Equal
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

NAME = "NCCL_TOPO_FILE"
PRESENT, EMPTY, MISSING = "present", "empty", "missing"


@check(
    metrics=[
        Metric(
            "topology_file",
            "",
            "whether the file that NCCL_TOPO_FILE names is there and not empty",
            (
                Equal(
                    PRESENT,
                    source="NCCL User Guide, NCCL_TOPO_FILE; NCCL, src/graph/xml.cc: a file that "
                    "cannot be opened makes a warning, and the topology is what the node shows",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
        Metric("named_by", "", "where the variable is set, and to what", required=True),
    ],
    remedy=Remedy(
        cause="a setting copied from another kind of node or image, or a file that an update took "
        "away",
        fix="put the file there, or take NCCL_TOPO_FILE out of force; a job's container needs the "
        "file at the same path",
        command="env | grep NCCL_TOPO_FILE; grep -r NCCL_TOPO_FILE /etc/nccl.conf /etc/environment",
    ),
    optional="NCCL_TOPO_FILE set",
    group="collectives",
)
def nccl_topology_file(node: Node) -> Iterator[Sample]:
    """Look for the file that NCCL_TOPO_FILE names.

    In a virtual machine the bus does not show which GPU and which card are neighbors, and the
    cloud's file tells NCCL. Without it every GPU talks through any card, at a fraction of the
    bandwidth, and a warning in NCCL's log is all that says so. Not applicable where the variable
    is not set.
    """
    settings = [each for each in node.host.nccl_settings() if each.name == NAME and each.value]
    if not settings:
        raise NotApplicable("%s is not set" % NAME)
    (setting,) = settings
    size = node.host.file_bytes(setting.value)
    yield Sample("topology_file", PRESENT if size else MISSING if size is None else EMPTY)
    yield Sample("named_by", "%s (%s)" % (setting.value[:200], setting.origin[:200]))
