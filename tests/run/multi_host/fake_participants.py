"""Members whose runs come from a planted fleet: no host, no process."""

from __future__ import annotations

from collections.abc import Sequence

from hwcheck.contract.reasons import Reason
from hwcheck.results.multi_host import MultiHostOutcome, MultiHostRun, MultiHostTiming, Suspect
from hwcheck.run.multi_host.orders import Ready, Sizing
from hwcheck.run.multi_host.participants import RunStoppedError
from tests.run.multi_host.planted import Fleet

MIB = 1024 * 1024


def multi_host_run(
    why: str, hosts: Sequence[str], outcome: MultiHostOutcome, **changes: object
) -> MultiHostRun:
    """Return a run that comes to this outcome."""
    state = "done" if outcome.kind in ("ok", "wrong") else outcome.kind
    figures = (0.02, outcome.busbw_gbps, outcome.busbw_gbps, outcome.best_gbps)
    size = MultiHostTiming(MIB, 5, 100.0, *figures, wrong=int(outcome.kind == "wrong"))
    fields = {"round": 0, "collective": "all_reduce", "ranks": len(hosts), **changes}
    sizes = (size,) if state == "done" else ()
    return MultiHostRun(why=why, hosts=tuple(hosts), state=state, sizes=sizes, **fields)  # type: ignore[arg-type]


class FakeMembers:
    """Implements what ``Session`` uses of ``Members``.

    ``stands_still`` is a host whose rank a hanging run names; ``goes_at`` a host that is lost in
    the run of that number, ``stops_at`` the number of the run in which the operator stops.
    """

    def __init__(
        self,
        fleet: Fleet,
        hosts: Sequence[str],
        *,
        gpus: dict[str, int] | None = None,
        stands_still: str = "",
        goes_at: tuple[str, int] = ("", 0),
        stops_at: int = 0,
    ) -> None:
        self.fleet = fleet
        self.ready = {
            name: Ready("10.0.0.1", 5, "eth0", (gpus or {}).get(name, 0)) for name in hosts
        }
        self.absent: dict[str, Reason] = {}
        self.stopped = False
        self.asked: list[tuple[str, tuple[str, ...], tuple[int, ...], int | None]] = []
        self._stands_still = stands_still
        self._goes_at = goes_at
        self._stops_at = stops_at

    @property
    def present(self) -> tuple[str, ...]:
        return tuple(name for name in self.ready if name not in self.absent)

    def run(
        self,
        why: str,
        round_: int,
        groups: Sequence[Sequence[str]],
        sizes: Sequence[int],
        sizing: Sizing,
        device: int | None = None,
    ) -> list[MultiHostRun]:
        made = []
        for group in groups:
            assert set(group) <= set(self.present), "nobody asks a host that is gone"
            self.asked.append((why, tuple(group), tuple(sizes), device))
            made.append(self._one(why, round_, tuple(group)))
        if self._stops_at and len(self.asked) >= self._stops_at:
            self.stopped = True
            raise RunStoppedError
        return made

    def _one(self, why: str, round_: int, hosts: tuple[str, ...]) -> MultiHostRun:
        name, number = self._goes_at
        if name in hosts and len(self.asked) >= number:
            self.absent[name] = Reason("silent", "no sign of life")
            blamed = (Suspect((name,), "hang", (f"{name}: no sign of life",), True),)
            return multi_host_run(why, hosts, MultiHostOutcome("hang"), round=round_, blamed=blamed)
        outcome = self.fleet.measure(hosts)
        blamed = ()
        if outcome.kind == "hang" and self._stands_still in hosts:
            evidence = (f"rank 0 on {self._stands_still} is stopped",)
            blamed = (Suspect((self._stands_still,), "hang", evidence, True),)
        return multi_host_run(why, hosts, outcome, round=round_, blamed=blamed)
