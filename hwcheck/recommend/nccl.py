"""From the legs of all hosts to NCCL settings, and to the files that NCCL and a shell read."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hwcheck import __version__
from hwcheck.fold import fold
from hwcheck.judge.fleet import same_machine
from hwcheck.judge.legs import legs_of
from hwcheck.recommend.legs import prove
from hwcheck.recommend.proof import OFF, HostProof, Proof
from hwcheck.recommend.records import NcclAdvice, Setting
from hwcheck.results import HostRecord, Run
from hwcheck.text import binary_size, count, line, number

AGAINST = ("defaults", "split", "net_faster")
RETEST = (
    "A workaround: NVIDIA documents it for debugging only. Test again after each upgrade, with "
    "/etc/nccl.conf moved away."
)
MEND_FIRST = "Mend the cause first: PCIe ACS or IOMMU, the driver, the BAR1 size."
EVIDENCE_LINES = 40
KINDS_SHOWN = (
    *("off_mends", "off_faster", "defect", "net_faster", "neither", "defaults", "unproven"),
)
"""The kinds of one collective in the order in which they are told."""

_NAME = re.compile(r"NCCL_[A-Z0-9_]+\Z")
_VALUE = re.compile(r"[!-~]{1,1000}\Z")


def advise(run: Run) -> NcclAdvice:
    """Return the NCCL settings that the legs of this run prove; most often none.

    A setting is for the cluster, so it must be proven on at least half of the hosts that were
    planned, on at least half of those of each GPU model, and on none the contrary. A host without
    a GPU has no part in it.
    """
    everyone = _proofs(run)
    evidence = _evidence(everyone)
    proofs = [proof for proof in everyone if not proof.cpu_only]
    wanted = Counter(proof.setting for proof in proofs if proof.setting).most_common(1)
    if not wanted:
        return NcclAdvice((), _leave(run, proofs), evidence)
    chosen = wanted[0][0]
    off = [proof for proof in proofs if proof.setting == chosen]
    against = [p for p in proofs if p not in off and _is_against(p, chosen)]
    if against:
        return NcclAdvice((), _contradiction(off, against), evidence)
    share = f"{len(off)} of {count(len(proofs), 'host')}"
    short = _models_short_of_proof(proofs)
    if 2 * len(off) < len(proofs) or short:
        return NcclAdvice((), _too_few(off, share, short), evidence)
    setting = Setting(*chosen, _reason(off))
    summary = f"set {_name(off)}: proven on {_hosts(off)} ({share}){_rest(everyone)}"
    return NcclAdvice((setting,), summary, evidence)


def _is_against(proof: HostProof, chosen: tuple[str, str]) -> bool:
    """Whether a host speaks against a setting: it wants none, or another, or has its NVLinks."""
    other = proof.setting is not None and proof.setting != chosen
    return proof.kind in AGAINST or other or bool(chosen == OFF and proof.nvlinks)


def _name(proofs: Sequence[HostProof]) -> str:
    """Return ``NCCL_P2P_DISABLE=1``, of hosts that want the same."""
    return "=".join(proofs[0].setting or ())


def _proofs(run: Run) -> list[HostProof]:
    """Return what each host proves with the checks that were asked for."""
    doubles = same_machine(run)
    proofs = []
    for plan, record in zip(run.meta.hosts, run.records, strict=True):
        if record.report:
            asked = tuple(r for r in record.report.results if r.check in run.meta.checks)
            report = replace(record.report, results=asked)
            record = HostRecord(**(vars(record) | {"report": report}))
        proofs.append(prove(record, plan.expect, doubles.get(plan.name, "")))
    return proofs


def _models_short_of_proof(proofs: Sequence[HostProof]) -> list[str]:
    """Return the GPU models of which fewer than half of the hosts prove the setting."""
    kinds: dict[str, list[bool]] = {}
    for proof in proofs:
        if proof.models:
            kinds.setdefault(" and ".join(proof.models), []).append(proof.setting is not None)
    return [name for name, proven in kinds.items() if 2 * sum(proven) < len(proven)]


def _rest(proofs: Sequence[HostProof]) -> str:
    """Say on which hosts the setting is not proven, and which were left out."""
    unproven = [p for p in proofs if not p.setting and p.kind and not p.cpu_only]
    unmeasured = [p for p in proofs if not p.kind and not p.cpu_only]
    without = [p for p in proofs if p.cpu_only]
    text = f"; not proven on {_hosts(unproven)} ({unproven[0].why})" if unproven else ""
    text += f"; not measured on {_hosts(unmeasured)}" if unmeasured else ""
    return text + (f"; without a GPU, so not counted: {_hosts(without)}" if without else "")


def nccl_conf(advice: NcclAdvice) -> str:
    """Render ``nccl.conf``: one ``NAME=value`` a line, as every NCCL from 2.23 on reads it.

    Readers before 2.26 know no comments but skip a line without ``=``, so no comment has one.
    Raises ValueError for a setting that such a file cannot carry.
    """
    where = "Copy to /etc/nccl.conf on these hosts, or name this file in NCCL_CONF_FILE."
    lines = _comments(advice, where)
    for setting in advice.settings:
        _refuse_odd(setting)
        lines += [*_comment(setting.reason), f"{setting.name}={setting.value}"]
    return "\n".join(lines) + "\n"


def nccl_env(advice: NcclAdvice) -> str:
    """Render ``nccl.env``: the same settings for a shell to source."""
    lines = _comments(advice, "Source this file before the job starts.")
    for setting in advice.settings:
        _refuse_odd(setting)
        lines += [
            *_comment(setting.reason),
            f"export {setting.name}={shlex.quote(setting.value)}",
        ]
    return "\n".join(lines) + "\n"


def _leave(run: Run, proofs: Sequence[HostProof]) -> str:
    usable = [proof for proof in proofs if proof.kind]
    if not usable:
        if any(leg.exercise for record in run.records for leg in legs_of(record)):
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
        parts.append(f"the defaults measured best on {_hosts(best)}")
    if defect:
        parts.append(
            f"P2P is bad in spite of active NVLinks on {_hosts(defect)}: a defect to mend or "
            "isolate, never a reason to disable NVLink"
        )
    if sockets:
        parts.append(
            f"the default is slower than net on {_hosts(sockets)}: a defect in the transport, not "
            "a setting to keep"
        )
    if neither:
        parts.append(
            f"on {_hosts(neither)} a leg without P2P is bad too, so P2P is not shown to be the "
            "cause"
        )
    if split:
        parts.append(f"{_hosts(split)}: it depends on the collective, {_who_wins(split)}")
    if unproven:
        details = dict.fromkeys(proof.why for proof in unproven)
        why = next(iter(details)) + (", and other reasons" if len(details) > 1 else "")
        parts.append(f"nothing is proven about P2P on {_hosts(unproven)} ({why})")
    unmeasured = [proof for proof in proofs if not proof.kind]
    if unmeasured:
        parts.append(f"no NCCL leg was measured on {_hosts(unmeasured)}")
    return "leave unset: " + "; ".join(parts)


def _who_wins(split: Sequence[HostProof]) -> str:
    """Say which collective is faster under which leg; figures are in the evidence."""
    ways: dict[str, set[str]] = {}
    for proof in (proof for host in split for proof in host.proofs):
        leg = {"faster": proof.other, "slower": "default", "broken": "default"}.get(proof.off, "")
        ways.setdefault(proof.collective, set()).add(leg or "neither")
    return ", ".join(f"{name} is best under {' or '.join(sorted(ways[name]))}" for name in ways)


def _contradiction(off: Sequence[HostProof], against: Sequence[HostProof]) -> str:
    parts = [f"{_name(off)} is best on {_hosts(off)}"]
    best, split, sockets = ([p for p in against if p.kind == kind] for kind in AGAINST)
    linked = [proof for proof in against if proof.kind not in AGAINST and not proof.setting]
    if best:
        parts.append(f"the defaults on {_hosts(best)}")
    if split:
        parts.append(f"on {_hosts(split)} {_who_wins(split)}")
    if sockets:
        parts.append(f"sockets on {_hosts(sockets)}")
    for setting in dict.fromkeys(proof.setting for proof in against if proof.setting):
        others = [proof for proof in against if proof.setting == setting]
        parts.append(f"{_name(others)} on {_hosts(others)}")
    text = ", ".join(parts)
    if linked:
        text += f"; it would turn off the NVLinks of {_hosts(linked)}"
    return f"no setting for the whole cluster, leave unset: {text}; mend or isolate {_hosts(off)}"


def _too_few(off: Sequence[HostProof], share: str, short: Sequence[str]) -> str:
    proven = f"leave unset: {_name(off)} is proven on {_hosts(off)} only ({share})"
    if short:
        more = f" and {len(short) - 4} more" if len(short) > 4 else ""
        proven += f", and on fewer than half of the hosts with {', '.join(short[:4])}{more}"
    return (
        f"{proven}; on the others it was not measured, or the legs prove nothing. Mend that and "
        "run again"
    )


def _reason(off: Sequence[HostProof]) -> str:
    mends = [proof for proof in off if proof.kind == "off_mends"]
    faster = [proof for proof in off if proof.kind == "off_faster"]
    parts = []
    if mends:
        parts.append(f"P2P hangs or gives wrong data on {_hosts(mends)}; all is well without it.")
    if faster:
        parts.append(f"Without P2P it is faster on {_hosts(faster)}.")
    through_cpus = [proof for proof in off if proof.kind == "sys_faster"]
    if through_cpus:
        parts.append(f"P2P through the CPUs is faster on {_hosts(through_cpus)}.")
    shown = [proof for host in off for proof in host.proofs]
    collectives = ", ".join(sorted({proof.collective for proof in shown}))
    libraries = ", ".join(sorted({proof.library for proof in shown if proof.library})[:4])
    measured = f"Measured with {collectives} only" + (f" ({libraries})." if libraries else ".")
    first = () if through_cpus else (MEND_FIRST,)
    return line(" ".join((*parts, *first, measured, RETEST)), 2000)


def _evidence(proofs: Iterable[HostProof]) -> tuple[str, ...]:
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
        f"{fold(host for host, _ in members)}: {first.collective}: {first.detail}{more}{measured}"
    )


def _range(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = number(min(known)), number(max(known))
    return low if low == high else f"{low} to {high}"


def _hosts(proofs: Sequence[HostProof]) -> str:
    return fold(proof.host for proof in proofs)


def _comments(advice: NcclAdvice, where: str) -> list[str]:
    what = where if advice.settings else "Nothing to set: this file changes nothing."
    texts = (f"Written by hwcheck {__version__}. {what}", advice.summary, *advice.evidence)
    return [comment for text in texts for comment in _comment(text)]


def _comment(text: str) -> list[str]:
    """Wrap a text as comments of ASCII, with no control character and no ``=``."""
    plain = line(text, 4000).replace("=", " ").encode("ascii", "replace").decode()
    return [f"# {part}" for part in textwrap.wrap(plain, 96, break_on_hyphens=False)]


def _refuse_odd(setting: Setting) -> None:
    if not _NAME.match(setting.name) or not _VALUE.match(setting.value):
        raise ValueError(f"not an NCCL setting: {setting.name[:80]!r} = {setting.value[:80]!r}")
