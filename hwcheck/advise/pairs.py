"""What copies between the GPUs of one host prove about peer-to-peer transport (P2P). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hwcheck.advise.proof import Proof
from hwcheck.judge.leg_gaps import Counted
from hwcheck.judge.legs import is_clean
from hwcheck.node.collective.spec import PAIRS
from hwcheck.node.wire import Leg, Sample
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import line


def prove_pairs(
    record: HostRecord, found: Sequence[Counted], nvlinks: int | None
) -> tuple[Proof, ...]:
    """Return a proof where a pair with peer access delivered wrong data; else nothing.

    P2P must not be used on such a path. That is a setting only where NCCL's default goes by P2P
    and every collective is clean without it; where the NVLinks themselves are bad, or would be
    turned off with it, it is a defect. ``found`` are the host's legs that count.
    """
    bad = _bad_pairs(record)
    defaults = [each.legs["default"] for each in found if "default" in each.legs]
    if not bad or not any(map(_goes_by_p2p, defaults)):
        return ()
    more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    detail = f"{line(bad[0], 40)}{more}: copies with peer access arrive wrong"
    bridged = bool(nvlinks) and any("nvlink_only" in each.legs for each in found)
    other = "nvlink_only" if bridged else "p2p_off"
    without = [each.legs.get(other) for each in found]
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
    samples = list(_samples(record, PAIRS))
    access = {s.subject for s in samples if s.metric == "p2p_access" and s.value is True}
    wrong = (s for s in samples if s.metric == "p2p_wrong_elements")
    return [s.subject for s in wrong if s.subject in access and s.value]


def _linked(record: HostRecord, pairs: Sequence[str]) -> bool:
    """Whether NVLinks join one of the pairs; ``topology`` has each pair once."""
    ways = {s.subject: s.value for s in _samples(record, "topology") if s.metric == "path"}
    both = ((pair, "-".join(reversed(pair.split("-")))) for pair in pairs)
    return any(str(ways.get(name, "")).startswith("NV") for names in both for name in names)


def _samples(record: HostRecord, check: str) -> Iterator[Sample]:
    for result in record.report.results if record.report else ():
        if result.check == check:
            yield from result.samples
