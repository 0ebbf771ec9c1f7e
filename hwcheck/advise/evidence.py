"""The figures that advice on NCCL rests on, one line for hosts that prove the same. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hwcheck.advise.proof import HostProof, Proof
from hwcheck.fold import fold
from hwcheck.text import binary_size, number

EVIDENCE_LINES = 40
MOST_CHARACTERS = 200
"""Names of hosts that take more would crowd out the reasons that they stand in."""
KINDS_SHOWN = (
    *("off_mends", "off_faster", "defect", "net_faster", "neither", "defaults", "unproven"),
)
"""The kinds of one collective in the order in which they are told."""


def named(hosts: Iterable[str]) -> str:
    """Return the names folded; of hosts whose names take too much room, their number."""
    names = list(dict.fromkeys(hosts))
    text = fold(names)
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{len(names)} hosts ({names[0]} to {names[-1]}, and others between them)"


def evidence(proofs: Iterable[HostProof]) -> tuple[str, ...]:
    """One line for hosts that prove the same, with the range of their figures."""
    groups: dict[tuple[str, str, str, str, int | None], list[tuple[str, Proof]]] = {}
    for host in proofs:
        for proof in host.proofs:
            # Reasons differ in their numbers; the figures stand in the range.
            same = re.sub(r"\d+(\.\d+)?", "0", proof.detail)
            key = (proof.collective, proof.kind, proof.other, same, proof.size_bytes)
            groups.setdefault(key, []).append((host.host, proof))
    ordered = sorted(groups.items(), key=lambda item: KINDS_SHOWN.index(item[0][1]))
    lines = [_evidence_line(members) for _, members in ordered]
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
    return (
        f"{named(host for host, _ in members)}: {first.collective}: {first.detail}{more}{measured}"
    )


def _range(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = number(min(known)), number(max(known))
    return low if low == high else f"{low} to {high}"
