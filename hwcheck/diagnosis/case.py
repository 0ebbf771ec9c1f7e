"""One host as a rule sees it: what was found, what was measured, how its legs went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hwcheck.diagnosis.records import Sign
from hwcheck.judge.evidence import Known
from hwcheck.judge.legs import is_clean
from hwcheck.judge.records import Finding
from hwcheck.results import HostRecord
from hwcheck.wire import Leg, Value

BAD = ("warn", "fail")
WITH_P2P = ("default", "site", "p2p_sys", "nvlink_only")
"""Legs in which GPUs may reach each other."""

Readings = Mapping[tuple[str, str], Mapping[str, Value]]


@dataclass(frozen=True)
class Case:
    """A host with its findings that are no pass; ``readings`` are samples by check and metric."""

    host: str
    record: HostRecord
    known: Known
    findings: tuple[Finding, ...]
    readings: Readings = field(default_factory=dict)
    legs: tuple[Leg, ...] = ()

    def bad(self, check: str, *metrics: str) -> tuple[Finding, ...]:
        """Return what failed or was warned of in a check: of these metrics, or of any."""
        return tuple(
            finding
            for finding in self.findings
            if finding.check == check
            and finding.outcome in BAD
            and finding.metric
            and (not metrics or finding.metric in metrics)
        )

    def of(self, subjects: Iterable[str], *checks: str) -> tuple[Finding, ...]:
        """Return what failed or was warned of in these checks about these subjects."""
        wanted = set(subjects)
        return tuple(
            finding for check in checks for finding in self.bad(check) if finding.subject in wanted
        )

    def values(self, check: str, metric: str) -> Mapping[str, Value]:
        """Return what was measured, by subject."""
        return self.readings.get((check, metric), {})

    def value(self, check: str, metric: str) -> Value | None:
        """Return what was measured of the node; None where it was not."""
        return self.values(check, metric).get("node")

    @property
    def vm(self) -> str:
        """The hypervisor below; empty on bare metal and where nobody asked."""
        found = self.value("virtualization", "hypervisor")
        return "" if found in (None, "none") else str(found)

    @property
    def container(self) -> bool:
        """Whether the login is in a container."""
        return self.value("virtualization", "container") is True

    def p2p_trouble(self) -> tuple[Finding, ...]:
        """Return the findings of legs that hang, fail or corrupt with P2P and not without it."""
        clean = {leg.collective for leg in self.legs if leg.leg == "p2p_off" and is_clean(leg)}
        return tuple(
            finding
            for collective in sorted(clean)
            for finding in self.leg_findings(collective, WITH_P2P)
        )

    def leg_findings(self, collective: str, legs: Iterable[str]) -> tuple[Finding, ...]:
        """Return the findings of a collective's legs that did not end well."""
        return self._of_legs(collective, legs, ("leg_state", "wrong_elements"))

    def slow(self, legs: Iterable[str] = ("default", "site")) -> tuple[Finding, ...]:
        """Return the findings of a bandwidth below what the links allow, over all collectives."""
        names = tuple(legs)
        collectives = dict.fromkeys(leg.collective for leg in self.legs)
        return tuple(
            finding
            for collective in collectives
            for finding in self._of_legs(collective, names, ("busbw_gbps", "algbw_gbps"))
        )

    def slow_over_pcie(self) -> tuple[Finding, ...]:
        """Return those of ``slow`` whose way is PCIe or the host's memory."""
        return tuple(finding for finding in self.slow() if "PCIe" in finding.limit)

    def p2p_loses(self) -> tuple[Finding, ...]:
        """Return the warnings that a collective is faster without P2P."""
        collectives = dict.fromkeys(leg.collective for leg in self.legs)
        return tuple(f for name in collectives for f in self.bad(name, "p2p_gain"))

    def _of_legs(
        self, collective: str, legs: Iterable[str], metrics: tuple[str, ...]
    ) -> tuple[Finding, ...]:
        subjects = {f"leg {name}" for name in legs}
        return tuple(f for f in self.bad(collective, *metrics) if f.subject in subjects)

    def said(self, words: str) -> Iterator[str]:
        """Yield the lines of the legs' logs and reasons in which these words stand."""
        for leg in self.legs:
            for text in (leg.reason, *leg.notes, *leg.log_tail.splitlines()):
                if words.lower() in text.lower():
                    yield text


def sign(
    confidence: str,
    findings: Iterable[Finding],
    also: Iterable[str] = (),
    *,
    stands: bool = False,
) -> Sign | None:
    """Return a sign that explains these findings; None where there is none to explain."""
    explained = tuple(dict.fromkeys(findings))
    return Sign(confidence, explained, tuple(also), stands) if explained else None
