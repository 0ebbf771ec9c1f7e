"""The transformer that is trained: its size, its parameters and the arithmetic of a step."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, Mapping

FEED_FORWARD = 4
"""The inner width of a feed-forward layer over the hidden size, as in GPT-2."""


@dataclass(frozen=True)
class ModelShape:
    """A decoder-only transformer as GPT-2 has it: learned positions, the head is the embedding."""

    name: str
    layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int

    @property
    def parameters(self) -> int:
        """How many parameters there are; each once, for the head shares the embedding's."""
        block = 12 * self.hidden**2 + 13 * self.hidden
        return self.layers * block + (self.vocabulary + self.sequence + 2) * self.hidden

    def model_flops(self, sequences: int) -> float:
        """Return the floating-point operations of one step over so many sequences.

        ``72 B s L h^2 (1 + s/(6h) + V/(12 L h))``: forward and twice that backward, a multiply and
        an add as two, attention in full although it is causal, nothing computed twice. Source:
        Narayanan et al. 2021 (arXiv 2104.04473), section 5.1, less the recomputation.
        """
        width = 1 + self.sequence / (6 * self.hidden)
        width += self.vocabulary / (12 * self.layers * self.hidden)
        tokens = sequences * self.sequence
        return 72.0 * tokens * self.layers * self.hidden**2 * width

    def hardware_flops(self, sequences: int) -> float:
        """Return the operations that are carried out: without the half of attention that is masked.

        What the fused kernels of attention leave out. No strategy here computes anything twice.
        """
        masked = 6.0 * sequences * self.sequence**2 * self.layers * self.hidden
        return self.model_flops(sequences) - masked

    def to_dict(self) -> Dict[str, Any]:
        """Return the shape as plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ModelShape:
        """Rebuild from ``to_dict``; raises TypeError when a key is unknown or missing."""
        return cls(**data)


MODELS: Mapping[str, ModelShape] = {
    shape.name: shape
    for shape in (
        ModelShape("gpt2", 12, 768, 12, 50257, 1024),
        ModelShape("mini", 8, 128, 4, 2048, 128),
        ModelShape("tiny", 4, 64, 4, 512, 64),
    )
}
"""gpt2 is GPT-2 small (124.4 million parameters); the other two are for CPUs."""
