"""Split a set of hosts that is slow, wrong or hangs until the host or the link is named.

Pure: whoever calls it says how a set of hosts is measured. One bad host among n takes at most
2 log2(n) + 6 runs. A bad link shows only where both its hosts are, and takes up to 4 log2(n) + 2.
Every further culprit adds about as many.

Where both halves of a set are fine and the whole is not, mixed halves decide: half of one with half
of the other. One of them bad leads to a link; all of them bad is the fabric between the halves, and
no host (NVIDIA Cluster Readiness Engine, Adaptive Fault Isolation, Cross-boundary probing); none
bad is what only the size brings out. So are hosts that are bad with all others and fine together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hwcheck.contract.reasons import NOT_PINNED, Reason
from hwcheck.results.multi_host import Suspect, fabric_between, worst_kind
from hwcheck.run.multi_host.trials import Hosts, Measure, Share, Trials


@dataclass(frozen=True)
class Culprits:
    """What a search came to: suspects, and in lines what could not be pinned on anybody."""

    suspects: tuple[Suspect, ...]
    unresolved: tuple[Reason, ...]
    runs: int


def bisect(
    hosts: Sequence[str],
    measure: Measure,
    reference_gbps: float = 0.0,
    share: Share = lambda _: 1.0,
) -> Culprits:
    """Name what makes these hosts slow, wrong or hang; nothing when they are fine.

    ``reference_gbps`` is the busbw that these hosts are known to reach; without it, the best of
    the runs made here stands for it, and a fault in either half of them can hide the other.
    ``share`` is as for ``Trials``.
    """
    search = _Bisection(Trials(measure, reference_gbps, (), share))
    search.look(list(hosts), compare=not reference_gbps)
    return Culprits(tuple(search.suspects()), tuple(search.unresolved), search.trials.runs)


class _Bisection:
    def __init__(self, trials: Trials) -> None:
        self.trials = trials
        self.unresolved: list[Reason] = []
        self._hosts: list[str] = []
        self._links: list[tuple[str, str]] = []
        self._open: list[Hosts] = []

    def look(self, hosts: list[str], *, compare: bool) -> None:
        """Search hosts; with ``compare`` parts of them show what they could reach."""
        self.trials.run(hosts)
        if compare and len(hosts) > 3:
            for half in _halves(hosts):
                self.trials.run(half)
        elif compare and len(hosts) == 3:
            for left_out in hosts:
                self.trials.run(name for name in hosts if name != left_out)
        if self.trials.bad(hosts):
            self._find(hosts, [])

    def suspects(self) -> list[Suspect]:
        """Return who is accused, after a second look at each."""
        by_hosts: dict[tuple[str, ...], Suspect] = {}
        trials = self.trials
        for pair in self._open:  # two hosts that are bad together, with no third at hand then
            fine = [name for name in pair if not self._bad_with_good(name, pair)]
            if len(fine) == 2 and trials.good(pair):
                self._links.append((pair[0], pair[1]))
            elif len(fine) == 2 or not trials.good(pair):
                self._not_pinned(
                    f"{' and '.join(pair)}: {trials.kind(pair)}; one of them or their link, "
                    "there is no third host to tell by"
                )
            self._hosts += [name for name in pair if name not in fine]
        for host in self._hosts:
            accused = trials.confirm(host, [name for name in self._hosts if name != host])
            if not accused:
                self._not_pinned(f"{host}: not seen again with known-good partners")
            by_hosts.update((tuple(sorted(suspect.hosts)), suspect) for suspect in accused)
        apart = [name for name in self._hosts if (name,) in by_hosts]
        if len(apart) > 1 and not trials.bad(apart):
            kind = worst_kind(by_hosts.pop((name,)).kind for name in apart)
            self._fabric(apart, trials.good(apart), kind)
        for one, other in self._links:
            accused = trials.confirm_link(one, other)
            if not accused:
                self._not_pinned(f"{one} with {other}: not seen again, the two alone")
            by_hosts.update((tuple(sorted(suspect.hosts)), suspect) for suspect in accused)
        return list(by_hosts.values())

    def _bad_with_good(self, host: str, pair: Hosts) -> bool:
        partners = self.trials.good(pair)
        return bool(partners) and self.trials.bad((host, partners[0]))

    def _find(self, hosts: list[str], pad: list[str]) -> None:
        """Search hosts that are bad together with ``pad``, one known-good host or none."""
        if len(hosts) == 1:
            self._hosts += hosts
            return
        pad = pad or self.trials.good(hosts)[:1]
        if not pad and len(hosts) < 4:
            self._find_among_few(hosts)
            return
        left, right = _halves(hosts)
        for half in (left, right):
            self.trials.run([*half, *pad])
        bad = [half for half in (left, right) if self.trials.bad([*half, *pad])]
        if not bad:
            self._find_between(left, right, pad)
        elif len(bad) == 1:
            other = right if bad[0] is left else left
            self._find(bad[0], pad or other[:1])
        else:
            for half in bad:
                self._find(half, pad)

    def _find_among_few(self, hosts: list[str]) -> None:
        """Search two or three hosts that are bad together and of whom none is known to be good."""
        if len(hosts) == 2:
            self._open.append(tuple(hosts))
            return
        pairs = [(hosts[0], hosts[1]), (hosts[0], hosts[2]), (hosts[1], hosts[2])]
        for pair in pairs:
            self.trials.run(pair)
        bad = [pair for pair in pairs if self.trials.bad(pair)]
        if len(bad) == 1:
            self._links += bad
        elif len(bad) == 2:
            self._hosts += set(bad[0]) & set(bad[1])
        elif bad:
            self._open += bad
        else:
            self._together(hosts)

    def _find_between(self, left: list[str], right: list[str], pad: list[str]) -> None:
        """Search two sets each of which is fine: it takes hosts of both."""
        if len(left) == len(right) == 1:
            self._links.append((left[0], right[0]))
            return
        parts, others = _parts(left), _parts(right)
        crossed = [(part, other) for part in parts for other in others]
        straight = [(parts[0], others[0]), (parts[-1], others[-1])]
        bad = self._bad_of(straight, pad)
        if len(bad) != 1:
            bad += self._bad_of([mixed for mixed in crossed if mixed not in straight], pad)
        if len(bad) == len(crossed):
            self._fabric(left, right, self.trials.kind([*left, *right, *pad]))
        for part, other in bad if len(bad) < len(crossed) else ():
            self._find_between(part, other, pad)
        if not bad:
            self._together([*left, *right])

    def _bad_of(
        self, mixed: list[tuple[list[str], list[str]]], pad: list[str]
    ) -> list[tuple[list[str], list[str]]]:
        for part, other in mixed:
            self.trials.run([*part, *other, *pad])
        return [each for each in mixed if self.trials.bad([*each[0], *each[1], *pad])]

    def _fabric(self, left: Sequence[str], right: Sequence[str], kind: str) -> None:
        self.unresolved.append(fabric_between((left, right), kind))

    def _not_pinned(self, text: str) -> None:
        self.unresolved.append(Reason(NOT_PINNED, text))

    def _together(self, hosts: Sequence[str]) -> None:
        self._not_pinned(
            f"{', '.join(hosts)}: {self.trials.kind(hosts)} together and fine in parts; look at "
            "what connects them (a switch, an oversubscribed uplink)"
        )


def _parts(hosts: list[str]) -> list[list[str]]:
    """Return both halves of some hosts, or a single one."""
    return list(_halves(hosts)) if len(hosts) > 1 else [hosts]


def _halves(hosts: list[str]) -> tuple[list[str], list[str]]:
    middle = len(hosts) // 2
    return hosts[:middle], hosts[middle:]
