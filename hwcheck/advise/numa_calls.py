"""NCCL versions that allocate shared memory with NUMA calls and do not do without them."""

from __future__ import annotations

import re

from hwcheck.advise.case import Case

FROM, MENDED = (2, 24, 0), (2, 26, 5)
CUDA = (12, 6)
"""The driver from which on NCCL does so by itself."""

_VERSION = re.compile(r"NCCL (\d{1,3})\.(\d{1,3})\.(\d{1,3})\b")


def wants_numa_calls(case: Case) -> bool:
    """Return whether the NCCL of the legs fails where get_mempolicy and its like are refused."""
    found = [_VERSION.match(leg.library) for leg in case.legs]
    versions = {tuple(int(part) for part in each.groups()) for each in found if each}
    cuda = re.match(r"(\d{1,3})\.(\d{1,3})", str(case.value("cuda_driver", "cuda_driver_version")))
    if cuda and (int(cuda[1]), int(cuda[2])) < CUDA:
        return False
    return any(FROM <= version < MENDED for version in versions)
