"""What a training benchmark is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hwcheck.contract.model_shape import MODELS, ModelShape
from hwcheck.node.training.strategies import NAMES

LEGS: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "p2p_off": {"NCCL_P2P_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"},
    "net": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"},
}
"""The legs of a step, as those of the collectives. NCCL_P2P_DISABLE alone leaves NVLS on
(``collective.proof``)."""

CPU_RANKS = 2
MOST_CPU_RANKS = 64
"""On a host without a GPU nothing else bounds how many processes start there."""
CPU_WARMUP = 2
"""A CPU has no clocks that rise at first, and the four steps of the parity have gone before."""
SINGLE = "single"


@dataclass(frozen=True)
class TrainingOptions:
    """``ranks`` are the numbers of ranks to train on; empty: all GPUs, or 2 where there is none.

    ``global_batch`` is in sequences; 0: a micro-batch for each rank. ``prove`` adds the strategies
    that are wrong on purpose. ``named`` are the options that somebody gave a value and no default.
    """

    model: ModelShape
    strategies: tuple[str, ...] = NAMES
    legs: tuple[str, ...] = ("default", "p2p_off")
    ranks: tuple[int, ...] = ()
    steps: int = 40
    repeats: int = 5
    warmup: int = 10
    parity_steps: int = 4
    micro_batch: int = 4
    global_batch: int = 0
    dtype: str = "bf16"
    tf32: bool = True
    prove: bool = False
    silence_s: float = 120.0
    start_s: float = 300.0
    named: tuple[str, ...] = ()

    def without_gpus(self) -> TrainingOptions:
        """Return the options for hosts that have no GPU: what was not ``named`` is small."""
        named = self.named
        return replace(
            self,
            model=self.model if "model" in named else MODELS["tiny"],
            dtype=self.dtype if "dtype" in named else "fp32",
            tf32=False,
            micro_batch=self.micro_batch if "micro_batch" in named else 1,
            warmup=self.warmup if "warmup" in named else CPU_WARMUP,
            legs=self.legs[:1],
        )

    def sequences(self, ranks: int) -> int:
        """Return the global batch on so many ranks."""
        return self.global_batch or self.micro_batch * ranks

    def batch_problem(self, ranks: int) -> str:
        """Return why the global batch cannot be split over so many ranks, or an empty text."""
        if self.sequences(ranks) % (ranks * self.micro_batch) == 0:
            return ""
        return (
            f"a global batch of {self.global_batch} is no multiple of {ranks * self.micro_batch} "
            f"({ranks} ranks x micro-batch {self.micro_batch})"
        )
