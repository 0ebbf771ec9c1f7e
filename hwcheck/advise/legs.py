"""What the legs of one host prove about peer-to-peer transport (P2P). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hwcheck.advise.alike import alike_of
from hwcheck.advise.pairs import prove_pairs
from hwcheck.advise.proof import HostProof, Proof, completed, host_kind, setting_of
from hwcheck.judge.evidence import Known, gpus_of, known_of
from hwcheck.judge.leg_gaps import Counted, counted
from hwcheck.judge.legs import (
    LEAST_BYTES,
    Comparison,
    compare,
    is_broken,
    is_clean,
    largest,
    legs_of,
    wrong_elements,
)
from hwcheck.node.collective.spec import SYSTEM_CONF, SYSTEM_CONF_NOTE, Spec
from hwcheck.node.wire import Leg
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import binary_size, line, number

CONF_IN_THE_WAY = (
    f"{SYSTEM_CONF} exists and NCCL reads it in every leg, so the default was none: move it away "
    "and run again"
)


def prove(
    record: HostRecord, expect: Mapping[str, Any] | None = None, double: str = ""
) -> HostProof:
    """Return what a host's NCCL legs prove. Exercise legs (gloo) prove nothing.

    ``expect`` is what the inventory declares of it, ``double`` why it may be the same machine as
    another host. What ``judge.leg_gaps`` does not count proves nothing either.
    """
    known = known_of(expect or {}, record)
    nvlinks = active_nvlinks(record)
    found = counted(record, known, double)
    proofs = tuple(_prove_collective(each, nvlinks) for each in found)
    proofs = completed(proofs + prove_pairs(record, found, nvlinks))
    kind = host_kind(proofs)
    return HostProof(
        host=record.host,
        kind=kind,
        nvlinks=nvlinks,
        proofs=proofs,
        models=tuple(sorted({line(model, 60) for model in known.models.values()})),
        cpu_only=not proofs and _has_no_gpu(record, known),
        setting=setting_of(kind, proofs),
        alike=alike_of(record),
    )


def active_nvlinks(record: HostRecord) -> int | None:
    """Count active NVLinks over all GPUs; None when one GPU's count is missing or no count."""
    counts = [gpu.get("nvlink_links") for gpu in gpus_of(record)]
    known = [count for count in counts if type(count) is int and count >= 0]
    # One link is enough to forbid P2P off; only a full set of zeros allows it.
    whole = bool(counts) and len(known) == len(counts)
    return sum(known) if whole or any(known) else None


def _has_no_gpu(record: HostRecord, known: Known) -> bool:
    """Whether a whole answer shows it. A node whose driver is dead names no GPU either."""
    if record.state != "reported" or record.report is None or known.gpus:
        return False
    return any(leg.exercise for leg in legs_of(record)) or any(
        result.check == "gpu_count" and result.state == "not_applicable"
        for result in record.report.results
    )


def _prove_collective(found: Counted, nvlinks: int | None) -> Proof:
    default = found.legs.get("default")
    if default is not None and default.ranks < 2:
        detail = "one rank on the node: one GPU has no peer, so this proves nothing about P2P"
        return Proof(line(found.collective, 60), "unproven", detail)
    # Where there are pairs of both kinds, "without P2P" leaves the NVLinks on.
    other = "nvlink_only" if "nvlink_only" in found.legs and nvlinks else "p2p_off"
    for name in ("default", other):
        if name not in found.legs:
            problem = found.problems.get(name)
            why = f"does not count: {problem}" if problem else "was not measured"
            return Proof(line(found.collective, 60), "unproven", f"the leg {name} {why}")
    default, off = found.legs["default"], found.legs[other]
    if any(SYSTEM_CONF_NOTE in leg.notes for leg in found.legs.values()):
        return _proof(default, off, "unproven", CONF_IN_THE_WAY)
    links = 0 if other == "nvlink_only" else nvlinks
    prove = _prove_speed if is_clean(default) else _prove_broken
    proof = prove(default, off, found.legs.get("net"), links)
    through_cpus = found.legs.get("p2p_sys")
    compared = _speed(default, through_cpus)
    return replace(
        proof,
        off=_against(default, off),
        sys=_against(default, through_cpus),
        sys_gbps=compared.other_busbw_gbps if compared else None,
    )


def _against(default: Leg, other: Leg | None) -> str:
    """Return how a leg does against the default; nothing where it was not compared."""
    if other is None:
        return ""
    if is_broken(other):
        return "broken"
    compared = _speed(default, other)
    if compared is None:
        return ""
    return "faster" if compared.other_wins else "slower" if compared.base_wins else "same"


def _prove_speed(default: Leg, off_leg: Leg, net: Leg | None, nvlinks: int | None) -> Proof:
    off, sockets = _speed(default, off_leg), _speed(default, net)
    name = off_leg.leg
    if sockets is not None and sockets.other_wins and not _off_makes_up(off, off_leg, net):
        detail = (
            f"the default is slower than net ({number(sockets.other_busbw_gbps)} GB/s at "
            f"{binary_size(sockets.size_bytes)}): a defect in the transport, not a setting to keep"
        )
        return _proof(default, off_leg, "net_faster", detail, off)
    aside = "" if sockets is not None else "; net was not compared"
    if is_broken(off_leg):
        detail = f"the default is clean and {name} {_state(off_leg)}{aside}"
        return _proof(default, off_leg, "defaults", detail)
    if not is_clean(off_leg):
        return _proof(default, off_leg, "unproven", f"{name} {_state(off_leg)}")
    if off is None:
        detail = f"the two legs share no size to compare from {binary_size(LEAST_BYTES)} on"
        return _proof(default, off_leg, "unproven", f"{detail}: what is smaller is latency")
    if not off.other_wins:
        return _proof(default, off_leg, "defaults", _no_gain(off) + aside, off)
    gain = f"{name} is {off.ratio - 1:.0%} faster, spread {off.spread:.1%}"
    return _proof(default, off_leg, *_off_helps("off_faster", gain, nvlinks), off)


def _speed(base: Leg, other: Leg | None) -> Comparison | None:
    """Compare two clean legs at the largest size of both, unless its time is mostly latency."""
    if other is None or not (is_clean(base) and is_clean(other)):
        return None
    compared = compare(base, other)
    return compared if compared is not None and compared.size_bytes >= LEAST_BYTES else None


def _off_makes_up(off: Comparison | None, p2p_off: Leg, net: Leg | None) -> bool:
    """Whether P2P off beats the default, and the sockets do not beat P2P off."""
    if off is None or not off.other_wins:
        return False
    against = _speed(p2p_off, net)
    return against is not None and not against.other_wins


def _prove_broken(default: Leg, off_leg: Leg, net: Leg | None, nvlinks: int | None) -> Proof:
    detail = f"the default {_state(default)}, {off_leg.leg} {_state(off_leg)}"
    if not is_clean(off_leg):
        # One that failed, or was not run, shows nothing about P2P either way.
        kind = "neither" if is_broken(off_leg) else "unproven"
        return _proof(default, off_leg, kind, detail)
    if not is_broken(default):
        detail += "; an error is no proof against P2P, its log says more"
        return _proof(default, off_leg, "unproven", detail)
    if net is not None and is_broken(net):
        detail += f", and net {_state(net)} too, without P2P"
        return _proof(default, off_leg, "neither", detail)
    if not _goes_as_far(off_leg, default):
        detail += " but ended before the size that is bad, so it is no proof of a mend"
        return _proof(default, off_leg, "unproven", detail)
    return _proof(default, off_leg, *_off_helps("off_mends", detail, nvlinks))


def _goes_as_far(clean: Leg, broken: Leg) -> bool:
    """Whether a clean leg got through the size at which the other one gave wrong data or hung."""
    reached = clean.sizes[-1].size_bytes
    wrong = [size.size_bytes for size in broken.sizes if size.all_wrong]
    if wrong:
        return reached >= min(wrong)
    finished = broken.sizes[-1].size_bytes if broken.sizes else 0
    return reached > finished or reached >= Spec.max_bytes


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
    words = {
        "done": "is clean",
        "hang": "hangs",
        "failed": "failed",
        "not_run": "did not run",
        "not_engaged": "did not use what it is to measure",
    }
    if leg.state == "done" and not leg.sizes:
        return "measured nothing"
    return words[leg.state] + reason


def _proof(
    default: Leg, other: Leg, kind: str, detail: str, compared: Comparison | None = None
) -> Proof:
    on, off = (largest(leg) if is_clean(leg) else None for leg in (default, other))
    if compared is None:
        size = on or off
        size_bytes = size.size_bytes if size else None
        figures = (on.busbw_gbps if on else None, off.busbw_gbps if off else None)
    else:
        size_bytes = compared.size_bytes
        figures = (compared.base_busbw_gbps, compared.other_busbw_gbps)
    name, library = line(default.collective, 60), line(default.library, 60)
    return Proof(name, kind, detail, size_bytes, *figures, library, other=other.leg)
