"""What the container runtime gives to every container is fit for jobs."""

from __future__ import annotations

from typing import Iterator, Optional

from hwcheck.contract.check import Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import AtLeast, Equal, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

MIB = 1 << 20
DOCKERD = "dockerd(8), Daemon configuration file, "
DEFAULTS = "docker run reference, defaults of a container (64 MiB of /dev/shm)"


@check(
    metrics=[
        Metric(
            "settings",
            "",
            "default runtime, whether one named nvidia is entered, locked memory and shared "
            "memory, as the runtime's file gives them",
            (
                like_most(
                    "one image is started on all nodes, and what it does not ask for itself it has "
                    "from the runtime's file"
                ),
            ),
            required=True,
        ),
        Metric(
            "settings_whole",
            "",
            "whether the file can be read as JSON",
            (
                Equal(
                    True,
                    source=DOCKERD + "the daemon does not start with a file that is no JSON",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
        Metric(
            "nvidia_program",
            "",
            "whether the program of the runtime named nvidia is there",
            (
                Equal(
                    True,
                    source="NVIDIA Container Toolkit, Installing, Configuration (nvidia-ctk "
                    "runtime configure enters nvidia-container-runtime): a container with a "
                    "runtime whose program is gone does not start",
                    otherwise="warn",
                ),
            ),
        ),
        Metric(
            "default_memlock_unlimited",
            "",
            "whether containers may lock all memory, where the file sets a limit",
            (
                Equal(
                    True,
                    source="NVIDIA Deep Learning Frameworks documentation, running containers "
                    "(--ulimit memlock=-1); " + DOCKERD + "default-ulimits",
                    otherwise="warn",
                ),
            ),
        ),
        Metric(
            "default_shm_mib",
            "MiB",
            "size of /dev/shm in containers, where the file sets one",
            (
                AtLeast(
                    "NCCL User Guide, Troubleshooting, Shared memory (--shm-size=1g); " + DEFAULTS,
                    warn=65,
                ),
            ),
        ),
        Metric("settings_file", "", "the file", required=True),
    ],
    remedy=Remedy(
        cause="a file of an earlier installation, or one that was written for other work",
        fix="in /etc/docker/daemon.json: default-ulimits memlock with Soft and Hard -1, "
        "default-shm-size 16G; sudo nvidia-ctk runtime configure --runtime=docker enters the "
        "runtime; then restart the daemon when no job runs",
        command="docker info; cat /etc/docker/daemon.json; containerd config dump",
    ),
    optional="a container runtime with a file of its own, declared",
    group="software",
)
def container_settings(node: Node) -> Iterator[Sample]:
    """Read what docker, containerd or podman gives to every container unless it asks otherwise.

    A job that works on one node fails in the same image on the next, because there the runtime's
    file sets a smaller /dev/shm or locks less memory. The file and those of its folder are read; no
    container is started and no image looked into, so what a job sets by itself is not seen. What
    the file leaves out is only compared between nodes, since most jobs set it. Not applicable where
    the inventory declares no hwcheck_container, or one without such a file (enroot, apptainer, or a
    runtime as it came).
    """
    runtime = str(node.request.expect.get("container", ""))
    settings = node.host.container_settings(runtime) if runtime else None
    if settings is None:
        what = "%s has no file of its own" % runtime if runtime else "no hwcheck_container"
        raise NotApplicable("%s here" % what)
    yield Sample("settings_file", settings.file)
    yield Sample("settings_whole", not settings.broken)
    if settings.broken:
        yield Sample("settings", "not readable")
        return
    memlock = _amount(settings.memlock_bytes)
    shm = _amount(settings.shm_bytes)
    runtime = settings.default_runtime or "unset"
    nvidia = "entered" if settings.nvidia_program else "not entered"
    given = (runtime, nvidia, memlock, shm)
    yield Sample("settings", "runtime %s, nvidia %s, memlock %s, /dev/shm %s" % given)
    if settings.nvidia_program:
        yield Sample("nvidia_program", node.host.has_program(settings.nvidia_program))
    if settings.memlock_bytes is not None and node.host.rdma_ports():
        yield Sample("default_memlock_unlimited", settings.memlock_bytes < 0)
    if settings.shm_bytes is not None:
        yield Sample("default_shm_mib", round(settings.shm_bytes / MIB, 1), "MiB")


def _amount(size_bytes: Optional[int]) -> str:
    if size_bytes is None:
        return "unset"
    return "unlimited" if size_bytes < 0 else "%g MiB" % (size_bytes / MIB)
