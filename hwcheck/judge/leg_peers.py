"""Legs of like hosts: the way that NCCL took, and how long small messages take. Pure.

``peers`` compares their bandwidths. A way that is unlike the others' may still give a healthy
figure here, such as of the leg ``net``, for which one node has no figure to go by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from hwcheck.checks.shared.leg_checks import ALGBW_GBPS, BUSBW_GBPS
from hwcheck.contract.collective_spec import SITE
from hwcheck.contract.reasons import remark
from hwcheck.contract.wire import Leg
from hwcheck.judge.host_case import HostCase
from hwcheck.judge.legs import LEAST_BYTES, is_clean
from hwcheck.judge.network import ports_named_in
from hwcheck.judge.peers import middle_of
from hwcheck.judge.records import PEERS, Finding
from hwcheck.judge.units import LEAST_HOSTS, Tolerance
from hwcheck.results.transport import ABOUT
from hwcheck.text import count, line, number

WAY, LATENCY = "leg_way", "small_messages_us"
SPEEDS = (BUSBW_GBPS.name, ALGBW_GBPS.name)
LEAST_ALIKE = 3
"""So many hosts, and more than half, have to agree before one is unlike them."""

LEAST_SLOW = 3
"""Of so many sizes, or of more than half: one alone is a pause of the operating system."""

SLOWER = Tolerance(relative=2.0, absolute=20.0, high=True)
"""Three times the middle of like hosts, and 20 us more. NCCL reckons with fixed times for a step
(NVIDIA/nccl, src/graph/tuning.cc), so like hosts agree; the rest is for the operating system."""

WAY_SOURCE = (
    "derived: NCCL chooses its way by the topology, the version and its settings (NVIDIA/nccl, "
    "src/graph), so hosts that have these alike go the same way"
)
LATENCY_SOURCE = (
    "derived from NVIDIA/nccl src/graph/tuning.cc: the time of a small message is that of its "
    "steps, which hosts of one kind have alike"
)

Key = tuple[str, str, int, str, str]


def judge_leg_peers(
    hosts: Sequence[HostCase], findings: Sequence[Sequence[Finding]]
) -> Iterator[Finding]:
    """Yield a warning for each leg that goes another way than most, or is slow in small messages.

    ``findings`` are those of each host so far: a leg whose bandwidth is low is slow in every size.
    """
    slow = {
        (finding.host, finding.check, finding.subject)
        for of_host in findings
        for finding in of_host
        if finding.outcome in ("warn", "fail") and finding.metric in SPEEDS
    }
    alike: dict[Key, list[tuple[str, Leg]]] = {}
    for host in hosts:
        models = f"{len(host.facts.models)} x {' and '.join(host.facts.kinds)}"
        for check, legs in host.legs:
            for leg in legs:
                if is_clean(leg) and leg.backend == "nccl" and leg.ranks > 1:
                    key = (check, leg.leg, leg.ranks, leg.library, models)
                    alike.setdefault(key, []).append((host.name, leg))
    for (check, name, *_), of_hosts in alike.items():
        if name != SITE:  # a host's own settings decide there
            yield from _unlike(check, of_hosts)
        for finding in _slow(check, of_hosts):
            if (finding.host, check, finding.subject) not in slow:
                yield finding


def way_of_facts(facts: Mapping[str, Any]) -> Mapping[str, str]:
    """Return how NCCL says that the data went, by what is compared; ``facts`` as in a leg.

    Ports are left out where NCCL names none, or more than a record holds.
    """
    kinds = sorted(kind.partition("/")[0] for kind in facts if kind not in (*ABOUT, "p2p_refused"))
    channels, ports = facts.get("channels"), len(ports_named_in(facts))
    return {
        **({"ports": str(ports)} if ports else {}),
        "way": " and ".join(dict.fromkeys(kinds)) or "none told",
        "NVLS": "yes" if facts.get("nvls") else "no",
        "GPUDirect RDMA": "yes" if facts.get("gdrdma") else "no",
        "channels": line(str(channels), 20) if channels is not None else "not told",
    }


def usual_way(ways: Collection[Mapping[str, str]]) -> dict[str, tuple[str, int]]:
    """Return what most hosts have alike of their ways, and how many do."""
    usual: dict[str, tuple[str, int]] = {}
    for what in dict.fromkeys(what for way in ways for what in way):
        values = [way[what] for way in ways if what in way]
        ((value, hosts),) = Counter(values).most_common(1)
        if hosts >= LEAST_ALIKE and 2 * hosts > len(values):
            usual[what] = value, hosts
    return usual


def _unlike(check: str, of_hosts: Sequence[tuple[str, Leg]]) -> Iterator[Finding]:
    ways = {host: way_of_facts(leg.transport) for host, leg in of_hosts}
    usual = usual_way(ways.values())
    for host, leg in of_hosts:
        way = ways[host]
        other = [what for what, (value, _) in usual.items() if way.get(what, value) != value]
        if not other:
            continue
        fewest = min(usual[what][1] for what in other)
        yield Finding(
            host=host,
            check=check,
            outcome="warn",
            metric=WAY,
            subject=f"leg {leg.leg}",
            value=", ".join(f"{what}: {way[what]}" for what in other),
            limit="warn unless as on most like hosts: "
            + ", ".join(f"{what}: {usual[what][0]}" for what in other),
            source=WAY_SOURCE,
            confidence="derived",
            reason=remark(f"NCCL goes another way than on {count(fewest, 'like host')}"),
        )


def _slow(check: str, of_hosts: Sequence[tuple[str, Leg]]) -> Iterator[Finding]:
    """Yield a warning for each host whose small messages take far longer than those of others."""
    times: dict[int, dict[str, float]] = {}
    for host, leg in of_hosts:
        for size in leg.sizes:
            if size.size_bytes < LEAST_BYTES:
                times.setdefault(size.size_bytes, {})[host] = size.time_us
    shared = {of: by_host for of, by_host in times.items() if len(by_host) >= LEAST_HOSTS}
    middles = {of: middle_of(by_host.values(), SLOWER) for of, by_host in shared.items()}
    for host, leg in of_hosts:
        late = [
            (by_host[host] / middle.median, of)
            for of, by_host in shared.items()
            if host in by_host
            and (middle := middles[of])
            and middle.beyond(by_host[host], SLOWER, low=False, high=True)
        ]
        sizes = sum(host in by_host for by_host in shared.values())
        if len(late) < LEAST_SLOW and 2 * len(late) <= sizes:
            continue
        of = min(late, key=lambda each: each[1])[1]
        usual = number(median(shared[of].values()))
        times_as_long = number(median(ratio for ratio, _ in late))
        yield Finding(
            host=host,
            check=check,
            outcome="warn",
            metric=LATENCY,
            subject=f"leg {leg.leg}",
            value=round(shared[of][host], 1),
            unit="us",
            basis=PEERS,
            limit=f"warn unless like its peers: {usual} us in the middle of "
            f"{count(len(shared[of]), 'host')}, {number(SLOWER.relative)} times that above it",
            source=LATENCY_SOURCE,
            confidence="derived",
            reason=remark(
                f"small messages take {times_as_long} times as long as on like hosts, in "
                f"{len(late)} of {sizes} sizes"
            ),
        )
