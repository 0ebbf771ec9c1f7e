"""From the evidence of all hosts to NCCL settings: for the cluster, and by platform."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from hwcheck.advise.nccl_evidence import OFF, evidence_lines, host_names, prove
from hwcheck.advise.nccl_network import left_unset, network_settings
from hwcheck.advise.platforms import reading
from hwcheck.advise.records import (
    NO_CAUSES,
    Causes,
    Diagnosis,
    GroupAdvice,
    HostProof,
    NcclAdvice,
    Platform,
    Setting,
)
from hwcheck.checks.software_versions import (
    NCCL_VERSION,
    SYSTEM_NCCL_VERSION,
    software_versions,
)
from hwcheck.judge.fleet import same_machine
from hwcheck.judge.legs import legs_of
from hwcheck.results.run_folder import HostRecord, Run
from hwcheck.text import count, line

RETEST = (
    "A workaround: NVIDIA documents it for debugging only. Test again after each upgrade of NCCL, "
    "the driver or the firmware, and after each change of cards, with /etc/nccl.conf moved away."
)
MEND_FIRST = "Mend the cause first: PCIe ACS or IOMMU, the driver, the BAR1 size."
UNKNOWN_VERSION = "NCCL of a version not found"
UNTIL_CAUSES = 3
SETTING_LINES = 6
AGAINST = ("defaults", "split", "net_faster")


def advise_nccl(run: Run, causes: Causes = NO_CAUSES) -> tuple[NcclAdvice, tuple[GroupAdvice, ...]]:
    """Return the NCCL settings that the legs of this run prove: for all hosts, and by group.

    Most often there are none. A setting for all hosts must be proven on at least half of those that
    were planned, on at least half of those with the same platform, on more of them than hang either
    way, and on none the contrary. A host of unknown GPUs stands against a setting for all: its
    NVLinks might be turned off. A host without a GPU has no part in it. ``causes`` are what
    the diagnosis found: a setting is good until they are mended.
    """
    proofs = _proofs_of(run)
    cluster = _advice_of(run.records, proofs, causes)
    return cluster, _groups(run.records, proofs, cluster, causes)


def _proofs_of(run: Run) -> list[HostProof]:
    """Return what each host proves with the checks that were planned for."""
    doubles = same_machine(run)
    proofs = []
    for plan, record in zip(run.meta.hosts, run.records, strict=True):
        if record.report:
            planned = tuple(r for r in record.report.results if r.check in run.meta.checks)
            report = replace(record.report, results=planned)
            record = HostRecord(**(vars(record) | {"report": report}))
        proofs.append(prove(record, plan.expect, doubles.get(plan.name, "")))
    return proofs


def _groups(
    records: Sequence[HostRecord],
    proofs: Sequence[HostProof],
    cluster: NcclAdvice,
    causes: Causes,
) -> tuple[GroupAdvice, ...]:
    """Return the settings of the hosts of each platform, in the order of the run.

    None where what ``cluster`` says is what every group says: hosts that contradict each other
    are never averaged, and those that agree need one file only.
    """
    members: dict[Platform, list[tuple[HostRecord, HostProof]]] = {}
    for record, proof in zip(records, proofs, strict=True):
        if proof.platform is not None:
            members.setdefault(proof.platform, []).append((record, proof))
    names = _folders(members)
    groups = tuple(
        GroupAdvice(
            name=names[platform],
            alike=str(platform),
            hosts=tuple(record.host for record, _ in pairs),
            nccl=_advice_of([record for record, _ in pairs], [proof for _, proof in pairs], causes),
        )
        for platform, pairs in members.items()
    )
    agree = all(_assignments(group.nccl) == _assignments(cluster) for group in groups)
    return () if agree else groups


def _folders(platforms: Collection[Platform]) -> dict[Platform, str]:
    """Return a folder for each platform: its GPUs, with a number where several have the same."""
    shared = Counter(platform.slug for platform in platforms)
    names: dict[Platform, str] = {}
    for platform in platforms:
        wanted = [platform.slug] if shared[platform.slug] == 1 else []
        numbered = (f"{platform.slug}-{number}" for number in itertools.count(1))
        free = (n for n in itertools.chain(wanted, numbered) if n not in names.values())
        names[platform] = next(free)
    return names


def _assignments(advice: NcclAdvice) -> list[tuple[str, str]]:
    return [(setting.name, setting.value) for setting in advice.settings]


def _advice_of(
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
        evidence=evidence_lines(everyone),
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


def _versions(records: Sequence[HostRecord], everyone: Sequence[HostProof]) -> tuple[str, ...]:
    """Return every NCCL version: that of the legs, of torch, and of the system."""
    versions: set[str] = set()
    for record in _with_gpus(records, everyone):
        of_host = {leg.library for leg in legs_of(record) if leg.backend == "nccl"}
        for metric in (NCCL_VERSION, SYSTEM_NCCL_VERSION):
            of_host.add(str(reading(record, software_versions, metric) or ""))
        versions |= of_host - {""} or {UNKNOWN_VERSION}
    return tuple(sorted(line(text, 60) for text in versions))


def _about_p2p(
    records: Sequence[HostRecord], everyone: Sequence[HostProof], causes: Causes
) -> tuple[tuple[Setting, ...], str]:
    """Return the setting, if there is one, and what there is to say in one line."""
    proofs = [proof for proof in everyone if not proof.cpu_only]
    wanted = Counter(proof.setting for proof in proofs if proof.setting).most_common(1)
    if not wanted:
        return (), _nothing_to_set(records, proofs)
    chosen = wanted[0][0]
    off = [proof for proof in proofs if proof.setting == chosen]
    others = [proof for proof in proofs if proof.setting != chosen]
    against = [proof for proof in others if _is_against(proof, chosen)]
    if against:
        return (), _contradiction(off, against)
    unknown = [proof for proof in others if proof.platform is None]
    if unknown:
        return (), _gpus_unknown(off, unknown)
    neither = [proof for proof in others if proof.kind == "neither"]
    if len(neither) >= len(off):
        return (), _as_many_hang(off, neither)
    share = f"{len(off)} of {count(len(proofs), 'host')}"
    short = _kinds_short_of_proof(proofs)
    if 2 * len(off) < len(proofs) or short:
        return (), _too_few(off, share, short)
    setting = Setting(
        *chosen,
        _reason(off, causes),
        evidence_lines(off)[:SETTING_LINES],
        _measured_with(off),
        RETEST,
    )
    return (setting,), f"set {_assignment(off)}: proven on {_hosts(off)} ({share}){_rest(everyone)}"


def _is_against(proof: HostProof, chosen: tuple[str, str]) -> bool:
    """Whether a host speaks against a setting: it wants none, or another, or has its NVLinks."""
    other = proof.setting is not None and proof.setting != chosen
    may_lose_links = chosen == OFF and proof.platform is not None and proof.nvlinks != 0
    return proof.kind in AGAINST or other or may_lose_links


def _kinds_short_of_proof(proofs: Sequence[HostProof]) -> list[str]:
    """Return the GPU models of like hosts of which fewer than half prove the setting."""
    kinds: dict[Platform, list[HostProof]] = {}
    for proof in proofs:
        if proof.platform is not None:
            kinds.setdefault(proof.platform, []).append(proof)
    short = (
        " and ".join(members[0].models)
        for members in kinds.values()
        if 2 * sum(proof.setting is not None for proof in members) < len(members)
    )
    return list(dict.fromkeys(short))


def _nothing_to_set(records: Sequence[HostRecord], proofs: Sequence[HostProof]) -> str:
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
        parts.append(f"the defaults measured best on {_hosts(best)}")
    if defect:
        parts.append(
            f"P2P is bad in spite of active NVLinks on {_hosts(defect)}: a defect to mend or "
            "isolate, never a reason to disable NVLink"
        )
    if sockets:
        parts.append(
            f"the default is slower than net on {_hosts(sockets)}: a defect in the transport, "
            "not a setting to keep"
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


def _contradiction(off: Sequence[HostProof], against: Sequence[HostProof]) -> str:
    """Say which hosts want the setting and which ones speak against it."""
    parts = [f"{_assignment(off)} is best on {_hosts(off)}"]
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
        parts.append(f"{_assignment(others)} on {_hosts(others)}")
    text = ", ".join(parts)
    active = [proof for proof in linked if proof.nvlinks]
    if active:
        text += f"; it would turn off the NVLinks of {_hosts(active)}"
    unread = [proof for proof in linked if not proof.nvlinks]
    if unread:
        text += f"; it might turn off NVLinks of {_hosts(unread)}, where they could not be read"
    return f"no setting for all of these hosts, leave unset: {text}; mend or isolate {_hosts(off)}"


def _who_wins(split: Sequence[HostProof]) -> str:
    """Say which collective is faster under which leg; figures are in the evidence."""
    ways: dict[str, set[str]] = {}
    for proof in (proof for host in split for proof in host.proofs):
        leg = {"faster": proof.other, "slower": "default", "broken": "default"}.get(proof.off, "")
        ways.setdefault(proof.collective, set()).add(leg or "neither")
    return ", ".join(f"{name} is best under {' or '.join(sorted(ways[name]))}" for name in ways)


def _gpus_unknown(off: Sequence[HostProof], unknown: Sequence[HostProof]) -> str:
    """Say which hosts want the setting, and of which ones nobody knows what they are."""
    return (
        f"no setting for all of these hosts, leave unset: {_assignment(off)} is proven on "
        f"{_hosts(off)}, and the GPUs of {_hosts(unknown)} are not known: it could take away "
        "P2P that works there. Those that are alike have settings of their own"
    )


def _as_many_hang(off: Sequence[HostProof], neither: Sequence[HostProof]) -> str:
    """Say that as many hosts hang either way as the setting mends."""
    return (
        f"leave unset: {_assignment(off)} is proven on {_hosts(off)}, and on {_hosts(neither)} a "
        "leg without P2P is bad too, so P2P is not shown to be the cause; mend or isolate these "
        "and run again"
    )


def _too_few(off: Sequence[HostProof], share: str, short: Sequence[str]) -> str:
    """Say that the setting is proven on too few hosts to be one for all."""
    proven = f"leave unset: {_assignment(off)} is proven on {_hosts(off)} only ({share})"
    if short:
        more = f" and {len(short) - 4} more" if len(short) > 4 else ""
        proven += f", and on fewer than half of the hosts with {', '.join(short[:4])}{more}"
    return (
        f"{proven}; on the others it was not measured, or the legs prove nothing. Mend that and "
        "run again"
    )


def _rest(proofs: Sequence[HostProof]) -> str:
    """Say on which hosts the setting is not proven, and which were left out."""
    unproven = [p for p in proofs if not p.setting and p.kind and not p.cpu_only]
    unmeasured = [p for p in proofs if not p.kind and not p.cpu_only]
    without = [p for p in proofs if p.cpu_only]
    text = f"; not proven on {_hosts(unproven)} ({unproven[0].why})" if unproven else ""
    text += f"; not measured on {_hosts(unmeasured)}" if unmeasured else ""
    return text + (f"; without a GPU, so not counted: {_hosts(without)}" if without else "")


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
    behind = [
        cause
        for cause in causes.diagnoses
        if hosts & set(cause.hosts) and collectives & set(cause.explains)
    ]
    if not behind:
        return MEND_FIRST
    texts = "; ".join(_cause(cause, hosts) for cause in behind[:UNTIL_CAUSES])
    return f"Only until this is mended: {texts}."


def _cause(cause: Diagnosis, hosts: set[str]) -> str:
    where = host_names(host for host in cause.hosts if host in hosts)
    return f"{cause.title} ({cause.cause}, {cause.confidence}, on {where})"


def _collectives(proofs: Sequence[HostProof]) -> list[str]:
    return sorted({proof.collective for host in proofs for proof in host.proofs})


def _measured_with(proofs: Sequence[HostProof]) -> str:
    """Return ``NCCL 2.27.5, driver 570.86.15`` of these hosts."""
    libraries = {proof.library for host in proofs for proof in host.proofs if proof.library}
    drivers = {host.platform.driver for host in proofs if host.platform and host.platform.driver}
    versions = [*sorted(libraries)[:4], *(f"driver {each}" for each in sorted(drivers)[:4])]
    return ", ".join(versions) or "versions not known"


def _assignment(proofs: Sequence[HostProof]) -> str:
    """Return ``NCCL_P2P_DISABLE=1``, of hosts that want the same."""
    return "=".join(proofs[0].setting or ())


def _hosts(proofs: Sequence[HostProof]) -> str:
    """Return the names of the hosts, folded."""
    return host_names(proof.host for proof in proofs)
