"""What the legs of a host, and copies between its GPUs, prove about P2P. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hwcheck.advise.platforms import platform_of
from hwcheck.advise.records import KINDS, HostProof, Proof
from hwcheck.checks.gpu_count import gpu_count
from hwcheck.checks.gpu_pairs import P2P_ACCESS, P2P_WRONG_ELEMENTS, gpu_pairs
from hwcheck.checks.topology import PATH, topology
from hwcheck.contract.collective_spec import (
    PAIRS,
    SYSTEM_CONF,
    SYSTEM_CONF_NOTE,
    USER_CONF_NOTE,
    CollectiveSpec,
)
from hwcheck.contract.wire import Leg
from hwcheck.fold import fold
from hwcheck.judge.evidence import LegEvidence, counted
from hwcheck.judge.host_case import NodeFacts, gpus_of, node_facts, values_of
from hwcheck.judge.legs import (
    LEAST_BYTES,
    LegComparison,
    compare,
    is_broken,
    is_clean,
    largest,
    legs_of,
    wrong_elements,
)
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import binary_size, line, number

BOTH = ("all_reduce", "alltoall")
"""What a setting for speed has to be measured with. P2P through a CPU can gain a fifth on the one
and lose nine tenths on the other (NVIDIA/nccl issue 1603), so neither stands for both. A hang or
wrong data needs no second collective: P2P must not be used where it breaks one."""
GAINS = ("off_faster", "sys_faster")
OFF = ("NCCL_P2P_DISABLE", "1")
NVL = ("NCCL_P2P_LEVEL", "NVL")
SYS = ("NCCL_P2P_LEVEL", "SYS")
CONF_IN_THE_WAY = {
    note: f"{file} exists and NCCL reads it in every leg, so the default was none: move it away "
    "and run again"
    for note, file in ((SYSTEM_CONF_NOTE, SYSTEM_CONF), (USER_CONF_NOTE, "~/.nccl.conf"))
}
EVIDENCE_LINES = 40
MOST_CHARACTERS = 200
"""Names of hosts that take more would crowd out the reasons that they stand in."""
KINDS_SHOWN = (
    *("off_mends", "off_faster", "defect", "net_faster", "neither", "defaults", "unproven"),
)
"""The kinds of one collective in the order in which evidence lists them."""


def prove(
    record: HostRecord, expect: Mapping[str, Any] | None = None, double: str = ""
) -> HostProof:
    """Return what a host's NCCL legs prove. Exercise legs (gloo) prove nothing.

    ``expect`` is what the inventory declares of it, ``double`` why it may be the same machine as
    another host. What ``judge.evidence`` does not count proves nothing either.
    """
    facts = node_facts(expect or {}, record)
    nvlinks = active_nvlinks(record)
    collectives = counted(record, facts, double)
    proofs = tuple(_prove_collective(each, nvlinks) for each in collectives)
    proofs = with_unmeasured(proofs + _prove_pairs(record, collectives, nvlinks))
    kind = host_kind(proofs)
    return HostProof(
        host=record.host,
        kind=kind,
        nvlinks=nvlinks,
        proofs=proofs,
        models=tuple(sorted({line(model, 60) for model in facts.models.values()})),
        cpu_only=not proofs and _has_no_gpu(record, facts),
        setting=setting_of(kind, proofs),
        platform=platform_of(record),
    )


def active_nvlinks(record: HostRecord) -> int | None:
    """Count active NVLinks over all GPUs; None when one GPU's count is missing or no count."""
    counts = [gpu.nvlink_links for gpu in gpus_of(record)]
    numbers = [count for count in counts if count is not None and count >= 0]
    # One link is enough to forbid P2P off; only a full set of zeros allows it.
    whole = bool(counts) and len(numbers) == len(counts)
    return sum(numbers) if whole or any(numbers) else None


def _has_no_gpu(record: HostRecord, facts: NodeFacts) -> bool:
    """Whether a whole answer shows it. A node whose driver is dead names no GPU either."""
    if record.state != "reported" or record.report is None or facts.gpus:
        return False
    return any(leg.exercise for leg in legs_of(record)) or any(
        result.check == gpu_count.id and result.state == "not_applicable"
        for result in record.report.results
    )


def _prove_collective(collective: LegEvidence, nvlinks: int | None) -> Proof:
    legs, name = collective.legs, line(collective.collective, 60)
    default = legs.get("default")
    if default is not None and default.ranks < 2:
        detail = "one rank on the node: one GPU has no peer, so this proves nothing about P2P"
        return Proof(name, "unproven", detail)
    # Where there are pairs of both kinds, "without P2P" leaves the NVLinks on.
    other = "nvlink_only" if "nvlink_only" in legs and nvlinks else "p2p_off"
    for leg in ("default", other):
        if leg not in legs:
            problem = collective.problems.get(leg)
            why = f"does not count: {problem}" if problem else "was not measured"
            return Proof(name, "unproven", f"the leg {leg} {why}")
    default, off = legs["default"], legs[other]
    for note, in_the_way in CONF_IN_THE_WAY.items():
        if any(note in each.notes for each in legs.values()):
            return _proof(default, off, "unproven", in_the_way)
    links = 0 if other == "nvlink_only" else nvlinks
    prove = _prove_speed if is_clean(default) else _prove_broken
    proof = prove(default, off, legs.get("net"), links)
    through_cpus = legs.get("p2p_sys")
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


def _speed(base: Leg, other: Leg | None) -> LegComparison | None:
    """Compare two clean legs at the largest size of both, unless its time is mostly latency."""
    if other is None or not (is_clean(base) and is_clean(other)):
        return None
    compared = compare(base, other)
    return compared if compared is not None and compared.size_bytes >= LEAST_BYTES else None


def _off_makes_up(off: LegComparison | None, p2p_off: Leg, net: Leg | None) -> bool:
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
    return reached > finished or reached >= CollectiveSpec.max_bytes


def _off_helps(kind: str, detail: str, nvlinks: int | None) -> tuple[str, str]:
    """P2P off also turns NVLink off, so it is never a setting where links are or may be active."""
    if nvlinks is None:
        return "unproven", f"{detail}; whether NVLinks are active could not be read"
    if nvlinks > 0:
        return "defect", f"{detail}, with NVLinks active"
    return kind, detail


def _no_gain(compared: LegComparison) -> str:
    if compared.base_wins:
        return "the default is faster"
    return "no difference beyond the spread and 10 %"


def _state(leg: Leg) -> str:
    wrong = wrong_elements(leg)
    if wrong:
        return f"gave {wrong} wrong elements"
    reason = f" ({line(leg.reason.text, 120)})" if leg.reason else ""
    words = {
        "done": "is clean",
        "hang": "hangs",
        "failed": "failed",
        "not_run": "did not run",
        "not_engaged": "did not use what it is to measure",
        "not_started": "did not start",
    }
    if leg.state == "done" and not leg.sizes:
        return "measured nothing"
    return words[leg.state] + reason


def _proof(
    default: Leg, other: Leg, kind: str, detail: str, compared: LegComparison | None = None
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


def _prove_pairs(
    record: HostRecord, collectives: Sequence[LegEvidence], nvlinks: int | None
) -> tuple[Proof, ...]:
    """Return a proof where a pair with peer access delivered wrong data; else nothing.

    P2P must not be used on such a path. That is a setting only where NCCL's default goes by P2P
    and every collective is clean without it; where the NVLinks themselves are bad, or would be
    turned off with it, it is a defect. ``collectives`` are the host's legs that count.
    """
    bad = _bad_pairs(record)
    defaults = [each.legs["default"] for each in collectives if "default" in each.legs]
    if not bad or not any(map(_goes_by_p2p, defaults)):
        return ()
    more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    detail = f"{line(bad[0], 40)}{more}: copies with peer access arrive wrong"
    bridged = bool(nvlinks) and any("nvlink_only" in each.legs for each in collectives)
    other = "nvlink_only" if bridged else "p2p_off"
    without = [each.legs.get(other) for each in collectives]
    return (
        Proof(PAIRS, *_kind(detail, other, without, nvlinks, _linked(record, bad)), other=other),
    )


def _kind(
    detail: str, other: str, without: Sequence[Leg | None], nvlinks: int | None, linked: bool
) -> tuple[str, str]:
    if linked:
        return "defect", f"{detail}, over NVLinks"
    if not all(leg is not None and is_clean(leg) for leg in without):
        return "unproven", f"{detail}; not every collective is known to be clean under {other}"
    detail += f"; every collective is clean under {other}"
    if other == "nvlink_only" or nvlinks == 0:
        return "off_mends", detail
    if nvlinks is None:
        return "unproven", f"{detail}; whether NVLinks are active could not be read"
    return "defect", f"{detail}, with NVLinks active"


def _goes_by_p2p(leg: Leg) -> bool:
    """Whether NCCL used P2P, or does not say what it used."""
    connections = [name for name in leg.transport if "/" in name or name == "SHM"]
    return not connections or any(name.startswith("P2P/") for name in connections)


def _bad_pairs(record: HostRecord) -> list[str]:
    access = values_of(record, gpu_pairs, P2P_ACCESS)
    wrong = values_of(record, gpu_pairs, P2P_WRONG_ELEMENTS)
    return [pair for pair, elements in wrong.items() if access.get(pair) is True and elements]


def _linked(record: HostRecord, pairs: Sequence[str]) -> bool:
    """Whether NVLinks join one of the pairs; ``topology`` has each pair once."""
    ways = values_of(record, topology, PATH)
    both = ((pair, "-".join(reversed(pair.split("-")))) for pair in pairs)
    return any(str(ways.get(name, "")).startswith("NV") for names in both for name in names)


def with_unmeasured(proofs: Sequence[Proof]) -> tuple[Proof, ...]:
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
    return _together(with_unmeasured(proofs))


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


def evidence_lines(proofs: Iterable[HostProof]) -> tuple[str, ...]:
    """One line for hosts that prove the same, with the range of their figures."""
    members: dict[tuple[str, str, str, str, int | None], list[tuple[str, Proof]]] = {}
    for host in proofs:
        for proof in host.proofs:
            # Reasons differ in their numbers; the figures stand in the range.
            same = re.sub(r"\d+(\.\d+)?", "0", proof.detail)
            key = (proof.collective, proof.kind, proof.other, same, proof.size_bytes)
            members.setdefault(key, []).append((host.host, proof))
    ordered = sorted(members.items(), key=lambda item: KINDS_SHOWN.index(item[0][1]))
    lines = [_evidence_line(alike) for _, alike in ordered]
    if len(lines) > EVIDENCE_LINES:
        lines = [*lines[:EVIDENCE_LINES], f"{len(lines) - EVIDENCE_LINES} more lines left out"]
    return tuple(lines)


def _evidence_line(members: Sequence[tuple[str, Proof]]) -> str:
    first = members[0][1]
    figures = [
        f"{name} {shown} GB/s"
        for name, shown in (
            ("default", _range([proof.default_gbps for _, proof in members])),
            (first.other, _range([proof.p2p_off_gbps for _, proof in members])),
            ("p2p_sys", _range([proof.sys_gbps for _, proof in members])),
        )
        if shown
    ]
    size = f" at {binary_size(first.size_bytes)}" if figures and first.size_bytes else ""
    measured = f"; busbw {', '.join(figures)}{size}" if figures else ""
    more = ", and alike" if len({proof.detail for _, proof in members}) > 1 else ""
    hosts = host_names(host for host, _ in members)
    return f"{hosts}: {first.collective}: {first.detail}{more}{measured}"


def _range(values: Sequence[float | None]) -> str:
    figures = [value for value in values if value is not None]
    if not figures:
        return ""
    low, high = number(min(figures)), number(max(figures))
    return low if low == high else f"{low} to {high}"


def host_names(hosts: Iterable[str]) -> str:
    """Return the names folded; of hosts whose names take too much room, their number."""
    names = list(dict.fromkeys(hosts))
    text = fold(names)
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{len(names)} hosts ({names[0]} to {names[-1]}, and others between them)"
