"""What a container is given of the NVIDIA driver is there and is not empty."""

from __future__ import annotations

from typing import Iterator, List

from hwcheck.contract.check import CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import Equal, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node, NodeHost

FOLDERS = (
    *("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"),
    *("/run/nvidia/driver/usr/lib/x86_64-linux-gnu", "/run/nvidia/driver/usr/lib64"),
)
"""Where packages of distributions, NVIDIA's installer and the GPU operator put the libraries."""

LIBRARIES = ("libcuda.so", "libnvidia-ml.so")
WITHOUT_CDI = ("enroot", "apptainer")
"""Runtimes that look for the libraries themselves (nvidia-container-cli, --nv)."""

PRESENT, EMPTY, MISSING = "present", "empty", "missing"
NONE = "none"
NAMED = 3


@check(
    metrics=[
        Metric(
            "driver_library",
            "",
            "whether the library of the loaded driver is there and not empty",
            (
                Equal(
                    PRESENT,
                    source="NVIDIA/libnvidia-container issues 50 and 140: libraries of size 0 are "
                    "left behind where an image or a root is built or updated within a container",
                ),
            ),
        ),
        Metric(
            "unusable_libraries",
            "",
            "libraries that the CDI specification names and that are missing or empty",
            (
                Equal(
                    NONE,
                    source="NVIDIA Container Toolkit, Support for Container Device Interface: the "
                    "specification is generated again after the driver changes, or containers that "
                    "are given it do not start; Docker in legacy mode goes by none",
                    otherwise="warn",
                ),
            ),
        ),
        Metric(
            "cdi_specification",
            "",
            "whether a CDI specification names libraries of the driver",
            (
                like_most(
                    "a container that is given its GPUs by CDI does not start on the host without",
                    "container_runtime",
                ),
            ),
        ),
        Metric("container_runtime", "", "the inventory's hwcheck_container", required=True),
    ],
    remedy=Remedy(
        cause="a CDI specification from before the driver was updated, or libraries of size 0 that "
        "a container's build or an update within a container left",
        fix="nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, or restart "
        "nvidia-cdi-refresh; "
        "install the driver's libraries again where the host's own are empty",
        command="nvidia-ctk cdi list; ls -lL /usr/lib/*/libcuda.so.1 /usr/lib/*/libnvidia-ml.so.1",
    ),
    optional="a container runtime declared",
    group="software",
    varies="goes by what the inventory declares",
)
def container_files(node: Node) -> Iterator[Sample]:
    """Look whether the libraries that the container runtime mounts are there and hold something.

    The host computes, and every job in a container ends with 'libcuda.so.1: file too short' or
    does not start. The specification of NVIDIA's container toolkit and the libraries' sizes are
    read; no container is started and no image looked into. Not applicable where the inventory does
    not declare hwcheck_container.
    """
    runtime = node.request.expect.get("container")
    if not runtime:
        raise NotApplicable("the inventory does not declare hwcheck_container")
    yield Sample("container_runtime", str(runtime))
    host = node.host
    version = host.driver_version()
    states = {name: _state(host, _places(name, version)) for name in LIBRARIES}
    elsewhere = set(states.values()) == {MISSING}
    for name, state in states.items() if not elsewhere else ():
        yield Sample("driver_library", state, "", name)
    specifications = {} if runtime in WITHOUT_CDI else host.container_libraries()
    if elsewhere and not specifications:
        raise CouldNotMeasure(
            "the driver's libraries are in no usual folder, and there is no CDI specification"
        )
    if runtime not in WITHOUT_CDI:
        yield Sample("cdi_specification", any(specifications.values()))
    for specification, libraries in specifications.items():
        bad = ["%s %s" % (path, state) for path in libraries for state in (_state(host, [path]),)]
        bad = [text for text in bad if not text.endswith(PRESENT)]
        more = " and %d more" % (len(bad) - NAMED) if len(bad) > NAMED else ""
        yield Sample("unusable_libraries", ", ".join(bad[:NAMED]) + more or NONE, "", specification)


def _places(name: str, version: str) -> List[str]:
    return ["%s/%s.%s" % (folder, name, version) for folder in FOLDERS] if version else []


def _state(host: NodeHost, paths: List[str]) -> str:
    sizes = [host.file_bytes(path) for path in paths]
    if any(sizes):
        return PRESENT
    return EMPTY if 0 in sizes else MISSING
