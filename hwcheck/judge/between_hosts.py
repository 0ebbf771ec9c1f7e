"""Runs over several hosts, host against host: the way that NCCL took, ranks, bandwidth. Pure.

The search for a culprit (``run``) goes by hangs, wrong data and what is far too slow. This looks at
what the runs say besides: it knows nothing of what is right, so it only ever warns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from hwcheck.contract import reasons
from hwcheck.contract.reasons import Reason, remark
from hwcheck.judge.host_case import HostCase
from hwcheck.judge.leg_peers import WAY, WAY_SOURCE, usual_way, way_of_facts
from hwcheck.judge.legs import LEAST_BYTES
from hwcheck.judge.network import (
    GPUDIRECT_SOURCE,
    LEAST_PORTS,
    SOURCE,
    active_ports,
    compute_ports,
    offers_gpudirect,
    ports_named_in,
)
from hwcheck.judge.peers import SOURCE as PEERS_SOURCE
from hwcheck.judge.peers import middle_of
from hwcheck.judge.records import MULTI_HOST, Finding, unmeasured
from hwcheck.judge.units import BANDWIDTH
from hwcheck.results.multi_host import MultiHostRecord, MultiHostRun
from hwcheck.text import count, number

PAIRS, ALL = "pairs", "all"
OF_NCCL = "NCCL"
STUCK_SOURCE = "signal(7), SIGKILL: only a process that is stuck in the kernel survives it"
RANKS_SOURCE = "each GPU of a host has a rank; those that the inventory or NVML count are its GPUs"


def judge_between_hosts(
    hosts: Sequence[HostCase], findings: Sequence[Sequence[Finding]]
) -> Iterator[Finding]:
    """Yield what the runs over several hosts say of each of them, and of none a limit.

    ``findings`` are those of each host so far: who is accused of being slow is not told it again.
    """
    by_name = {host.name: host for host in hosts if host.multi_host is not None}
    record = next((host.multi_host for host in by_name.values()), None)
    if record is None or record.backend != "nccl":
        return
    accused = {
        finding.host
        for of_host in findings
        for finding in of_host
        if finding.check == MULTI_HOST and finding.outcome == "fail"
    }
    done = [run for run in record.runs if run.state == "done" and run.sizes]
    for scope in dict.fromkeys(run.why for run in done if _is_scope(run.why)):
        yield from _ways(scope, [run for run in done if run.why == scope], by_name)
    for host in by_name.values():
        host_runs = [run for run in done if host.name in run.hosts]
        yield from _without_words(host.name, host_runs)
        yield from _stuck(host.name, record)
    yield from _missing_ranks(done, by_name)
    yield from _slower(done, accused & set(by_name), by_name)


def _is_scope(why: str) -> bool:
    return why in (PAIRS, ALL) or why.startswith("rail ")


def _facts(run: MultiHostRun, host: str) -> Mapping[str, Any]:
    return next((each.facts for each in run.transport if host in each.hosts), {})


def _ways(
    scope: str, runs: Sequence[MultiHostRun], by_name: Mapping[str, HostCase]
) -> Iterator[Finding]:
    """Yield a warning for each host that goes another way than most of the others in a scope."""
    facts_by_host: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        for name in run.hosts:
            facts = _facts(run, name)
            if name in by_name and facts:
                facts_by_host.setdefault(name, []).append(facts)
    ways = {
        name: _usual(list(map(way_of_facts, of_host))) for name, of_host in facts_by_host.items()
    }
    usual = usual_way(ways.values())
    for name, way in ways.items():
        other = [what for what, (value, _) in usual.items() if way.get(what, value) != value]
        if other:
            fewest = min(usual[what][1] for what in other)
            yield _warning(
                name,
                WAY,
                scope,
                ", ".join(f"{what}: {way[what]}" for what in other),
                limit="warn unless as on most hosts of the runs: "
                + ", ".join(f"{what}: {usual[what][0]}" for what in other),
                source=WAY_SOURCE,
                reason=f"{scope}: NCCL goes another way than on {count(fewest, 'other host')}",
            )
        else:
            yield from _of_network(by_name[name], scope, facts_by_host[name])


def _usual(ways: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return what a host has in most of its runs."""
    values_by_word = {
        what: [way[what] for way in ways if what in way] for way in ways for what in way
    }
    return {what: Counter(values).most_common(1)[0][0] for what, values in values_by_word.items()}


def _of_network(
    host: HostCase, scope: str, of_runs: Sequence[Mapping[str, Any]]
) -> Iterator[Finding]:
    """Yield what of the network all hosts leave unused alike: GPUDirect RDMA, most of the ports."""
    over_ib = [facts for facts in of_runs if "NET/IB" in facts]
    if not over_ib:
        return
    ports = compute_ports(active_ports(host.record), host.facts)
    if offers_gpudirect(host, ports) and not any(facts.get("gdrdma") for facts in over_ib):
        yield _warning(
            host.name,
            "gpudirect_used",
            scope,
            value=False,
            limit="warn unless true where the driver offers it and ports are near GPUs",
            source=GPUDIRECT_SOURCE,
            reason=f"{scope}: NCCL copies through host memory, though the driver offers GPUDirect",
        )
    used = max(len(ports_named_in(facts)) for facts in over_ib)
    if scope in (PAIRS, ALL) and len(ports) >= LEAST_PORTS and 0 < 2 * used < len(ports):
        yield _warning(
            host.name,
            "network_ports",
            scope,
            value=used,
            limit=f"warn where fewer than half of {len(ports)} active ports are used",
            source=SOURCE,
            reason=f"{scope}: NCCL uses {used} of {len(ports)} active RDMA ports",
        )


def _without_words(host: str, runs: Sequence[MultiHostRun]) -> Iterator[Finding]:
    """Yield that a host's figures cannot be told, where none of its runs says how it was made."""
    if runs and not any(_facts(run, host) for run in runs):
        reason = "NCCL does not say which way the data of this host took"
        yield unmeasured(host, MULTI_HOST, Reason(reasons.NOT_MEASURED, reason))
    elif runs and not any(run.library.startswith(OF_NCCL) for run in runs):
        reason = "no run of this host says that NCCL made it"
        yield unmeasured(host, MULTI_HOST, Reason(reasons.NOT_MEASURED, reason))


def _stuck(host: str, record: MultiHostRecord) -> Iterator[Finding]:
    left = [
        reason.text
        for run in record.runs
        for reason in run.left_over.get(host, ())
        if reason.code == reasons.STUCK
    ]
    if left:
        yield _warning(
            host,
            "left_over",
            "node",
            value=len(left),
            limit="warn above 0",
            source=STUCK_SOURCE,
            reason=f"a process of a run cannot be ended: {host}: {left[0]}",
        )


def _missing_ranks(
    done: Sequence[MultiHostRun], by_name: Mapping[str, HostCase]
) -> Iterator[Finding]:
    """Yield a warning where runs have fewer ranks than their hosts have GPUs.

    That is of the host all of whose runs are short; where none is, of all hosts of a short run.
    """
    gpus = {name: len(host.facts.models) for name, host in by_name.items() if host.facts.models}
    short: dict[str, list[int]] = {}
    runs: list[tuple[MultiHostRun, int]] = []
    for run in done:
        if _is_scope(run.why) and set(run.hosts) <= set(gpus):
            of_gpus = sum(gpus[name] for name in run.hosts)
            missing = (of_gpus if run.why in (PAIRS, ALL) else len(run.hosts)) - run.ranks
            runs.append((run, missing))
            for name in run.hosts if run.why in (PAIRS, ALL) else ():
                short.setdefault(name, []).append(missing)
    fewest = {name: min(missing) for name, missing in short.items() if min(missing) > 0}
    others = dict.fromkeys(
        (name, run.why, missing)
        for run, missing in runs
        if missing > 0 and not fewest.keys() & set(run.hosts)
        for name in run.hosts
    )
    for name, amount in fewest.items():
        reason = f"no run with this host had a rank on every GPU: {amount} short"
        yield _ranks(name, "node", amount, reason)
    for name, scope, amount in others:
        yield _ranks(name, scope, amount, f"{scope}: a run was {count(amount, 'rank')} short")


def _ranks(host: str, subject: str, missing: int, reason: str) -> Finding:
    return _warning(
        host,
        "ranks_missing",
        subject,
        missing,
        limit="warn above 0",
        source=RANKS_SOURCE,
        reason=reason,
    )


def _slower(
    done: Sequence[MultiHostRun], accused: set[str], by_name: Mapping[str, HostCase]
) -> Iterator[Finding]:
    """Yield a warning for each host whose pairs are slower than those of the others.

    Far less than the others reach makes a host suspect; this is what lies between.
    """
    reached: dict[str, list[float]] = {}
    for run in done:
        large = run.sizes[-1].size_bytes >= LEAST_BYTES
        if run.why == PAIRS and run.outcome.kind == "ok" and large and not accused & set(run.hosts):
            for name in run.hosts:
                reached.setdefault(name, []).append(run.outcome.busbw_gbps)
    medians = {name: median(figures) for name, figures in reached.items() if name in by_name}
    middle = middle_of(medians.values(), BANDWIDTH)
    for name, value in medians.items() if middle else ():
        if middle and middle.beyond(value, BANDWIDTH, low=True, high=False):
            usual = number(middle.median)
            yield _warning(
                name,
                "pairs_gbps",
                PAIRS,
                value=round(value, 3),
                limit=f"warn unless like its peers: {usual} GB/s in the middle of {len(medians)}, "
                f"{number(middle.width)} GB/s either way",
                source=PEERS_SOURCE,
                reason=f"the pairs of this host reach {number(value)} GB/s in the median, those of "
                f"the others {usual}",
            )


def _warning(
    host: str, metric: str, subject: str, value: Any, *, limit: str, source: str, reason: str
) -> Finding:
    return Finding(
        host=host,
        check=MULTI_HOST,
        outcome="warn",
        metric=metric,
        subject=subject,
        value=value,
        limit=limit,
        source=source,
        confidence="derived",
        reason=remark(reason),
    )
