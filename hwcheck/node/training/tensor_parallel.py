"""How a transformer is split by layer width: torch's ``parallelize_module`` over one mesh axis."""

from __future__ import annotations

from typing import Any, Dict

from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


def split(module: Any, mesh: Any, *, by_sequence: bool = False) -> Any:
    """Split the layers of a ``Transformer`` over the ranks of a mesh.

    With ``by_sequence`` what lies between the split layers is split by the sequence (Korthikanti et
    al. 2022, arXiv 2205.05198): an all-gather and a reduce-scatter in place of an all-reduce.
    """
    between = Shard(1) if by_sequence else Replicate()
    for block in module.blocks.values():
        parallelize_module(block, mesh, _of_block(between, by_sequence))
    if module.embedding is not None:
        plan: Dict[str, Any] = {"tokens": RowwiseParallel(input_layouts=Replicate())}
        parallelize_module(module.embedding, mesh, plan)
        if by_sequence:
            whole = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(1))
            parallelize_module(module, mesh, {"embedding": whole})
    if module.head is not None:
        plan = {"head": ColwiseParallel(input_layouts=between, output_layouts=Replicate())}
        if by_sequence:
            plan["norm"] = SequenceParallel()
        parallelize_module(module, mesh, plan)
        if module.embedding is not None:
            module.head.weight = module.embedding.tokens.weight
    return module


def _of_block(between: Any, by_sequence: bool) -> Dict[str, Any]:
    plan: Dict[str, Any] = {
        "attention.out": RowwiseParallel(output_layouts=between),
        "down": RowwiseParallel(output_layouts=between),
    }
    for name in ("attention.q", "attention.k", "attention.v", "up"):
        plan[name] = ColwiseParallel()
    if by_sequence:
        gathered = {"input_layouts": Shard(1), "desired_input_layouts": Replicate()}
        plan.update(
            norm1=SequenceParallel(),
            norm2=SequenceParallel(),
            attention=PrepareModuleInput(**gathered),
            up=ColwiseParallel(input_layouts=Shard(1)),
        )
    return plan
