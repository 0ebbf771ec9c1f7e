"""From the legs of all hosts to NCCL settings: for the cluster, and for hosts that are alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hwcheck.advise.alike import Alike, reading
from hwcheck.advise.evidence import evidence, named
from hwcheck.advise.legs import prove
from hwcheck.advise.nccl_words import (
    AGAINST,
    as_many_hang,
    contradiction,
    hosts_of,
    leave,
    name_of,
    not_seen,
    too_few,
)
from hwcheck.advise.network import network_settings
from hwcheck.advise.network_unset import left_unset
from hwcheck.advise.proof import OFF, HostProof
from hwcheck.advise.records import NO_CAUSES, Causes, Diagnosis, NcclAdvice, Setting
from hwcheck.judge.fleet import same_machine
from hwcheck.judge.legs import legs_of
from hwcheck.results.run_folder import HostRecord, Run
from hwcheck.text import count, line

RETEST = (
    "A workaround: NVIDIA documents it for debugging only. Test again after each upgrade of NCCL, "
    "the driver or the firmware, and after each change of cards, with /etc/nccl.conf moved away."
)
MEND_FIRST = "Mend the cause first: PCIe ACS or IOMMU, the driver, the BAR1 size."
NOT_FOUND = "NCCL of a version not found"
UNTIL_CAUSES = 3
SETTING_LINES = 6


def advise(run: Run, causes: Causes = NO_CAUSES) -> NcclAdvice:
    """Return the NCCL settings that the legs of this run prove; most often none.

    A setting is for the cluster, so it must be proven on at least half of the hosts that were
    planned, on at least half of those that are alike, on more of them than hang either way, and on
    none the contrary. A host of which nobody knows what it is stands against a setting for all:
    its NVLinks might be turned off. A host without a GPU has no part in it. ``causes`` are what
    the diagnosis found: a setting is good until they are mended.
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
        versions=_versions(records, everyone),
        hosts=tuple(_meant(everyone, settings)),
        unset=left_unset(_with_gpus(records, everyone), network),
    )


def _with_gpus(
    records: Sequence[HostRecord], everyone: Sequence[HostProof]
) -> tuple[HostRecord, ...]:
    pairs = zip(records, everyone, strict=True)
    return tuple(record for record, proof in pairs if not proof.cpu_only)


def _meant(everyone: Sequence[HostProof], about_p2p: Sequence[Setting]) -> Iterator[str]:
    """Yield the hosts that the settings are for: none without a GPU or with a fault of its own."""
    for proof in everyone:
        if not proof.cpu_only and not (about_p2p and proof.kind == "neither"):
            yield proof.host


def _about_p2p(
    records: Sequence[HostRecord], everyone: Sequence[HostProof], causes: Causes
) -> tuple[tuple[Setting, ...], str]:
    """Return the setting, if there is one, and what there is to say in one line."""
    proofs = [proof for proof in everyone if not proof.cpu_only]
    wanted = Counter(proof.setting for proof in proofs if proof.setting).most_common(1)
    if not wanted:
        return (), leave(records, proofs)
    chosen = wanted[0][0]
    off = [proof for proof in proofs if proof.setting == chosen]
    others = [proof for proof in proofs if proof.setting != chosen]
    against = [proof for proof in others if _is_against(proof, chosen)]
    if against:
        return (), contradiction(off, against)
    unseen = [proof for proof in others if proof.alike is None]
    if unseen:
        return (), not_seen(off, unseen)
    neither = [proof for proof in others if proof.kind == "neither"]
    if len(neither) >= len(off):
        return (), as_many_hang(off, neither)
    share = f"{len(off)} of {count(len(proofs), 'host')}"
    short = _kinds_short_of_proof(proofs)
    if 2 * len(off) < len(proofs) or short:
        return (), too_few(off, share, short)
    setting = Setting(
        *chosen,
        _reason(off, causes),
        evidence(off)[:SETTING_LINES],
        _measured_with(off),
        RETEST,
    )
    return (setting,), f"set {name_of(off)}: proven on {hosts_of(off)} ({share}){_rest(everyone)}"


def _versions(records: Sequence[HostRecord], everyone: Sequence[HostProof]) -> tuple[str, ...]:
    """Return every NCCL that was found: what ran, what torch brings, and what is installed."""
    found: set[str] = set()
    for record in _with_gpus(records, everyone):
        own = {leg.library for leg in legs_of(record) if leg.backend == "nccl"}
        for metric in ("nccl_version", "system_nccl_version"):
            own.add(str(reading(record, "software_versions", metric) or ""))
        found |= own - {""} or {NOT_FOUND}
    return tuple(sorted(line(text, 60) for text in found))


def _is_against(proof: HostProof, chosen: tuple[str, str]) -> bool:
    """Whether a host speaks against a setting: it wants none, or another, or has its NVLinks."""
    other = proof.setting is not None and proof.setting != chosen
    may_lose_links = chosen == OFF and proof.alike is not None and proof.nvlinks != 0
    return proof.kind in AGAINST or other or may_lose_links


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
    text = f"; not proven on {hosts_of(unproven)} ({unproven[0].why})" if unproven else ""
    text += f"; not measured on {hosts_of(unmeasured)}" if unmeasured else ""
    return text + (f"; without a GPU, so not counted: {hosts_of(without)}" if without else "")


def _reason(off: Sequence[HostProof], causes: Causes) -> str:
    mends = [proof for proof in off if proof.kind == "off_mends"]
    faster = [proof for proof in off if proof.kind == "off_faster"]
    parts = []
    if mends:
        parts.append(f"P2P hangs or gives wrong data on {hosts_of(mends)}; all is well without it.")
    if faster:
        parts.append(f"Without P2P it is faster on {hosts_of(faster)}.")
    through_cpus = [proof for proof in off if proof.kind == "sys_faster"]
    if through_cpus:
        parts.append(f"P2P through the CPUs is faster on {hosts_of(through_cpus)}.")
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
