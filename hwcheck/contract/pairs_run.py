"""What came of the copies between the GPUs of a node."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from hwcheck.contract.reasons import NONE, Reason

Pair = Tuple[int, int]
Round = Sequence[Pair]
"""Pairs that share no GPU."""

CHECK_OFF = "CUDA_DISABLE_IOMMU_ACS_P2P_CAPABILITY_CHECK"
"""Set to 1 it keeps CUDA from looking at IOMMU and ACS before it grants peer access over PCIe (CUDA
Features Archive, CUDA 13.5)."""


@dataclass(frozen=True)
class PairCopy:
    """Copies from GPU ``one`` to GPU ``other`` (NVML's indexes), in 1e9 bytes/s.

    ``access``: the driver grants the first access to the memory of the second. ``gbps`` is the best
    copy with nothing else under way, ``together_gbps`` the figure while disjoint pairs of all GPUs
    copied; None where it did not come to it. ``wrong`` counts the elements that were not what they
    must be where they arrived, over all that were looked at.
    """

    one: int
    other: int
    access: bool
    gbps: Optional[float] = None
    together_gbps: Optional[float] = None
    wrong: int = 0

    @property
    def subject(self) -> str:
        """``gpu0-gpu1``: from the first to the second."""
        return "gpu%d-gpu%d" % (self.one, self.other)


@dataclass(frozen=True)
class PairsRun:
    """All pairs, and why there are no more.

    ``hung`` names the pairs whose copies had to be killed; ``driver`` is what the driver did
    afterwards, as that of a leg. ``check_off`` is the value of ``CHECK_OFF`` under which they
    copied, empty where it was not set.
    """

    copies: Tuple[PairCopy, ...] = ()
    reason: Reason = NONE
    hung: Tuple[str, ...] = ()
    driver: str = ""
    check_off: str = ""

    def to_dict(self) -> Dict[str, Any]:
        """Return plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PairsRun:
        """Rebuild from ``to_dict``."""
        rest = dict(data)
        rest["copies"] = tuple(PairCopy(**each) for each in rest.get("copies", ()))
        rest["reason"] = Reason.from_json(rest.get("reason", ""))
        rest["hung"] = tuple(rest.get("hung", ()))
        return cls(**rest)
