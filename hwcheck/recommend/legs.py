"""What the legs of one host prove about peer-to-peer transport (P2P). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hwcheck.judge.legs import (
    LEAST_ITERATIONS,
    Comparison,
    compare,
    is_broken,
    is_clean,
    largest,
    legs_of,
    wrong_elements,
)
from hwcheck.results import HostRecord
from hwcheck.text import line
from hwcheck.wire import Leg

KINDS = ("neither", "defect", "off_mends", "unproven", "defaults", "off_faster")
"""What one collective on one host proves. The first of these that any collective of a host gives
is the host's own: a setting must not harm one collective for another's sake.

neither: both legs are bad, so P2P is not the cause. defect: P2P is bad on a host with NVLinks.
off_mends: bad by default, clean without P2P. unproven: the legs do not say. defaults: nothing
beats them. off_faster: without P2P it is faster, beyond the spread and 10 %."""


@dataclass(frozen=True)
class Proof:
    """What one collective proves on one host; busbw in 1e9 bytes/s, None where not measured."""

    collective: str
    kind: str
    detail: str
    size_bytes: int | None = None
    default_gbps: float | None = None
    p2p_off_gbps: float | None = None
    library: str = ""


@dataclass(frozen=True)
class HostProof:
    """One host: its kind (see ``KINDS``; empty without a usable NCCL leg) and why.

    ``nvlinks`` counts the active NVLinks over all GPUs; None where that could not be read.
    """

    host: str
    kind: str
    nvlinks: int | None = None
    proofs: tuple[Proof, ...] = field(default_factory=tuple)


def prove(record: HostRecord) -> HostProof:
    """Return what a host's NCCL legs prove. Exercise legs (gloo) prove nothing."""
    legs = [leg for leg in legs_of(record) if leg.backend == "nccl" and not leg.exercise]
    nvlinks = active_nvlinks(record)
    proofs = tuple(
        _prove_collective([leg for leg in legs if leg.collective == name], nvlinks)
        for name in dict.fromkeys(leg.collective for leg in legs)
    )
    kind = min((proof.kind for proof in proofs), key=KINDS.index, default="")
    return HostProof(record.host, kind, nvlinks, proofs)


def active_nvlinks(record: HostRecord) -> int | None:
    """Count active NVLinks over all GPUs; None when one GPU's count is missing or not a number."""
    gpus = record.report.facts.get("gpus") if record.report else None
    if not isinstance(gpus, list) or not gpus:
        return None
    counts = [gpu.get("nvlink_links") for gpu in gpus]
    known = [count for count in counts if type(count) is int]
    # One link is enough to forbid P2P off; only a full set of zeros allows it.
    return sum(known) if len(known) == len(counts) or any(count > 0 for count in known) else None


def _prove_collective(legs: Iterable[Leg], nvlinks: int | None) -> Proof:
    by_name = {leg.leg: leg for leg in legs}
    default, p2p_off = by_name.get("default"), by_name.get("p2p_off")
    if default is None or p2p_off is None:
        missing = "default" if default is None else "p2p_off"
        name = line(next(iter(by_name.values())).collective, 60)
        return Proof(name, "unproven", f"the leg {missing} was not measured")
    if max(default.ranks, p2p_off.ranks) < 2:
        detail = "one rank on the node: one GPU has no peer, so this proves nothing about P2P"
        return _proof(default, p2p_off, "unproven", detail)
    if default.ranks != p2p_off.ranks:
        detail = f"the default ran with {default.ranks} ranks and p2p_off with {p2p_off.ranks}"
        return _proof(default, p2p_off, "unproven", detail)
    if is_clean(default):
        return _prove_speed(default, p2p_off, nvlinks)
    return _prove_broken(default, p2p_off, nvlinks)


def _prove_speed(default: Leg, p2p_off: Leg, nvlinks: int | None) -> Proof:
    if is_broken(p2p_off):
        detail = f"the default is clean and p2p_off {_state(p2p_off)}"
        return _proof(default, p2p_off, "defaults", detail)
    if not is_clean(p2p_off):
        return _proof(default, p2p_off, "unproven", f"p2p_off {_state(p2p_off)}")
    compared = compare(default, p2p_off)
    if compared is None:
        return _proof(default, p2p_off, "unproven", "the two legs share no message size")
    if not compared.other_wins:
        return _proof(default, p2p_off, "defaults", _no_gain(compared), compared)
    gain = f"p2p_off is {compared.ratio - 1:.0%} faster, spread {compared.spread:.1%}"
    return _proof(default, p2p_off, *_off_helps("off_faster", gain, nvlinks), compared)


def _prove_broken(default: Leg, p2p_off: Leg, nvlinks: int | None) -> Proof:
    detail = f"the default {_state(default)}, p2p_off {_state(p2p_off)}"
    if p2p_off.state == "not_run":
        return _proof(default, p2p_off, "unproven", detail)
    if not is_clean(p2p_off):
        return _proof(default, p2p_off, "neither", detail)
    if largest(p2p_off) is None:
        detail += f"; it timed no size {LEAST_ITERATIONS} times, so it is no proof of a mend"
        return _proof(default, p2p_off, "unproven", detail)
    if not is_broken(default):
        detail += "; an error is no proof against P2P, its log says more"
        return _proof(default, p2p_off, "unproven", detail)
    return _proof(default, p2p_off, *_off_helps("off_mends", detail, nvlinks))


def _off_helps(kind: str, detail: str, nvlinks: int | None) -> tuple[str, str]:
    """P2P off also turns NVLink off, so it is never a setting where links are or may be active."""
    if nvlinks is None:
        return "unproven", f"{detail}; whether NVLinks are active could not be read"
    if nvlinks > 0:
        return "defect", f"{detail}, with NVLinks active"
    return kind, detail


def _no_gain(compared: Comparison) -> str:
    if compared.base_wins:
        return "the default is faster"
    return "no difference beyond the spread and 10 %"


def _state(leg: Leg) -> str:
    wrong = wrong_elements(leg)
    if wrong:
        return f"gave {wrong} wrong elements"
    reason = f" ({line(leg.reason, 120)})" if leg.reason else ""
    words = {"done": "is clean", "hang": "hangs", "failed": "failed", "not_run": "did not run"}
    if leg.state == "done" and not leg.sizes:
        return "measured nothing"
    return words[leg.state] + reason


def _proof(
    default: Leg, p2p_off: Leg, kind: str, detail: str, compared: Comparison | None = None
) -> Proof:
    on, off = (largest(leg) if is_clean(leg) else None for leg in (default, p2p_off))
    if compared is None:
        size = on or off
        size_bytes = size.size_bytes if size else None
        figures = (on.busbw_gbps if on else None, off.busbw_gbps if off else None)
    else:
        size_bytes = compared.size_bytes
        figures = (compared.base_busbw_gbps, compared.other_busbw_gbps)
    name, library = line(default.collective, 60), line(default.library, 60)
    return Proof(name, kind, detail, size_bytes, *figures, library)
