"""What a training step should cost by arithmetic: the exposed communication of a strategy.

Volumes by Narayanan et al. 2021 (arXiv 2104.04473) and NVIDIA/nccl-tests, doc/PERFORMANCE.md. How
much of it hides behind computing nobody knows beforehand: an interval, from all that can hide to
none. Pure.
"""

from __future__ import annotations

from hwcheck.contract.busbw import busbw_factor
from hwcheck.contract.model_shape import ModelShape

BACKWARD_SHARE = 2 / 3
"""Of a step's computing: the backward pass is twice the forward pass."""
GRADIENT_BYTES = {"fp32": 4, "bf16": 2}

Interval = tuple[float, float]
"""The least and the most."""


def gradient_bytes(shape: ModelShape, dtype: str) -> int:
    """Return the bytes of all gradients of a model."""
    return shape.parameters * GRADIENT_BYTES[dtype]


def ddp_exposed_s(
    shape: ModelShape, dtype: str, ranks: int, alone_s: float, busbw_gbps: float
) -> Interval:
    """Return what an all-reduce of the gradients adds to a step of one GPU (``alone_s``), in s.

    At least what the backward pass cannot hide, at most all of it.
    """
    wire = gradient_bytes(shape, dtype) * busbw_factor("all_reduce", ranks)
    whole_s = wire / (busbw_gbps * 1e9)
    return max(0.0, whole_s - BACKWARD_SHARE * alone_s), whole_s


def ddp_busbw_gbps(
    shape: ModelShape, dtype: str, ranks: int, alone_s: float, exposed_s: float
) -> Interval:
    """Return which busbw (1e9 bytes/s) explains an exposed time: the other way around."""
    wire = gradient_bytes(shape, dtype) * busbw_factor("all_reduce", ranks)
    return wire / (exposed_s + BACKWARD_SHARE * alone_s) / 1e9, wire / exposed_s / 1e9


def data_parallel_exposed_s(
    shape: ModelShape, dtype: str, ranks: int, micro_batch: int, link_gbps: float
) -> float:
    """Return what nn.DataParallel adds to a step, in s: nothing of it hides.

    The first GPU sends the weights to each other one, takes their logits and their gradients, over
    a link of ``link_gbps`` (1e9 bytes/s) each way.
    """
    each = GRADIENT_BYTES[dtype]
    logits = micro_batch * shape.sequence * shape.vocabulary * each
    weights = gradients = gradient_bytes(shape, dtype)
    return (ranks - 1) * (weights + logits + gradients) / (link_gbps * 1e9)
