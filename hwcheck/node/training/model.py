"""A plain decoder-only transformer, whole or the part of it that one pipeline stage has."""

from __future__ import annotations

import zlib
from typing import Any, Optional, Tuple

from hwcheck.contract.model_shape import FEED_FORWARD, ModelShape
from hwcheck.node.torch_runtime import torch

SPREAD = 0.02
"""Standard deviation of the weights at the start, as in GPT-2."""


class Attention(torch.nn.Module):  # type: ignore[misc]
    """Causal self-attention; q, k and v are layers of their own, so that TP can split each."""

    def __init__(self, shape: ModelShape, **where: Any) -> None:
        super().__init__()
        self.head = shape.hidden // shape.heads
        for name in ("q", "k", "v", "out"):
            self.add_module(name, torch.nn.Linear(shape.hidden, shape.hidden, **where))

    def forward(self, x: Any) -> Any:
        """Return what the heads of this rank gathered; TP leaves fewer of them here."""
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, -1, self.head).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))


class Block(torch.nn.Module):  # type: ignore[misc]
    """Attention and feed-forward, each behind a layer norm and beside a residual."""

    def __init__(self, shape: ModelShape, **where: Any) -> None:
        super().__init__()
        inner = FEED_FORWARD * shape.hidden
        self.norm1 = torch.nn.LayerNorm(shape.hidden, **where)
        self.attention = Attention(shape, **where)
        self.norm2 = torch.nn.LayerNorm(shape.hidden, **where)
        self.up = torch.nn.Linear(shape.hidden, inner, **where)
        self.down = torch.nn.Linear(inner, shape.hidden, **where)

    def forward(self, x: Any) -> Any:
        """Return the next hidden states."""
        x = x + self.attention(self.norm1(x))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Embedding(torch.nn.Module):  # type: ignore[misc]
    """Tokens and their positions."""

    def __init__(self, shape: ModelShape, **where: Any) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(shape.vocabulary, shape.hidden, **where)
        self.positions = torch.nn.Parameter(torch.empty(shape.sequence, shape.hidden, **where))

    def forward(self, tokens: Any) -> Any:
        """Return the first hidden states."""
        return self.tokens(tokens) + self.positions[: tokens.shape[1]]


class Transformer(torch.nn.Module):  # type: ignore[misc]
    """The blocks ``first`` to ``last``; the embedding is with the first, the head with the last.

    The head has the embedding's weights. Where both are here they are one parameter; in a pipeline
    each end has a copy, and whoever steps adds their gradients (``steps.Pipeline``). Every
    parameter starts as its name says, so that a part of the model is the same as in the whole.
    """

    def __init__(
        self,
        shape: ModelShape,
        device: str,
        dtype: Any,
        layers: Optional[Tuple[int, int]] = None,
    ) -> None:
        super().__init__()
        first, last = layers or (0, shape.layers)
        where = {"device": device, "dtype": dtype}
        self.embedding: Any = Embedding(shape, **where) if first == 0 else None
        self.blocks = torch.nn.ModuleDict(
            {str(layer): Block(shape, **where) for layer in range(first, last)}
        )
        self.norm: Any = None
        self.head: Any = None
        if last == shape.layers:
            self.norm = torch.nn.LayerNorm(shape.hidden, **where)
            self.head = torch.nn.Linear(shape.hidden, shape.vocabulary, bias=False, **where)
            if self.embedding is not None:
                self.head.weight = self.embedding.tokens.weight
        _fill(self)

    def forward(self, x: Any) -> Any:
        """Return logits, or in the middle of a pipeline hidden states."""
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks.values():
            x = block(x)
        if self.head is not None:
            x = self.head(self.norm(x))
        return x


def _fill(module: Any) -> None:
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif "norm" in name:
                parameter.fill_(1.0)
            else:
                name = name.replace("head.weight", "embedding.tokens.weight")
                seed = zlib.crc32(name.encode("ascii"))
                random = torch.Generator(parameter.device).manual_seed(seed)
                parameter.normal_(0.0, SPREAD, generator=random)


def loss_of(logits: Any, targets: Any) -> Any:
    """Return the mean cross-entropy in fp32."""
    flat = logits.float().flatten(0, -2)
    return torch.nn.functional.cross_entropy(flat, targets.flatten())
