"""One host as a rule sees it: what was found, what was measured, how its legs went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hwcheck.advise.cause_records import Sign
from hwcheck.judge.evidence import Known
from hwcheck.judge.legs import is_clean
from hwcheck.judge.records import Finding
from hwcheck.node.wire import Leg, Value
from hwcheck.results.run_folder import HostRecord

BAD = ("warn", "fail")
WITH_P2P = ("default", "site", "p2p_sys", "nvlink_only")
"""Legs in which GPUs may reach each other."""

CUT = "killed after"
"""Words of an answer that ends with a pair that hung."""

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

    @property
    def cpu_vendor(self) -> str:
        """The vendor of the CPU; empty where it is not known."""
        found = self.record.report.facts.get("cpu_vendor") if self.record.report else None
        return found if isinstance(found, str) else ""

    def linked(self, pair: str) -> bool:
        """Whether NVLink joins a pair (``gpu0-gpu1``), as far as the topology tells."""
        paths = self.values("topology", "path")
        return str(paths.get(pair, paths.get(_turned(pair), ""))).startswith("NV")

    @property
    def all_linked(self) -> bool:
        """Whether NVLink joins every pair of GPUs."""
        paths = self.values("topology", "path")
        return bool(paths) and all(str(path).startswith("NV") for path in paths.values())

    def granted(self, pair: str) -> bool:
        """Whether the driver grants the first GPU of a pair the memory of the second.

        A pair that hung at once could not be asked: then it is as the way back, or as NVML says.
        """
        access = self.values("gpu_pairs", "p2p_access")
        if pair in access or _turned(pair) in access:
            return access.get(pair, access.get(_turned(pair))) is True
        said = [self.values("p2p_status", f"{way}_read").get(pair) for way in ("pcie", "nvlink")]
        return "OK" in said

    def p2p_trouble(self, *, over_pcie: bool = False) -> tuple[Finding, ...]:
        """Return the findings of what hangs, fails or corrupts with P2P and not without it.

        That is of legs, and of pairs of GPUs to which the driver grants it. With ``over_pcie`` only
        where that is the way: GPUs with NVLink between them do not go over PCIe.
        """
        clean = {leg.collective for leg in self.legs if leg.leg == "p2p_off" and is_clean(leg)}
        names = () if over_pcie and self.all_linked else sorted(clean)
        legs = (f for name in names for f in self.leg_findings(name, WITH_P2P))
        return (*legs, *self._pair_trouble(over_pcie))

    def _pair_trouble(self, over_pcie: bool) -> tuple[Finding, ...]:
        own = tuple(
            finding
            for finding in self.bad("gpu_pairs", "p2p_state", "p2p_wrong_elements")
            if self.granted(finding.subject) and not (over_pcie and self.linked(finding.subject))
        )
        if not any(finding.metric == "p2p_state" for finding in own):
            return own
        cut = (f for f in self.findings if f.check == "gpu_pairs" and CUT in f.reason)
        return (*own, *self.bad("gpu_pairs", "driver_answers"), *cut)

    def slow_pairs(self) -> tuple[Finding, ...]:
        """Return the findings of pairs whose P2P over PCIe is slower than it should be."""
        found = self.bad("gpu_pairs", "p2p_percent_of_alike", "p2p_concurrent_percent")
        return tuple(f for f in found if self.granted(f.subject) and not self.linked(f.subject))

    def of_legs(self, *metrics: str) -> tuple[Finding, ...]:
        """Return the findings of these metrics over all collectives."""
        collectives = dict.fromkeys(leg.collective for leg in self.legs)
        return tuple(f for name in collectives for f in self.bad(name, *metrics))

    def leg_findings(self, collective: str, legs: Iterable[str]) -> tuple[Finding, ...]:
        """Return the findings of a collective's legs that did not end well."""
        return self._of_legs(collective, legs, ("leg_state", "wrong_elements", "driver_answers"))

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
        """Return those of ``slow`` whose way is PCIe or the host's memory, and ``slow_pairs``."""
        legs = (finding for finding in self.slow() if "PCIe" in finding.limit)
        return (*legs, *self.slow_pairs())

    def p2p_loses(self) -> tuple[Finding, ...]:
        """Return the warnings that a collective is faster without P2P."""
        return self.of_legs("p2p_gain")

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


def _turned(pair: str) -> str:
    one, _, other = pair.partition("-")
    return f"{other}-{one}"


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
