"""The only file that imports torch. Importing it touches no device.

So a process may import it once and fork others afterwards, each of which starts CUDA for itself.
"""

from __future__ import annotations

from typing import Callable, Optional

import torch
import torch.distributed as dist

__all__ = ["dist", "missing_cuda", "nccl_record", "torch", "version"]


def version() -> str:
    """Return torch's version without what was built in (``2.11.0``)."""
    return str(torch.__version__).split("+")[0]


def nccl_record() -> Optional[Callable[[], bytes]]:
    """Return what gives torch's flight record of NCCL as JSON; None where this torch has none.

    ``_dump_nccl_trace_json`` came with torch 2.5, in builds that have NCCL.
    """
    c10d = getattr(torch._C, "_distributed_c10d", None)
    return getattr(c10d, "_dump_nccl_trace_json", None)


def missing_cuda() -> str:
    """Return why this torch cannot use GPUs, or an empty text. Touches no device."""
    return "torch %s has no CUDA" % torch.__version__ if torch.version.cuda is None else ""
