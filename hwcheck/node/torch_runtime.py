"""The only file that imports torch. Importing it touches no device.

So a process may import it once and fork others afterwards, each of which starts CUDA for itself.
"""

from __future__ import annotations

import json
import pickle
from typing import Callable, Optional, Union

import torch
import torch.distributed as dist

__all__ = ["dist", "missing_cuda", "nccl_record", "torch", "version"]


def version() -> str:
    """Return torch's version without what was built in (``2.11.0``)."""
    return str(torch.__version__).split("+")[0]


def nccl_record() -> Optional[Callable[[], Union[str, bytes]]]:
    """Return what gives torch's flight record of NCCL as JSON; None where this torch has none.

    ``_dump_nccl_trace_json`` came with torch 2.5, in builds that have NCCL; before, there was
    ``_dump_nccl_trace``, which pickles (at first a bare list of entries).
    """
    c10d = getattr(torch._C, "_distributed_c10d", None)
    older = getattr(c10d, "_dump_nccl_trace", None)
    # Our own process wrote what is unpickled here.
    unpickled = older and (lambda: json.dumps(pickle.loads(older()), default=str))  # noqa: S301
    return getattr(c10d, "_dump_nccl_trace_json", unpickled)


def missing_cuda() -> str:
    """Return why this torch cannot use GPUs, or an empty text. Touches no device."""
    return "torch %s has no CUDA" % torch.__version__ if torch.version.cuda is None else ""
