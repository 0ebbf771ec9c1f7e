"""What a strategy is handed on one rank: the model's parts, meshes, the optimizer, its batch."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional, Tuple

from hwcheck.node.torch_runtime import dist, torch
from hwcheck.node.training.model import Transformer
from hwcheck.node.training.order import TrainingOrder
from hwcheck.node.training.strategy import Degrees

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
AXES = ("pp", "replicate", "shard", "tp")
LEARNING_RATE = 1e-3
SEED = 20260


class RankJob:
    """One order on one rank. ``groups`` are the process's own: meshes are made once."""

    def __init__(
        self,
        order: TrainingOrder,
        rank: int,
        device: Any,
        degrees: Degrees,
        groups: Dict[Any, Any],
    ) -> None:
        self.order = order
        self.rank = rank
        self.device = device
        self.degrees = degrees
        self.dtype = DTYPES[order.dtype]
        self._groups = groups
        ranks = degrees.tensor
        self.data_rank = rank // ranks % degrees.data
        self.stage = rank // (ranks * degrees.data)

    @property
    def micro_batch(self) -> int:
        """Sequences that a replica goes through at once: those of all GPUs that share them."""
        return self.order.micro_batch * self.degrees.tensor

    def model(self, layers: Optional[Tuple[int, int]] = None) -> Transformer:
        """Return the model, or the part that has these layers, on this rank's device."""
        return Transformer(self.order.model, self.device.name, self.dtype, layers)

    def mesh(self) -> Any:
        """Return the device mesh of the degrees, with the axes ``AXES``; one for the process."""
        if self.degrees not in self._groups:
            from torch.distributed.device_mesh import init_device_mesh

            each = self.degrees
            sizes = (each.pipeline, each.replicate, each.shard, each.tensor)
            kind = self.device.name.partition(":")[0]
            self._groups[self.degrees] = init_device_mesh(kind, sizes, mesh_dim_names=AXES)
        return self._groups[self.degrees]

    def ends(self) -> Any:
        """Return the group of the first and the last stage that belong to one replica."""
        key = ("ends", self.degrees)
        if key not in self._groups:
            self._groups[key] = None
            ranks = self.degrees.ranks // self.degrees.pipeline
            for place in range(ranks):  # every rank makes every group, as torch wants it
                pair = [place, place + ranks * (self.degrees.pipeline - 1)]
                group = dist.new_group(pair)
                if self.rank in pair:
                    self._groups[key] = group
        return self._groups[key]

    def adamw(self, module: Any) -> Any:
        """Return AdamW over a module's parameters, those of one mesh in one group."""
        return torch.optim.AdamW(self.parameter_groups(module), lr=LEARNING_RATE)

    def parameter_groups(self, module: Any) -> List[Dict[str, Any]]:
        """Return the parameters in groups that torch's multi-tensor code can take at once."""
        groups: Dict[Any, List[Any]] = {}
        for parameter in module.parameters():
            groups.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
        return [{"params": group} for group in groups.values()]

    def batch(self, sequences: int, *, whole: bool = False) -> Tuple[Any, Any]:
        """Return this rank's share of the tokens of a global batch, and what follows each.

        ``whole``: all of it, where one process has the GPUs of all ranks.
        """
        shape = self.order.model
        random = torch.Generator(self.device.name).manual_seed(SEED)
        size = (sequences, shape.sequence + 1)
        tokens = torch.randint(shape.vocabulary, size, generator=random, device=self.device.name)
        if whole:
            return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        share = sequences // self.degrees.data
        mine = tokens[self.data_rank * share : (self.data_rank + 1) * share]
        return mine[:, :-1].contiguous(), mine[:, 1:].contiguous()


@contextmanager
def averaged_over(group: Any, parameters: List[Any]) -> Iterator[None]:
    """Average the gradients of these parameters over a group once the block has made them.

    One flat buffer, after the backward pass and not during it.
    """
    yield
    gradients = [gradient_of(parameter) for parameter in parameters]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    flat /= dist.get_world_size(group)
    dist.all_reduce(flat, group=group)
    for gradient, part in zip(gradients, flat.split([each.numel() for each in gradients])):
        gradient.copy_(part.view_as(gradient))


def local(tensor: Any) -> Any:
    """Return this rank's part of a tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def gradient_of(parameter: Any) -> Any:
    """Return this rank's part of a gradient, split as the parameter is.

    The backward pass may leave it whole. It is the gradient itself, to write to.
    """
    placements = getattr(parameter, "placements", None)
    if placements is not None and parameter.grad.placements != placements:
        parameter.grad = parameter.grad.redistribute(parameter.device_mesh, placements)
    return local(parameter.grad)
