"""What legs prove: the records, and what the collectives of one host prove together. Pure data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hwcheck.advise.alike import Alike

KINDS = (
    *("neither", "defect", "net_faster", "off_mends", "unproven", "split", "defaults"),
    *("off_faster", "sys_faster"),
)
"""What one collective on one host proves. The first of these that any collective of a host gives
is the host's own: a setting must not harm one collective for another's sake.

neither: a leg without P2P is bad too, so P2P is not shown to be the cause. defect: P2P is bad on a
host with NVLinks. net_faster: sockets beat the default, and P2P off does not make up for it.
off_mends: bad by default, clean without P2P. unproven: the legs do not say. split: of a host, where
one collective is faster without P2P and another one with it. defaults: nothing beats them.
off_faster: without P2P it is faster, beyond the spread and 10 %. sys_faster: so it is with P2P
through the CPUs. Collectives that show no difference do not stand against a gain of another.

"Without P2P" is without it over PCIe only (the leg nvlink_only) on a host that has pairs of both
kinds: NVLinks are never turned off."""

BOTH = ("all_reduce", "alltoall")
"""What a setting for speed has to be measured with. P2P through a CPU can gain a fifth on the one
and lose nine tenths on the other (NVIDIA/nccl issue 1603), so neither stands for both. A hang or
wrong data needs no second collective: P2P must not be used where it breaks one."""

GAINS = ("off_faster", "sys_faster")

OFF = ("NCCL_P2P_DISABLE", "1")
NVL = ("NCCL_P2P_LEVEL", "NVL")
SYS = ("NCCL_P2P_LEVEL", "SYS")


@dataclass(frozen=True)
class Proof:
    """What one collective proves on one host; busbw in 1e9 bytes/s, None where not measured.

    ``off`` and ``sys`` say how the leg without P2P, and that with P2P everywhere, do against the
    default: ``faster``, ``slower``, ``same``, ``broken``, or nothing where it cannot be said.
    ``other`` names the leg without P2P.
    """

    collective: str
    kind: str
    detail: str
    size_bytes: int | None = None
    default_gbps: float | None = None
    p2p_off_gbps: float | None = None
    library: str = ""
    off: str = ""
    sys: str = ""
    other: str = "p2p_off"
    sys_gbps: float | None = None


@dataclass(frozen=True)
class HostProof:
    """One host: its kind (see ``KINDS``; empty without a usable NCCL leg) and why.

    ``nvlinks`` counts the active NVLinks over all GPUs; None where that could not be read.
    ``models`` are the GPU models that it names. ``setting`` is what its kind speaks for, name and
    value; empty where it is nothing to set. ``cpu_only`` where it has no GPU and none is
    declared: a setting of NCCL is nothing to it. ``alike`` is what it shares with
    hosts that a setting may be for as well; None where it names no GPU.
    """

    host: str
    kind: str
    nvlinks: int | None = None
    proofs: tuple[Proof, ...] = field(default_factory=tuple)
    models: tuple[str, ...] = ()
    cpu_only: bool = False
    setting: tuple[str, str] | None = None
    alike: Alike | None = None

    @property
    def why(self) -> str:
        """The detail that made the host's kind."""
        if self.kind == "split":
            return "; ".join(f"{proof.collective}: {proof.detail}" for proof in self.proofs)
        return next((proof.detail for proof in self.proofs if proof.kind == self.kind), "")


def completed(proofs: Sequence[Proof]) -> tuple[Proof, ...]:
    """Return the proofs of a host, and one more for each of ``BOTH`` that a gain in speed lacks."""
    if _together(proofs) not in GAINS:
        return tuple(proofs)
    measured = {proof.collective for proof in proofs}
    others = " and ".join(sorted(measured))
    lacking = (name for name in BOTH if name not in measured)
    return (
        *proofs,
        *(
            Proof(
                name,
                "unproven",
                f"no leg of {name} was measured, and it may lose by what {others} gains: measure "
                f"{' and '.join(BOTH)} with the same legs",
            )
            for name in lacking
        ),
    )


def host_kind(proofs: Sequence[Proof]) -> str:
    """Return what all collectives of a host prove together (see ``KINDS``)."""
    return _together(completed(proofs))


def _together(proofs: Sequence[Proof]) -> str:
    kinds = [proof.kind for proof in proofs]
    first = min(kinds, key=KINDS.index, default="")
    off = {proof.off for proof in proofs}
    if first == "off_mends" and "broken" in off:
        return "neither"
    if first != "defaults":
        return first
    if "off_faster" in kinds:
        return "split" if off & {"slower", "broken"} else "off_faster"
    through_cpus = {proof.sys for proof in proofs}
    gains = "faster" in through_cpus and through_cpus <= {"faster", "same"}
    return "sys_faster" if gains else first


def setting_of(kind: str, proofs: Sequence[Proof]) -> tuple[str, str] | None:
    """Return the name and value of what a host's kind speaks for, or None."""
    if kind == "sys_faster":
        return SYS
    if kind not in ("off_mends", "off_faster"):
        return None
    return NVL if any(proof.other == "nvlink_only" for proof in proofs) else OFF
