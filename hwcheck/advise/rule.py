"""What a rule is written with: the findings of one host, and the sign of a cause among them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from hwcheck.checks.faults_under_load import faults_under_load
from hwcheck.checks.gpu_pairs import (
    P2P_ACCESS,
    P2P_CONCURRENT_PERCENT,
    P2P_PERCENT_OF_ALIKE,
    P2P_STATE,
    P2P_WRONG_ELEMENTS,
    gpu_pairs,
)
from hwcheck.checks.p2p_status import NVLINK_READ, PCIE_READ, p2p_status
from hwcheck.checks.shared.leg_checks import (
    ALGBW_GBPS,
    BUSBW_GBPS,
    DRIVER_ANSWERS_METRIC,
    LEG_STATE,
    WRONG_ELEMENTS,
)
from hwcheck.checks.topology import PATH, topology
from hwcheck.checks.virtualization import CONTAINER, HYPERVISOR, virtualization
from hwcheck.checks.xid import xid
from hwcheck.contract import reasons
from hwcheck.contract.reasons import HANG
from hwcheck.contract.wire import Leg, Value
from hwcheck.judge.interconnect import is_gpu
from hwcheck.judge.legs import is_clean
from hwcheck.judge.records import PCIE, PEERS, Finding
from hwcheck.results.run_folder import HostRecord
from hwcheck.results.site_limits import ABSENT

BAD = ("warn", "fail")
ENDS = (LEG_STATE.name, WRONG_ELEMENTS.name, DRIVER_ANSWERS_METRIC.name)
"""What a leg that did not end well fails."""
WITH_P2P = ("default", "site", "p2p_sys", "nvlink_only")
"""Legs in which GPUs may reach each other."""

Measured = Mapping[tuple[str, str], Mapping[str, Value]]
"""Values by check and metric, then by subject."""


@dataclass(frozen=True)
class Sign:
    """What speaks for a cause on one host.

    ``confidence`` is one of ``records.CONFIDENCES``, ``explains`` the findings that the cause
    accounts for, ``observations`` what no limit judged, in words. An ``independent`` cause is named
    even where likelier ones explain all of its findings.
    """

    confidence: str
    explains: tuple[Finding, ...]
    observations: tuple[str, ...] = ()
    independent: bool = False


def sign(
    confidence: str,
    explains: Iterable[Finding],
    observations: Iterable[str] = (),
    *,
    follows: Iterable[Finding] = (),
    independent: bool = False,
) -> Sign | None:
    """Return a sign that explains these findings, each once; None where there is none.

    What ``follows`` from these is explained as well, and alone is no sign. Empty observations are
    left out.
    """
    findings = dict.fromkeys(explains)
    if not findings:
        return None
    texts = tuple(text for text in observations if text)
    return Sign(confidence, tuple(dict.fromkeys((*findings, *follows))), texts, independent)


@dataclass(frozen=True)
class Rule:
    """One cause; ``cause`` is the name of its function, ``look`` the function.

    ``title`` says the cause as a statement, ``effect`` what it does to jobs, ``confirm`` is a
    command for the host that shows it, ``role`` an Ansible role that mends it. ``brings`` are
    causes that follow from this one on the same host: it comes before them.
    """

    cause: str
    look: Callable[[HostFindings], Sign | None]
    title: str
    effect: str
    fix: str
    confirm: str
    source: str
    role: str = ""
    brings: tuple[str, ...] = ()


def rule(
    *,
    title: str,
    effect: str,
    fix: str,
    confirm: str,
    source: str,
    role: str = "",
    brings: tuple[str, ...] = (),
) -> Callable[[Callable[[HostFindings], Sign | None]], Rule]:
    """Make a function the rule of the cause that it is named after."""

    def decorate(look: Callable[[HostFindings], Sign | None]) -> Rule:
        return Rule(look.__name__, look, title, effect, fix, confirm, source, role, brings)

    return decorate


@dataclass(frozen=True)
class HostFindings:
    """One host as a rule sees it.

    ``findings`` are those that are no pass, ``models`` the model of each GPU (``gpu3``),
    ``readings`` what was measured: by check and metric, then by subject. ``legs`` are its NCCL
    legs.
    """

    host: str
    record: HostRecord
    findings: tuple[Finding, ...]
    models: Mapping[str, str] = field(default_factory=dict)
    readings: Measured = field(default_factory=dict)
    legs: tuple[Leg, ...] = ()

    def bad(self, check: str, *metrics: str) -> tuple[Finding, ...]:
        """Return what failed or was warned of in a check: of these metrics, or of any.

        That like hosts have what this one lacks is a metric of its own (``ABSENT``), to be named.
        """
        return tuple(
            finding
            for finding in self._bad_of.get(check, ())
            if (finding.metric in metrics if metrics else finding.metric != ABSENT)
        )

    @cached_property
    def _bad_of(self) -> Mapping[str, Sequence[Finding]]:
        """What failed or was warned of, by check: rules ask hundreds of times."""
        bad: dict[str, list[Finding]] = {}
        for finding in self.findings:
            if finding.outcome in BAD and finding.metric:
                bad.setdefault(finding.check, []).append(finding)
        return bad

    def bad_on(self, subjects: Iterable[str], *checks: str) -> tuple[Finding, ...]:
        """Return what failed or was warned of in these checks about these subjects."""
        wanted = set(subjects)
        return tuple(
            finding for check in checks for finding in self.bad(check) if finding.subject in wanted
        )

    def unmeasured(self, *codes: str) -> tuple[Finding, ...]:
        """Return what could not be measured, for a reason with one of these codes or for any."""
        return tuple(
            finding
            for finding in self.findings
            if finding.outcome == "inconclusive" and (not codes or finding.reason.code in codes)
        )

    def blinded(self) -> tuple[Finding, ...]:
        """Return what a GPU or driver that does not answer keeps from being measured.

        What the login may not read, or the kernel log no longer holds, is not for that reason.
        """
        return tuple(
            finding
            for finding in self.unmeasured()
            if finding.reason.code not in reasons.OF_THE_LOGIN
        )

    def gpu_of(self, subject: str) -> str:
        """Return the GPU that a subject is about, such as ``gpu3``; empty where it is about none.

        It may be named by its PCI address: ``pci 0000:9a:00.0 xid 94``.
        """
        kind, _, rest = subject.partition(" ")
        if kind != "pci":
            return subject if is_gpu(subject) else ""
        return self._gpus_by_address.get(rest.partition(" ")[0].lower(), "")

    @cached_property
    def _gpus_by_address(self) -> Mapping[str, str]:
        gpus = self.record.report.gpus if self.record.report else ()
        return {gpu.pci_address.lower(): f"gpu{gpu.index}" for gpu in gpus if gpu.pci_address}

    def of_gpus(self, gpus: Iterable[str], findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return the findings that are about one of these GPUs, by its name or PCI address."""
        wanted = set(gpus) - {""}
        return tuple(finding for finding in findings if self.gpu_of(finding.subject) in wanted)

    def logged(self, pattern: re.Pattern[str], *metrics: str) -> tuple[Finding, ...]:
        """Return the findings of events that the driver reported, by the end of their subject.

        That is ``xid 79``, or the kind of an event of NVML. ``metrics`` are as for ``bad``.
        """
        return tuple(
            finding
            for check in (xid.id, faults_under_load.id)
            for finding in self.bad(check, *metrics)
            if pattern.search(finding.subject)
        )

    def values(self, check: str, metric: str) -> Mapping[str, Value]:
        """Return what was measured, by subject."""
        return self.readings.get((check, metric), {})

    def value(self, check: str, metric: str) -> Value | None:
        """Return what was measured of the node; None where it was not."""
        return self.values(check, metric).get("node")

    @property
    def hypervisor(self) -> str:
        """The hypervisor below; empty on bare metal and where it was not measured."""
        name = self.value(virtualization.id, HYPERVISOR.name)
        return "" if name in (None, "none") else str(name)

    @property
    def container(self) -> str:
        """That the login is in a container, as an observation; empty where it is not."""
        inside = self.value(virtualization.id, CONTAINER.name) is True
        return "virtualization: the login is in a container" if inside else ""

    @property
    def cpu_vendor(self) -> str:
        """The vendor of the CPU; empty where it is not known."""
        vendor = self.record.report.facts.get("cpu_vendor") if self.record.report else None
        return vendor if isinstance(vendor, str) else ""

    @property
    def paths(self) -> Mapping[str, str]:
        """The path between the GPUs of each pair (``gpu0-gpu1``), such as ``NV18`` or ``PXB``."""
        return {pair: str(path) for pair, path in self.values(topology.id, PATH.name).items()}

    def has_nvlink(self, pair: str) -> bool:
        """Whether NVLink joins a pair (``gpu0-gpu1``), as far as the topology tells."""
        paths = self.values(topology.id, PATH.name)
        return str(paths.get(pair, paths.get(_reverse(pair)))).startswith("NV")

    def p2p_granted(self, pair: str) -> bool:
        """Whether the driver grants the first GPU of a pair the memory of the second.

        Where a pair hung before it could be asked, the answer is that of the reverse direction, or
        else what NVML says.
        """
        access = self.values(gpu_pairs.id, P2P_ACCESS.name)
        if pair in access or _reverse(pair) in access:
            return access.get(pair, access.get(_reverse(pair))) is True
        reads = (PCIE_READ, NVLINK_READ)
        return any(self.values(p2p_status.id, read.name).get(pair) == "OK" for read in reads)

    def p2p_trouble(self, *, over_pcie: bool = False) -> tuple[Finding, ...]:
        """Return the findings of what hangs, fails or corrupts with P2P and not without it.

        These are of legs, and of pairs of GPUs to which the driver grants it. With ``over_pcie``
        GPUs with NVLink between them are left out, since they do not reach each other over PCIe.
        """
        clean = {leg.collective for leg in self.legs if leg.leg == "p2p_off" and is_clean(leg)}
        paths = self.paths.values()
        if over_pcie and paths and all(path.startswith("NV") for path in paths):
            clean = set()
        legs = (f for name in sorted(clean) for f in self.failed_legs(WITH_P2P, name))
        return (*legs, *self._pair_trouble(over_pcie))

    def _pair_trouble(self, over_pcie: bool) -> tuple[Finding, ...]:
        pairs = tuple(
            finding
            for finding in self.bad(gpu_pairs.id, P2P_STATE.name, P2P_WRONG_ELEMENTS.name)
            if self.p2p_granted(finding.subject)
            and not (over_pcie and self.has_nvlink(finding.subject))
        )
        if not any(finding.metric == P2P_STATE.name for finding in pairs):
            return pairs
        cut_short = (f for f in self.findings if f.check == gpu_pairs.id and f.reason.code == HANG)
        return (*pairs, *self.bad(gpu_pairs.id, DRIVER_ANSWERS_METRIC.name), *cut_short)

    def p2p_losses(self) -> tuple[Finding, ...]:
        """Return the warnings that a collective is faster without P2P."""
        return self.bad_collectives("p2p_gain")

    def bad_collectives(self, *metrics: str) -> tuple[Finding, ...]:
        """Return what failed or was warned of in any collective: of these metrics, or of any."""
        collectives = dict.fromkeys(leg.collective for leg in self.legs)
        return tuple(f for name in collectives for f in self.bad(name, *metrics))

    def failed_legs(self, legs: Iterable[str], collective: str = "") -> tuple[Finding, ...]:
        """Return the findings of legs that did not end well, of one collective or of all."""
        return self._of_legs(legs, ENDS, collective)

    def slow_legs(self, *legs: str) -> tuple[Finding, ...]:
        """Return the findings of a bandwidth below what the links allow.

        Without ``legs`` they are of those with NCCL's defaults and with the settings of the site.
        """
        return self._of_legs(legs or ("default", "site"), (BUSBW_GBPS.name, ALGBW_GBPS.name))

    def slow_pairs(self) -> tuple[Finding, ...]:
        """Return the findings of pairs whose P2P over PCIe is slower than it should be."""
        slow = self.bad(gpu_pairs.id, P2P_PERCENT_OF_ALIKE.name, P2P_CONCURRENT_PERCENT.name)
        return tuple(
            f for f in slow if self.p2p_granted(f.subject) and not self.has_nvlink(f.subject)
        )

    def slow_over_pcie(self) -> tuple[Finding, ...]:
        """Return those of ``slow_legs`` that go over PCIe or host memory, and ``slow_pairs``.

        Where no GPU has NVLink, that is also what is slower than on like hosts.
        """
        linked = any(path.startswith("NV") for path in self.paths.values())
        bases = (PCIE,) if linked else (PCIE, PEERS)
        legs = (f for f in self.slow_legs() if f.basis in bases)
        return (*legs, *self.slow_pairs())

    def _of_legs(
        self, legs: Iterable[str], metrics: tuple[str, ...], collective: str = ""
    ) -> tuple[Finding, ...]:
        subjects = {f"leg {name}" for name in legs}
        findings = self.bad(collective, *metrics) if collective else self.bad_collectives(*metrics)
        return tuple(finding for finding in findings if finding.subject in subjects)

    def log_lines(self, words: str) -> Iterator[str]:
        """Yield each reason, note and log line of the legs that has these words, in any case."""
        for leg in self.legs:
            for text in (leg.reason.text, *leg.notes, *leg.log_tail.splitlines()):
                if words.lower() in text.lower():
                    yield text


def _reverse(pair: str) -> str:
    one, _, other = pair.partition("-")
    return f"{other}-{one}"
