"""The busbw of a collective against what the node's own links allow. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from hwcheck.checks.shared.leg_checks import BUSBW_GBPS
from hwcheck.checks.topology import topology
from hwcheck.contract.reasons import IMPLAUSIBLE, NO_REFERENCE, ON_A_BORDER, Reason, remark
from hwcheck.contract.wire import Leg, SizeTiming
from hwcheck.judge.figures import of_wanted
from hwcheck.judge.host_case import HostCase, NodeFacts
from hwcheck.judge.interconnect import links_of
from hwcheck.judge.legs import LEAST_BYTES, is_clean, largest, wrong_elements
from hwcheck.judge.prediction import COLLECTIVES, ERRORS, Prediction, predict
from hwcheck.judge.records import PCIE, SHARP, Finding
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import binary_size, number

LEGS = ("site", "default")
"""Legs in which NCCL is meant to use all that the node has."""

PASS_FROM, WARN_FROM = 0.85, 0.6
"""Shares of the prediction. Every published figure of a machine that nobody complains of reaches
0.85 (``tests/judge/test_published.py``)."""

TOO_FAST = 3.0
"""Share from which a figure is none of these links: the best published one is 1.28."""

FAIL_BELOW: Mapping[str, float] = MappingProxyType({"shared memory": 0.3})
"""Where another border holds than ``WARN_FROM``: CPUs forward two ways at once very differently
(NVIDIA/nccl issue 384: half of what this rule says, and nothing broken)."""

SOURCE = (
    "link counts and NCCL's constants (NVIDIA/nccl, src/graph/topo.h and tuning.cc), with the "
    "shares that published figures reach"
)
BASES = {"PCIe": PCIE, "shared memory": PCIE, "NVLS": SHARP}
"""What a bandwidth rests on, by the rule that foretells it; NVLinks decide nothing further."""
"""The metric of every collective that is judged here."""

RANKS = ("fail", "warn", "pass")
"""Outcomes from the worst to the best."""


def judge_busbw(host: HostCase) -> Iterator[Finding]:
    """Yield a finding for each leg whose bandwidth the node's links tell.

    An exercise, a leg that did not end well and one rank say nothing. A run that did not ask for
    the topology has nothing to hold a bandwidth against and says nothing either; where it was asked
    and does not tell, the leg is inconclusive. What lay on a border is judged by the second visit.
    """
    for check, legs in host.legs:
        for leg, expected in _expectations(legs, host.record, host.facts):
            yield _finding(host.name, check, leg, expected, _second_leg(host, check, leg.leg))


def _second_leg(host: HostCase, check: str, name: str) -> Leg | str:
    """Return the leg that the second visit timed, or why it has none to compare with the first.

    The reason is empty where no second visit was made.
    """
    if host.second_visit is None:
        return ""
    answer = host.second_answer(check)
    leg = next((leg for leg in answer.legs if leg.leg == name), None) if answer else None
    if leg is None:
        reason = answer.reason.text if answer else ""
        return host.second_visit_failure or reason or f"it did not report leg {name}"
    if leg.state != "done":
        return f"leg {name}: {leg.state.replace('_', ' ')}: {leg.reason}".rstrip(": ")
    if wrong_elements(leg):
        return f"leg {name} gave wrong data"
    if not _is_judged(leg, host.facts):
        return f"leg {name} cannot be compared with the first"
    return leg


def on_a_border(legs: Sequence[Leg], record: HostRecord, facts: NodeFacts) -> tuple[str, ...]:
    """Return the legs whose bandwidth lies within its spread of a border."""
    return tuple(
        leg.leg
        for leg, expected in _expectations(legs, record, facts)
        if isinstance(expected, Prediction)
        and (size := _size(leg)).size_bytes >= LEAST_BYTES
        and _straddles(size, expected)
    )


def _expectations(
    legs: Sequence[Leg], record: HostRecord, facts: NodeFacts
) -> Iterator[tuple[Leg, Prediction | str]]:
    """Yield each leg that is judged with what is expected of it, or why nothing is."""
    judged = [leg for leg in legs if _is_judged(leg, facts)]
    if not judged or not _has_topology(record):
        return
    links = links_of(record)
    for leg in judged:
        if links is None:
            yield leg, "the way between the GPUs was not measured"
        elif links.gpus != leg.ranks:
            yield leg, f"the topology has {links.gpus} GPUs and the leg {leg.ranks} ranks"
        else:
            yield leg, predict(links, leg.collective, leg.library)


def _size(leg: Leg) -> SizeTiming:
    """Return the size by which a leg is judged."""
    size = largest(leg)
    assert size is not None
    return size


def _is_judged(leg: Leg, facts: NodeFacts) -> bool:
    return (
        leg.leg in LEGS
        and leg.collective in COLLECTIVES
        and leg.backend == "nccl"
        and not leg.exercise
        and leg.ranks == len(facts.models) > 1
        and is_clean(leg)
        and largest(leg) is not None
    )


def _has_topology(record: HostRecord) -> bool:
    results = record.report.results if record.report else ()
    return any(result.check == topology.id for result in results)


def _finding(
    host: str, check: str, leg: Leg, expected: Prediction | str, second_leg: Leg | str
) -> Finding:
    size = _size(leg)
    outcome, limit, reason, code = "inconclusive", "", "", NO_REFERENCE
    fail_at = warn_at = None
    figures = ""
    if isinstance(expected, str):
        reason = f"nothing to hold busbw against: {expected}"
    elif size.size_bytes < LEAST_BYTES:
        reason = f"{binary_size(size.size_bytes)} is too small a message for a bandwidth"
    else:
        gbps = expected.at(size.size_bytes)
        limit = _limit(gbps, expected)
        fail_at, warn_at = fail_below(expected) * gbps, PASS_FROM * gbps
        if size.busbw_gbps > TOO_FAST * expected.at(size.size_bytes):
            share = _share(size, expected)
            reason = f"{share} from {expected.way}: no data can have gone that fast over them"
            code = IMPLAUSIBLE
        elif _straddles(size, expected):
            size, outcome, reason = _second_look(size, expected, second_leg)
            code = ON_A_BORDER
        else:
            outcome = _outcomes(size, expected)[0]
        if outcome in ("warn", "fail"):
            figures = of_wanted(size.busbw_gbps, gbps, "GB/s")
        if not reason and outcome != "pass":
            reason = f"{_share(size, expected)} from {expected.way}"
    return Finding(
        host=host,
        check=check,
        outcome=outcome,
        metric=BUSBW_GBPS.name,
        subject=f"leg {leg.leg}",
        value=size.busbw_gbps,
        unit="GB/s",
        limit=limit,
        source=SOURCE if limit else "",
        confidence="derived" if limit else "",
        reason=Reason(code, reason) if outcome == "inconclusive" else remark(reason),
        fail_at=fail_at,
        warn_at=warn_at,
        figures=figures,
        basis=BASES.get(expected.rule, "") if isinstance(expected, Prediction) else "",
    )


def _second_look(
    size: SizeTiming, expected: Prediction, second_leg: Leg | str
) -> tuple[SizeTiming, str, str]:
    """Judge a size on a border by what was measured anew: the size that counts, outcome, reason.

    The second figure decides where it is clear of the borders and on one side of the one that the
    first lay on. Anything else is a figure that nobody can rely on. Instead of the second one there
    may be the reason why it is missing, empty where no second visit was made.
    """
    low, high = _outcomes(size, expected)
    first = (
        f"{_share(size, expected)}, and its spread of {_spread(size):.0%} straddles the border of "
        f"{low} and {high}"
    )
    if isinstance(second_leg, str):
        then = f"; a second visit was tried and gave no figure: {second_leg}"
        return size, "inconclusive", first + (then if second_leg else ": measure again")
    second = _size(second_leg)
    if second.size_bytes != size.size_bytes:
        then = f"when measured again it got to {binary_size(second.size_bytes)} only"
        return size, "inconclusive", f"{first}; {then}"
    worst, best = _outcomes(second, expected)
    if worst == best and RANKS.index(low) <= RANKS.index(best) <= RANKS.index(high):
        then = f"{_share(second, expected)} when measured again; at first {first}"
        return second, best, "" if best == "pass" else then
    then = f"measured again: {_share(second, expected)}, spread {_spread(second):.0%}"
    return second, "inconclusive", f"{first}; {then}"


def _share(size: SizeTiming, expected: Prediction) -> str:
    gbps = expected.at(size.size_bytes)
    return f"{number(size.busbw_gbps / gbps)} of the {number(gbps)} GB/s expected"


def _outcomes(size: SizeTiming, expected: Prediction) -> tuple[str, str]:
    return band(size, expected.at(size.size_bytes), fail_below(expected))


def _straddles(size: SizeTiming, expected: Prediction) -> bool:
    low, high = _outcomes(size, expected)
    return low != high


def fail_below(expected: Prediction) -> float:
    """Return the share of a prediction below which a leg fails."""
    return FAIL_BELOW.get(expected.rule, WARN_FROM)


def band(size: SizeTiming, expected_gbps: float, fail_from: float = WARN_FROM) -> tuple[str, str]:
    """Return the outcomes of the lower and the upper end of what a timing may be.

    The middle half of the times is ``spread`` of the median wide; medians of passes may lie further
    apart.
    """
    half = _spread(size) / 2
    low, high = (
        size.busbw_gbps / (1 + half),
        size.busbw_gbps / (1 - half) if half < 1 else float("inf"),
    )
    return _outcome(low / expected_gbps, fail_from), _outcome(high / expected_gbps, fail_from)


def _spread(size: SizeTiming) -> float:
    return max(size.spread, size.pass_spread)


def _outcome(share: float, fail_from: float) -> str:
    if share >= PASS_FROM:
        return "pass"
    return "warn" if share >= fail_from else "fail"


def _limit(gbps: float, expected: Prediction) -> str:
    lowest = fail_below(expected)
    return (
        f"fail unless >= {lowest:g} x expectation ({number(lowest * gbps)}), warn unless >= "
        f"{PASS_FROM:g} x expectation ({number(PASS_FROM * gbps)}); expected {number(gbps)} GB/s: "
        f"{expected.way}; this rule is {ERRORS[expected.rule]:.0%} off in the median of published "
        "figures"
    )
