"""The hosts of a run against each other: versions that drift, and one machine under two names.

What a golden host gives stands for what most give. Pure. Peers do it too: against a golden file and
against the majority (field survey in the design notes: NVIDIA's and Oracle's configuration checks),
most of them within one node only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hwcheck.contract.check import Check
from hwcheck.contract.limits import FromFleet
from hwcheck.contract.wire import Sample, Value
from hwcheck.fold import fold
from hwcheck.judge.host_case import NodeFacts, gpus_of
from hwcheck.judge.records import NoMajority
from hwcheck.results.run_folder import HostRecord, Run
from hwcheck.text import quantity

Kind = tuple[str, ...]
Key = tuple[str, str, Kind]
SHOWN = 4


@dataclass(frozen=True)
class Fleet:
    """What the hosts of a run give, by check, metric and kind of host; one vote for each host.

    ``golden`` are the votes of golden hosts alone.
    """

    votes: Mapping[Key, Counter[Value]] = field(default_factory=dict)
    golden: Mapping[Key, Counter[Value]] = field(default_factory=dict)

    def reference(self, check: str, metric: str, kind: Kind) -> Value | None:
        """Return what the golden host or most hosts give, or in words that there is no majority.

        None where no other host gives anything to compare with.
        """
        votes = self.golden.get((check, metric, kind)) or self.votes.get(
            (check, metric, kind), Counter()
        )
        if len(votes) == 1 and self.has_golden(check, metric, kind):
            return next(iter(votes))
        if votes.total() < 2:
            return None
        (value, count), *_ = votes.most_common()
        if 2 * count > votes.total():
            return value
        most = votes.most_common(SHOWN)
        shown = ", ".join(f"{quantity(value)} on {count}" for value, count in most)
        more = ", ..." if len(votes) > SHOWN else ""
        return NoMajority(f"no majority: {shown}{more}", tuple(value for value, _ in most))

    def has_golden(self, check: str, metric: str, kind: Kind) -> bool:
        """Whether a golden host gives it."""
        return (check, metric, kind) in self.golden


def fleet_of(
    records: Iterable[HostRecord], facts: Iterable[NodeFacts], registry: Mapping[str, Check]
) -> Fleet:
    """Collect one vote of each host for each metric that is compared over the fleet.

    ``records`` and ``facts`` are those of the same hosts, in one order.
    """
    wanted = _wanted(registry)
    votes: dict[Key, Counter[Value]] = {}
    golden: dict[Key, Counter[Value]] = {}
    for record, of_host in zip(records, facts, strict=True):
        host_votes: dict[Key, Counter[Value]] = {}
        for check, sample, kind in _compared(record, wanted, of_host):
            key = (check, sample.metric, kind)
            host_votes.setdefault(key, Counter())[sample.value] += 1
        for key, values in host_votes.items():
            for counted in (votes, golden) if of_host.golden else (votes,):
                counted.setdefault(key, Counter())[values.most_common(1)[0][0]] += 1
    return Fleet(votes, golden)


def kind_of(sample: Sample, by: FromFleet, values: Mapping[str, Value], facts: NodeFacts) -> Kind:
    """Return what a sample must share with another for the two to be compared.

    That is the board of a GPU, with its name where slots count, and for anything else the models of
    the node's GPUs and the name of the thing; besides, the value of the metric ``by.alike``, which
    the same answer has by subject in ``values``.
    """
    if sample.subject in facts.boards:
        kind: Kind = (facts.boards[sample.subject],)
        if by.by_slot:
            kind += ("of " + sample.subject,)
    else:
        kind = (*facts.kinds, "of " + sample.subject)
    if not by.alike:
        return kind
    return (*kind, by.alike, str(values.get(sample.subject, values.get("node", ""))))


def same_machine(run: Run) -> dict[str, str]:
    """Return, by host, why it may be the same machine as another host of the run.

    A GPU's identifier is unique (NVML API Reference Guide, nvmlDeviceGetUUID).
    """
    hosts: dict[str, list[str]] = {}
    for record in run.records:
        for uuid in set(_uuids(record)):
            hosts.setdefault(uuid, []).append(record.host)
    return {
        host: f"{fold(names)} name the same GPU ({uuid[:60]}): one machine under several names"
        for uuid, names in sorted(hosts.items())
        if len(names) > 1
        for host in names
    }


def _wanted(registry: Mapping[str, Check]) -> dict[str, dict[str, set[FromFleet]]]:
    """Return by check the metrics that are compared.

    One may be compared in several ways, and each has its own votes.
    """
    operands: dict[str, dict[str, set[FromFleet]]] = {}
    for name, check in registry.items():
        for metric in check.metrics:
            for operand in (limit.operand for limit in metric.limits):
                if isinstance(operand, FromFleet):
                    operands.setdefault(name, {}).setdefault(metric.name, set()).add(operand)
    return operands


def _compared(
    record: HostRecord, wanted: Mapping[str, Mapping[str, set[FromFleet]]], facts: NodeFacts
) -> Iterator[tuple[str, Sample, Kind]]:
    for result in record.report.results if record.report else ():
        compared = wanted.get(result.check, {})
        alike = {operand.alike for operands in compared.values() for operand in operands}
        values: dict[str, dict[str, Value]] = {name: {} for name in alike}
        for sample in result.samples if any(alike) else ():
            if sample.metric in alike:
                values[sample.metric][sample.subject] = sample.value
        for sample in result.samples if compared else ():
            for operand in compared.get(sample.metric, ()):
                yield result.check, sample, kind_of(sample, operand, values[operand.alike], facts)


def _uuids(record: HostRecord) -> Iterator[str]:
    for gpu in gpus_of(record):
        if gpu.uuid:
            yield gpu.uuid
