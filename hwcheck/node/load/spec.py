"""What the burn is told: which GPUs, for how long, in which arithmetic."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, Mapping, Tuple

MIB = 1024 * 1024
CPU_SUBJECT = "cpu"

# The burn starts from an environment without these: each changes how torch, cuBLAS or CUDA
# compute, and a value left in a profile would make the figures something else than they say.
FOREIGN_PREFIXES = (
    "CUBLAS",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_TF32_OVERRIDE",
    "PYTORCH_",
    "TORCH_ALLOW_TF32",
    "TORCH_BLAS",
)

# 32 MiB, what cuBLAS recommends for Hopper; the workspace is one of the things on which the choice
# of an algorithm, and so the bits of a product, depend (cuBLAS, "Results Reproducibility").
CUBLAS_WORKSPACE = ":4096:8"


@dataclass(frozen=True)
class Target:
    """One GPU: NVML's subject, its ``GPU-...`` uuid, and the CPUs near it (``0-31,64-95``).

    Without CPUs its worker runs anywhere.
    """

    subject: str
    uuid: str
    cpus: str = ""


@dataclass(frozen=True)
class BurnSpec:
    """The burn's orders.

    No ``gpus`` means an exercise on the CPU. ``seconds`` bounds the products of every GPU.
    ``dtype`` is bf16, fp16, fp32, tf32, or auto for the fastest that trains; a GPU without bf16
    takes fp16, one without tf32 fp32. ``nice`` is added to the workers' niceness. A worker that
    does not end within ``patience_s`` of being asked is killed.
    """

    gpus: Tuple[Target, ...]
    seconds: float
    dtype: str = "auto"
    memory_available_bytes: int = 1024 * MIB
    nice: int = 10
    patience_s: float = 10.0

    @property
    def backend(self) -> str:
        """``cuda`` or ``cpu``."""
        return "cuda" if self.gpus else "cpu"

    @property
    def subjects(self) -> Tuple[str, ...]:
        """What each worker drives, in their order."""
        return tuple(gpu.subject for gpu in self.gpus) or (CPU_SUBJECT,)

    def to_dict(self) -> Dict[str, Any]:
        """Return the orders as plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, orders: Mapping[str, Any]) -> BurnSpec:
        """Rebuild from ``to_dict``; raises TypeError when a key is unknown or missing."""
        data = dict(orders)
        data["gpus"] = tuple(Target(**gpu) for gpu in data["gpus"])
        return cls(**data)


def clean_environment(outside: Mapping[str, str]) -> Dict[str, str]:
    """Return an environment in which nothing from ``outside`` changes the arithmetic."""
    return {name: text for name, text in outside.items() if not name.startswith(FOREIGN_PREFIXES)}


def worker_environment(spec: BurnSpec, worker: int, outside: Mapping[str, str]) -> Dict[str, str]:
    """Return the whole environment of one worker: it sees its own GPU and no other."""
    env = clean_environment(outside)
    env["CUBLAS_WORKSPACE_CONFIG"] = CUBLAS_WORKSPACE
    env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    env["CUDA_VISIBLE_DEVICES"] = spec.gpus[worker].uuid if spec.gpus else ""
    return env
