"""ZeRO-1 of tensors that are parts of others: an optimizer over what this rank has of each."""

from __future__ import annotations

from typing import Any, List

from torch.distributed.optim import ZeroRedundancyOptimizer

from hwcheck.node.torch_runtime import torch
from hwcheck.node.training.job import LEARNING_RATE, gradient_of, local


class LocalZero:
    """ZeroRedundancyOptimizer takes no DTensor: it is handed the parts here, which share memory."""

    def __init__(self, modules: List[Any], group: Any) -> None:
        self._wholes = [each for module in modules for each in module.parameters()]
        self._parts = [local(whole.detach()).requires_grad_() for whole in self._wholes]
        self._optimizer = ZeroRedundancyOptimizer(
            self._parts,
            optimizer_class=torch.optim.AdamW,
            process_group=group,
            lr=LEARNING_RATE,
        )

    def step(self) -> None:
        """Take the gradients of the wholes, and step."""
        for whole, part in zip(self._wholes, self._parts):
            part.grad = gradient_of(whole)
        self._optimizer.step()

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for each in (*self._wholes, *self._parts):
            each.grad = None
