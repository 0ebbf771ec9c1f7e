"""What one run shows by itself about who spoiled it: silent hosts, stuck ranks, wrong senders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hwcheck.results.multi_host import Suspect

PROCESS_STATES = {
    "T": "is stopped",
    "t": "is stopped by a debugger",
    "D": "waits in the kernel and cannot be interrupted",
}
"""States of proc(5) in which a rank takes no part in anything."""

ECHO = re.compile(
    r"connection (closed|reset|refused)|broken pipe|socket (closed|timeout)|remote ?(error|process)"
    r"|(by|remote) peer|timed? ?out|socketPoll|no route to host|unreachable",
    re.IGNORECASE,
)
"""What a rank says whose partner is gone: gloo's words, NCCL's (NVIDIA/nccl, src/misc/socket.cc,
src/init.cc) and torch's."""

Answers = Mapping[str, Mapping[str, Any]]
"""Each host's (schema-checked) answer to one order."""


def of_hang(answers: Answers) -> list[Suspect]:
    """Return the hosts with ranks that are behind: they have begun fewer collectives than others.

    That may be the link to them. Nothing where all wait at the same point.
    """
    calls = [rank["calls"] for answer in answers.values() for rank in answer["ranks"]]
    most = max(calls, default=0)
    behind = {
        host: [
            f"rank {rank['rank']} on {host} began {rank['calls']} steps, others {most}"
            for rank in answer["ranks"]
            if rank["calls"] < most
        ]
        for host, answer in answers.items()
    }
    late = [Suspect((host,), "hang", tuple(why)) for host, why in behind.items() if why]
    return late if len(late) <= len(answers) // 2 else []


def of_state(answers: Answers) -> list[Suspect]:
    """Return the hosts with ranks whose process stands still, which is proof.

    Not those that failed: their ranks were on their way out.
    """
    still = {
        host: [
            f"rank {rank['rank']} on {host} {PROCESS_STATES[rank['process']]}"
            for rank in answer["ranks"]
            if rank["process"] in PROCESS_STATES
        ]
        for host, answer in answers.items()
        if answer["state"] == "hang"
    }
    return [Suspect((host,), "hang", tuple(why), True) for host, why in still.items() if why]


def of_failure(answers: Answers) -> list[Suspect]:
    """Return the hosts whose ranks failed for a reason of their own, where there are few."""
    first = without_echoes(
        {host: answer for host, answer in answers.items() if answer["state"] == "failed"}
    )
    if 2 * len(first) > len(answers):
        return []
    return [Suspect((host,), "failed", (f"{host}: {why}",)) for host, why in first.items()]


def without_echoes(failed: Answers) -> dict[str, str]:
    """Return, of hosts that failed, those that did for a reason of their own, with it.

    When one rank ends, the others lose their connection to it: that is an echo. So is a rank that
    was aborted, where another host has a reason of its own: torch's watchdog does that to one whose
    partner is gone.
    """
    reasons = {host: answer["reason"] for host, answer in failed.items()}
    first = {host: why for host, why in reasons.items() if not ECHO.search(why)}
    return {host: why for host, why in first.items() if not failed[host]["aborted"]} or first


def of_wrong(answers: Answers, rank_hosts: Sequence[str]) -> list[Suspect]:
    """Return who sent or received wrong data when every rank sent to every other directly.

    ``rank_hosts`` is the host of each rank. A host is suspected where its data was wrong with more
    than half of at least two other hosts, or within itself; otherwise the link between two hosts.
    """
    wrong: dict[tuple[str, str], int] = {}
    for host, answer in answers.items():
        for exchange in answer["exchanges"]:
            for source, amount in exchange["wrong_from"].items():
                if int(source) < len(rank_hosts):
                    way = (rank_hosts[int(source)], host)
                    wrong[way] = wrong.get(way, 0) + amount
    hosts = list(dict.fromkeys(rank_hosts))
    suspects = []
    while wrong:
        partners = {host: {h for way in wrong if host in way for h in way} for host in hosts}
        worst = max(hosts, key=lambda host: (((host, host) in wrong), len(partners[host])))
        others = len(partners[worst] - {worst})
        if (worst, worst) not in wrong and (others < 2 or 2 * others <= len(hosts) - 1):
            break
        ways = {way: wrong.pop(way) for way in list(wrong) if worst in way}
        suspects.append(Suspect((worst,), "wrong", _lines(ways)))
    while wrong:
        pair = next(iter(wrong))
        ways = {way: wrong.pop(way) for way in list(wrong) if set(way) == set(pair)}
        suspects.append(Suspect(pair, "wrong", _lines(ways)))
    return suspects


def _lines(ways: Mapping[tuple[str, str], int]) -> tuple[str, ...]:
    return tuple(
        f"{amount} wrong elements from {source} to {to}" for (source, to), amount in ways.items()
    )
