"""What advice on NCCL says in one line where there is nothing to set. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hwcheck.advise.evidence import named
from hwcheck.advise.proof import HostProof
from hwcheck.judge.legs import legs_of
from hwcheck.results.run_folder import HostRecord

AGAINST = ("defaults", "split", "net_faster")


def name_of(proofs: Sequence[HostProof]) -> str:
    """Return ``NCCL_P2P_DISABLE=1``, of hosts that want the same."""
    return "=".join(proofs[0].setting or ())


def hosts_of(proofs: Sequence[HostProof]) -> str:
    """Return the names of the hosts, folded."""
    return named(proof.host for proof in proofs)


def leave(records: Sequence[HostRecord], proofs: Sequence[HostProof]) -> str:
    """Say why nothing is set where no host speaks for a setting."""
    usable = [proof for proof in proofs if proof.kind]
    if not usable:
        if any(leg.exercise for record in records for leg in legs_of(record)):
            why = " (gloo on the CPU exercises the path and says nothing about GPUs)"
        else:
            why = ""
        return f"leave unset: no NCCL leg was measured in this run{why}"
    parts = []
    best, defect, sockets, neither, split, unproven = (
        [proof for proof in usable if proof.kind == kind]
        for kind in ("defaults", "defect", "net_faster", "neither", "split", "unproven")
    )
    if best:
        parts.append(f"the defaults measured best on {hosts_of(best)}")
    if defect:
        parts.append(
            f"P2P is bad in spite of active NVLinks on {hosts_of(defect)}: a defect to mend or "
            "isolate, never a reason to disable NVLink"
        )
    if sockets:
        parts.append(
            f"the default is slower than net on {hosts_of(sockets)}: a defect in the transport, "
            "not a setting to keep"
        )
    if neither:
        parts.append(
            f"on {hosts_of(neither)} a leg without P2P is bad too, so P2P is not shown to be the "
            "cause"
        )
    if split:
        parts.append(f"{hosts_of(split)}: it depends on the collective, {_who_wins(split)}")
    if unproven:
        details = dict.fromkeys(proof.why for proof in unproven)
        why = next(iter(details)) + (", and other reasons" if len(details) > 1 else "")
        parts.append(f"nothing is proven about P2P on {hosts_of(unproven)} ({why})")
    unmeasured = [proof for proof in proofs if not proof.kind]
    if unmeasured:
        parts.append(f"no NCCL leg was measured on {hosts_of(unmeasured)}")
    return "leave unset: " + "; ".join(parts)


def _who_wins(split: Sequence[HostProof]) -> str:
    """Say which collective is faster under which leg; figures are in the evidence."""
    ways: dict[str, set[str]] = {}
    for proof in (proof for host in split for proof in host.proofs):
        leg = {"faster": proof.other, "slower": "default", "broken": "default"}.get(proof.off, "")
        ways.setdefault(proof.collective, set()).add(leg or "neither")
    return ", ".join(f"{name} is best under {' or '.join(sorted(ways[name]))}" for name in ways)


def contradiction(off: Sequence[HostProof], against: Sequence[HostProof]) -> str:
    """Say which hosts want the setting and which ones speak against it."""
    parts = [f"{name_of(off)} is best on {hosts_of(off)}"]
    best, split, sockets = ([p for p in against if p.kind == kind] for kind in AGAINST)
    linked = [proof for proof in against if proof.kind not in AGAINST and not proof.setting]
    if best:
        parts.append(f"the defaults on {hosts_of(best)}")
    if split:
        parts.append(f"on {hosts_of(split)} {_who_wins(split)}")
    if sockets:
        parts.append(f"sockets on {hosts_of(sockets)}")
    for setting in dict.fromkeys(proof.setting for proof in against if proof.setting):
        others = [proof for proof in against if proof.setting == setting]
        parts.append(f"{name_of(others)} on {hosts_of(others)}")
    text = ", ".join(parts)
    known = [proof for proof in linked if proof.nvlinks]
    if known:
        text += f"; it would turn off the NVLinks of {hosts_of(known)}"
    unread = [proof for proof in linked if not proof.nvlinks]
    if unread:
        text += f"; it might turn off NVLinks of {hosts_of(unread)}, where they could not be read"
    return (
        f"no setting for all of these hosts, leave unset: {text}; mend or isolate {hosts_of(off)}"
    )


def not_seen(off: Sequence[HostProof], unseen: Sequence[HostProof]) -> str:
    """Say which hosts want the setting, and of which ones nobody knows what they are."""
    return (
        f"no setting for all of these hosts, leave unset: {name_of(off)} is proven on "
        f"{hosts_of(off)}, and the GPUs of {hosts_of(unseen)} are not known: it could take away "
        "P2P that works there. Those that are alike have settings of their own"
    )


def as_many_hang(off: Sequence[HostProof], neither: Sequence[HostProof]) -> str:
    """Say that as many hosts hang either way as the setting mends."""
    return (
        f"leave unset: {name_of(off)} is proven on {hosts_of(off)}, and on {hosts_of(neither)} a "
        "leg without P2P is bad too, so P2P is not shown to be the cause; mend or isolate these "
        "and run again"
    )


def too_few(off: Sequence[HostProof], share: str, short: Sequence[str]) -> str:
    """Say that the setting is proven on too few hosts to be one for all."""
    proven = f"leave unset: {name_of(off)} is proven on {hosts_of(off)} only ({share})"
    if short:
        more = f" and {len(short) - 4} more" if len(short) > 4 else ""
        proven += f", and on fewer than half of the hosts with {', '.join(short[:4])}{more}"
    return (
        f"{proven}; on the others it was not measured, or the legs prove nothing. Mend that and "
        "run again"
    )
