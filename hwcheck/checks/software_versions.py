"""All nodes have the torch and the NCCL that they should have."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import TIMED, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import Equal, FromInventory, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

NONE = "none"


NCCL_VERSION = Metric(
    "nccl_version",
    "",
    "NCCL that came with this torch; where none did, that of the system",
    (
        Equal(
            FromInventory("nccl_version"),
            source="the inventory's hwcheck_nccl_version",
            confidence="inventory",
        ),
        like_most(
            "NCCL chooses algorithms and transports by version, and ranks of different "
            "versions may fail to connect or hang"
        ),
    ),
    fact="nccl",
)
SYSTEM_NCCL_VERSION = Metric(
    "system_nccl_version",
    "",
    "NCCL that the linker finds, for programs that bring none",
    (
        like_most(
            "programs that bring no NCCL, such as nccl-tests, take the system's, and "
            "their ranks must run one version"
        ),
    ),
)


@check(
    metrics=[
        Metric(
            "torch_version",
            "",
            "torch of the interpreter that runs the collectives",
            (
                Equal(
                    FromInventory("torch_version"),
                    source="the inventory's hwcheck_torch_version",
                    confidence="inventory",
                ),
                like_most(
                    "torch fixes CUDA and NCCL, and the ranks of a job must run one program; two "
                    "versions are two programs"
                ),
            ),
            fact="torch",
        ),
        NCCL_VERSION,
        SYSTEM_NCCL_VERSION,
    ],
    remedy=Remedy(
        cause="an upgrade that did not reach this node, or an interpreter other than meant",
        fix="install one version on all nodes, or name the right interpreter as "
        "hwcheck_torch_python",
        command="python3 -m pip list | grep -iE 'torch|nccl'; ldconfig -p | grep libnccl",
        role="validation_env",
    ),
    gpu=False,
    optional="torch and NCCL",
    group="software",
    stage="inventory",
    beside=TIMED,
)
def software_versions(node: Node) -> Iterator[Sample]:
    """Read the versions of torch and NCCL from what is installed, without loading either.

    One node with another NCCL than the rest stalls a job at its first collective or slows it. The
    torch is that of ``hwcheck_torch_python``. Judged against ``hwcheck_torch_version`` and
    ``hwcheck_nccl_version`` where they are declared, otherwise against most nodes of the run. What
    a container image or LD_LIBRARY_PATH brings into a job is not seen here.
    """
    expect = node.request.expect
    system = ", ".join(node.host.system_nccl())
    if system:
        yield Sample("system_nccl_version", system)
    stack = node.host.torch_stack(node.request.torch_python)
    torch = stack.torch if stack else ""
    nccl = stack.nccl if stack and stack.nccl else system
    if not (torch or nccl or "torch_version" in expect or "nccl_version" in expect):
        raise NotApplicable("neither torch nor NCCL is installed")
    if torch and "+" not in expect.get("torch_version", torch):
        torch = torch.partition("+")[0]
    if torch or "torch_version" in expect:
        yield Sample("torch_version", torch or NONE)
    if nccl or "nccl_version" in expect:
        yield Sample("nccl_version", nccl or NONE)
