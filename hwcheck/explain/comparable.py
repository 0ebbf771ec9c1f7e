"""Whether logs can be legs of one node: the same host, GPUs and NCCL, and one node each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from hwcheck.explain.records import BenchmarkRun, Benchmarks
from hwcheck.node.nccl_tests.records import RankDevice, listed_ranks
from hwcheck.text import count, line

Logs = Sequence[Benchmarks]
Fact = TypeVar("Fact")

MOST_NAMED = 4


def problems(legs: Mapping[str, Logs]) -> Iterator[str]:
    """Yield why these logs, by the name of their leg, are not of one node; most often nothing.

    What a log does not say speaks against nothing: ``trusted`` tells it.
    """
    for name, logs in legs.items():
        yield from dict.fromkeys(_not_one_node(name, logs))
    for what, of in (
        ("hosts", _hosts),
        ("GPUs", _gpus),
        ("PCI addresses of the GPUs", _addresses),
        ("versions of NCCL", _versions),
    ):
        yield from _differing(what, legs, of)


def trusted(name: str, logs: Logs) -> Iterator[str]:
    """Yield what a leg's log does not say and is taken for right."""
    if logs and not any(_devices(logs)):
        yield f"leg {name}: its log lists no devices, so that it is of this node is taken on trust"
    if logs and not _versions(logs):
        yield f"leg {name}: its log does not name its NCCL, taken for that of the others"


def _not_one_node(name: str, logs: Logs) -> Iterator[str]:
    for log in logs:
        for run in log.runs:
            hosts = sorted({device.host for device in run.table.devices.values()})
            if len(hosts) > 1:
                yield f"leg {name}: its log is of {count(len(hosts), 'host')} ({_named(hosts)})"
            places = {(each.host, each.index) for each in run.table.devices.values()}
            if len(places) < len(run.table.devices):
                yield f"leg {name}: several of its ranks share a GPU"
        nodes = next((command.nodes for command in log.commands if command.nodes), "")
        listed = {device.host for run in log.runs for device in run.table.devices.values()}
        if nodes and len(listed) != 1:
            yield f"leg {name}: its command {line(nodes, 120)}, and a leg is of one node"


def _differing(
    what: str, legs: Mapping[str, Logs], of: Callable[[Logs], Sequence[str]]
) -> Iterator[str]:
    by_leg = {name: facts for name, logs in legs.items() if (facts := of(logs))}
    if len({tuple(facts) for facts in by_leg.values()}) > 1:
        each = "; ".join(f"{name}: {_named(facts)}" for name, facts in by_leg.items())
        yield f"the {what} differ ({each})"


def _named(facts: Sequence[str]) -> str:
    more = f" and {len(facts) - MOST_NAMED} more" if len(facts) > MOST_NAMED else ""
    return ", ".join(line(each, 60) for each in facts[:MOST_NAMED]) + more


def _devices(logs: Logs) -> Iterator[RankDevice]:
    return (device for log in logs for run in log.runs for device in run.table.devices.values())


def _hosts(logs: Logs) -> Sequence[str]:
    return sorted({device.host for device in _devices(logs)})


def _gpus(logs: Logs) -> Sequence[str]:
    return sorted({device.name.removeprefix("NVIDIA ") for device in _devices(logs) if device.name})


def _addresses(logs: Logs) -> Sequence[str]:
    """Return the PCI addresses of runs that list every rank; none where they are placeholders."""
    buses: set[str] = set()
    for log in logs:
        for run in log.runs:
            run_buses = {device.bus.lower() for device in run.table.devices.values()}
            if _lists_all(run) and len(run_buses) == len(run.table.devices):
                buses |= run_buses
    return sorted(buses)


def _lists_all(run: BenchmarkRun) -> bool:
    return len(run.table.devices) == listed_ranks(run.table)


def _versions(logs: Logs) -> Sequence[str]:
    versions = {log.info.version for log in logs}
    return sorted((versions | {run.table.library for log in logs for run in log.runs}) - {""})
