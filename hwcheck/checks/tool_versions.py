"""All nodes have one version of NVIDIA's container toolkit and of DCGM."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import Equal, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node


@check(
    metrics=[
        Metric(
            "only_version",
            "",
            "whether one version of it is installed, and no other beside it",
            (
                Equal(
                    True,
                    source="NVIDIA GPU Operator, Getting Started, Pre-Installed NVIDIA Container "
                    "Toolkit (toolkit.enabled=false): with two a container is given what the one "
                    "says that its runtime names",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
        Metric(
            "container_toolkit_version",
            "",
            "NVIDIA Container Toolkit, by the version of its library",
            (
                like_most(
                    "NVIDIA Container Toolkit, Architecture: it decides which libraries and "
                    "devices a container is given, so one image may work on some nodes only"
                ),
            ),
        ),
        Metric(
            "dcgm_version",
            "",
            "NVIDIA Data Center GPU Manager",
            (
                like_most(
                    "DCGM Release Notes: its tests and their limits change with the version, and "
                    "with them what it says of one board"
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="an upgrade that did not reach this node",
        fix="install one version of the packages nvidia-container-toolkit and "
        "datacenter-gpu-manager on all nodes",
        command="nvidia-ctk --version; dcgmi --version; ldconfig -p | grep -E "
        "'libdcgm.so|libnvidia-container.so'",
    ),
    gpu=False,
    optional="NVIDIA's container toolkit and DCGM",
    group="software",
    stage="inventory",
)
def tool_versions(node: Node) -> Iterator[Sample]:
    """Read which NVIDIA Container Toolkit and which DCGM are installed, by their libraries' names.

    Nothing is started for it, so a node with nvidia-ctk alone, without its library, shows none.
    Held against most nodes of the run, and against dated floors where hwcheck_version_floors asks.
    """
    tools = node.host.tool_versions()
    if not tools:
        raise NotApplicable("neither of the two is installed")
    for tool in sorted(tools):
        yield Sample(tool + "_version", ", ".join(tools[tool]))
        yield Sample("only_version", len(tools[tool]) == 1, "", tool)
