"""The only file that imports torch. Importing it touches no device.

So a process may import it once and fork others afterwards, each of which starts CUDA for itself.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

__all__ = ["dist", "missing_cuda", "torch", "version"]


def version() -> str:
    """Return torch's version without what was built in (``2.11.0``)."""
    return str(torch.__version__).split("+")[0]


def missing_cuda() -> str:
    """Return why this torch cannot use GPUs, or an empty text. Touches no device."""
    return "torch %s has no CUDA" % torch.__version__ if torch.version.cuda is None else ""
