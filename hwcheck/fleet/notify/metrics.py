"""``hwcheck.prom`` for the textfile collector of Prometheus' node_exporter.

Ages are left to who asks: a file that nobody writes any more would keep its own for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from hwcheck.fleet.notify.changes import LastSweep, State, parsed
from hwcheck.judge.records import OUTCOMES, worst
from hwcheck.text import line

Samples = Iterable[tuple[Mapping[str, str], float]]

LABEL_CHARACTERS = 200
FILE_MODE = 0o644
"""node_exporter is another user."""


def metrics(state: State, inventory: str, hosts: Iterable[str], waiting: Mapping[str, int]) -> str:
    """Return the metrics in Prometheus' text format.

    ``waiting`` counts the messages that each receiver has not taken.
    """
    of_inventory = {"inventory": inventory}
    return "".join(
        (
            *_family(
                "hwcheck_sweep_end_timestamp_seconds",
                "When the last sweep of a level finished; its age says whether sweeps still run.",
                _of_levels(state, of_inventory, lambda each: seconds(each.finished)),
            ),
            *_family(
                "hwcheck_sweep_duration_seconds",
                "How long the last sweep of a level took.",
                _of_levels(
                    state,
                    of_inventory,
                    lambda each: max(0.0, seconds(each.finished) - seconds(each.started)),
                ),
            ),
            *_family(
                "hwcheck_sweep_interval_seconds",
                "How long after one sweep of a level the next one is due.",
                _of_levels(state, of_inventory, lambda each: each.every_s),
            ),
            *_family(
                "hwcheck_sweep_measured_hosts",
                "Hosts of which the last sweep of a level has an answer.",
                _of_levels(state, of_inventory, lambda each: each.measured),
            ),
            *_family(
                "hwcheck_hosts",
                "Hosts of the inventory, by the worst of their open problems.",
                _hosts(state, of_inventory, hosts),
            ),
            *_family(
                "hwcheck_problem_start_timestamp_seconds",
                "When an open problem of a host was first seen; gone when it is cleared.",
                _problems(state, of_inventory),
            ),
            *_family(
                "hwcheck_waiting_messages",
                "Messages in the outbox that a receiver has not taken.",
                [
                    ({**of_inventory, "receiver": receiver}, count)
                    for receiver, count in waiting.items()
                ],
            ),
        )
    )


def seconds(time: str) -> float:
    """Return a time (UTC) as Unix seconds."""
    return (parsed(time) - parsed("1970-01-01T00:00:00Z")).total_seconds()


def _family(name: str, help_text: str, samples: Samples) -> Iterable[str]:
    listed = list(samples)
    if listed:
        yield f"# HELP {name} {help_text}\n# TYPE {name} gauge\n"
    for labels, value in listed:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{{{inside}}} {value:.17g}\n"


def _escaped(text: str) -> str:
    return line(text, LABEL_CHARACTERS).replace("\\", "\\\\").replace('"', '\\"')


def _of_levels(
    state: State, labels: Mapping[str, str], value: Callable[[LastSweep], float]
) -> Samples:
    for level, ended in state.ended.items():
        yield {**labels, "level": level}, value(ended)


def _hosts(state: State, labels: Mapping[str, str], hosts: Iterable[str]) -> Samples:
    outcomes: dict[str, str] = dict.fromkeys(hosts, "pass")
    for each in state.open:
        host = each.problem.host
        outcomes[host] = worst((each.problem.outcome, outcomes.get(host, "pass")))
    amounts = Counter(outcomes.values())
    for outcome in OUTCOMES:
        yield {**labels, "outcome": outcome}, amounts[outcome]


def _problems(state: State, labels: Mapping[str, str]) -> Samples:
    for each in state.open:
        problem = each.problem
        yield (
            {
                **labels,
                "host": problem.host,
                "check": problem.check or "host",
                "outcome": problem.outcome,
                "cause": problem.cause,
            },
            seconds(each.since),
        )
