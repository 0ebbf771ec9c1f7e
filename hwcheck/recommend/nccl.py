"""From the legs of all hosts to NCCL settings: for the cluster, and for hosts that are alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hwcheck.diagnosis.records import Causes, Diagnosis
from hwcheck.judge.fleet import same_machine
from hwcheck.judge.legs import legs_of
from hwcheck.recommend.alike import Alike, reading
from hwcheck.recommend.evidence import evidence, named
from hwcheck.recommend.legs import prove
from hwcheck.recommend.network import network_settings
from hwcheck.recommend.proof import OFF, HostProof
from hwcheck.recommend.records import NO_CAUSES, NcclAdvice, Setting
from hwcheck.results import HostRecord, Run
from hwcheck.text import count, line

AGAINST = ("defaults", "split", "net_faster")
RETEST = (
    "A workaround: NVIDIA documents it for debugging only. Test again after each upgrade of NCCL, "
    "the driver or the firmware, and after each change of cards, with /etc/nccl.conf moved away."
)
MEND_FIRST = "Mend the cause first: PCIe ACS or IOMMU, the driver, the BAR1 size."
UNTIL_CAUSES = 3
SETTING_LINES = 6


def advise(run: Run, causes: Causes = NO_CAUSES) -> NcclAdvice:
    """Return the NCCL settings that the legs of this run prove; most often none.

    A setting is for the cluster, so it must be proven on at least half of the hosts that were
    planned, on at least half of those that are alike, and on none the contrary. A host without a
    GPU has no part in it. ``causes`` are what the diagnosis found: a setting is good until they
    are mended.
    """
    return advice_of(run.records, proofs_of(run), causes)


def advice_of(
    records: Sequence[HostRecord], everyone: Sequence[HostProof], causes: Causes
) -> NcclAdvice:
    """Return what these hosts prove together, about P2P and about the network."""
    settings, summary = _about_p2p(records, everyone, causes)
    network = network_settings(records)
    if network:
        values = ", ".join(f"{setting.name}={setting.value}" for setting in network)
        summary = f"for the network set {values}; about P2P: {summary}"
    return NcclAdvice(
        settings=(*settings, *network),
        summary=summary,
        evidence=evidence(everyone),
        versions=_versions(records),
    )


def _about_p2p(
    records: Sequence[HostRecord], everyone: Sequence[HostProof], causes: Causes
) -> tuple[tuple[Setting, ...], str]:
    """Return the setting, if there is one, and what there is to say in one line."""
    proofs = [proof for proof in everyone if not proof.cpu_only]
    wanted = Counter(proof.setting for proof in proofs if proof.setting).most_common(1)
    if not wanted:
        return (), _leave(records, proofs)
    chosen = wanted[0][0]
    off = [proof for proof in proofs if proof.setting == chosen]
    against = [p for p in proofs if p not in off and _is_against(p, chosen)]
    if against:
        return (), _contradiction(off, against)
    share = f"{len(off)} of {count(len(proofs), 'host')}"
    short = _kinds_short_of_proof(proofs)
    if 2 * len(off) < len(proofs) or short:
        return (), _too_few(off, share, short)
    setting = Setting(
        *chosen,
        _reason(off, causes),
        evidence(off)[:SETTING_LINES],
        _measured_with(off),
        RETEST,
    )
    return (setting,), f"set {_name(off)}: proven on {_hosts(off)} ({share}){_rest(everyone)}"


def _versions(records: Sequence[HostRecord]) -> tuple[str, ...]:
    """Return every NCCL that was found: what ran, what torch brings, and what is installed."""
    found = {leg.library for record in records for leg in legs_of(record) if leg.backend == "nccl"}
    for record in records:
        for metric in ("nccl_version", "system_nccl_version"):
            found.add(str(reading(record, "software_versions", metric) or ""))
    return tuple(sorted(line(text, 60) for text in found if text))


def _is_against(proof: HostProof, chosen: tuple[str, str]) -> bool:
    """Whether a host speaks against a setting: it wants none, or another, or has its NVLinks."""
    other = proof.setting is not None and proof.setting != chosen
    return proof.kind in AGAINST or other or bool(chosen == OFF and proof.nvlinks)


def _name(proofs: Sequence[HostProof]) -> str:
    """Return ``NCCL_P2P_DISABLE=1``, of hosts that want the same."""
    return "=".join(proofs[0].setting or ())


def proofs_of(run: Run) -> list[HostProof]:
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


def _kinds_short_of_proof(proofs: Sequence[HostProof]) -> list[str]:
    """Return the GPU models of like hosts of which fewer than half prove the setting."""
    kinds: dict[Alike, list[HostProof]] = {}
    for proof in proofs:
        if proof.alike is not None:
            kinds.setdefault(proof.alike, []).append(proof)
    short = (
        " and ".join(members[0].models)
        for members in kinds.values()
        if 2 * sum(proof.setting is not None for proof in members) < len(members)
    )
    return list(dict.fromkeys(short))


def _rest(proofs: Sequence[HostProof]) -> str:
    """Say on which hosts the setting is not proven, and which were left out."""
    unproven = [p for p in proofs if not p.setting and p.kind and not p.cpu_only]
    unmeasured = [p for p in proofs if not p.kind and not p.cpu_only]
    without = [p for p in proofs if p.cpu_only]
    text = f"; not proven on {_hosts(unproven)} ({unproven[0].why})" if unproven else ""
    text += f"; not measured on {_hosts(unmeasured)}" if unmeasured else ""
    return text + (f"; without a GPU, so not counted: {_hosts(without)}" if without else "")


def _leave(records: Sequence[HostRecord], proofs: Sequence[HostProof]) -> str:
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
    return f"no setting for all of these hosts, leave unset: {text}; mend or isolate {_hosts(off)}"


def _too_few(off: Sequence[HostProof], share: str, short: Sequence[str]) -> str:
    proven = f"leave unset: {_name(off)} is proven on {_hosts(off)} only ({share})"
    if short:
        more = f" and {len(short) - 4} more" if len(short) > 4 else ""
        proven += f", and on fewer than half of the hosts with {', '.join(short[:4])}{more}"
    return (
        f"{proven}; on the others it was not measured, or the legs prove nothing. Mend that and "
        "run again"
    )


def _reason(off: Sequence[HostProof], causes: Causes) -> str:
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
    first = () if through_cpus else (_mend_first(off, causes),)
    measured = f"Measured with {', '.join(_collectives(off))} only ({_measured_with(off)})."
    return line(" ".join((*parts, *first, measured)), 2000)


def _mend_first(off: Sequence[HostProof], causes: Causes) -> str:
    """Say until when the setting is good: until what the diagnosis found on these hosts is mended.

    A cause counts that explains a finding of a collective which is behind the setting.
    """
    hosts, collectives = {proof.host for proof in off}, set(_collectives(off))
    found = [
        cause
        for cause in causes.diagnoses
        if hosts & set(cause.hosts) and collectives & set(cause.explains)
    ]
    if not found:
        return MEND_FIRST
    told = "; ".join(_cause(cause, hosts) for cause in found[:UNTIL_CAUSES])
    return f"Only until this is mended: {told}."


def _cause(cause: Diagnosis, hosts: set[str]) -> str:
    where = named(host for host in cause.hosts if host in hosts)
    return f"{cause.title} ({cause.cause}, {cause.confidence}, on {where})"


def _collectives(proofs: Sequence[HostProof]) -> list[str]:
    return sorted({proof.collective for host in proofs for proof in host.proofs})


def _measured_with(proofs: Sequence[HostProof]) -> str:
    """Return ``NCCL 2.27.5, driver 570.86.15`` of these hosts."""
    libraries = {proof.library for host in proofs for proof in host.proofs if proof.library}
    drivers = {host.alike.driver for host in proofs if host.alike and host.alike.driver}
    versions = [*sorted(libraries)[:4], *(f"driver {each}" for each in sorted(drivers)[:4])]
    return ", ".join(versions) or "versions not known"


def _hosts(proofs: Sequence[HostProof]) -> str:
    return named(proof.host for proof in proofs)
