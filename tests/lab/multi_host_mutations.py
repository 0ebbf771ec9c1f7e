"""What can be wrong with runs over several hosts: of one host, of a link, of a rail, of all.

Five healthy hosts meet in pairs, all together and rail by rail. The runs are simulated, and the
search for a culprit, the judge and the advice are the real ones. A change is one of every run that
it concerns, as of a fault that stays, or of the first such run only (``once``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hwcheck.advise.assessment import assess
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import Sample
from hwcheck.judge.records import MULTI_HOST, Finding
from hwcheck.results.multi_host import MultiHostRecord, MultiHostRun, MultiHostTiming, Transport
from hwcheck.results.run_folder import HostRecord
from hwcheck.run.multi_host.orders import NCCL, Sizing
from hwcheck.run.multi_host.scope_runner import ScopeRunner
from hwcheck.testing.cases import answer_of
from tests.judge.test_fabric import host, rdma, run_of
from tests.lab.mutation import Mutation
from tests.run.multi_host.fake_participants import FakeMembers
from tests.run.multi_host.planted import Fleet

FLEET = "five_hosts"
"""The name that these changes stand under beside those of the scenarios."""
HOSTS = ("n1", "n2", "n3", "n4", "n5")
CHANGED, OTHER = HOSTS[:2]
RAIL = 3
PORTS = 8
SCOPES = ("pairs", "all", "rails")
GBPS, RAIL_GBPS = 360.0, 45.0
SCATTER = 0.01
LIBRARY = "NCCL 2.27.5"
MIB = 1 << 20
LEFT_OVER = {CHANGED: (Reason("stuck", "rank 3 (pid 41234) does not die"),)}

Change = Callable[[MultiHostRun], MultiHostRun]
Concerns = Callable[[MultiHostRun, "int | None"], bool]


class Members(FakeMembers):
    """Hosts whose runs are healthy, but for a change of those that it concerns."""

    def __init__(self, change: Change, concerns: Concerns, once: bool) -> None:
        super().__init__(Fleet({}), HOSTS, gpus=dict.fromkeys(HOSTS, PORTS))
        self.ready = {
            name: replace(ready, rdma_ports=PORTS, rdma_active=PORTS, interface_gbps=100.0)
            for name, ready in self.ready.items()
        }
        self._change, self._concerns, self._once = change, concerns, once
        self._dice = random.Random(3)
        self._sizing, self._sizes, self._device = NCCL, (MIB,), None

    def run(
        self,
        why: str,
        round_: int,
        groups: Sequence[Sequence[str]],
        sizes: Sequence[int],
        sizing: Sizing,
        device: int | None = None,
    ) -> list[MultiHostRun]:
        self._sizing, self._sizes, self._device = sizing, tuple(sizes), device
        return super().run(why, round_, groups, sizes, sizing, device)

    def _one(self, why: str, round_: int, hosts: tuple[str, ...]) -> MultiHostRun:
        busbw = GBPS if self._device is None else RAIL_GBPS
        busbw *= 1 + self._dice.uniform(-SCATTER, SCATTER)
        of_gpus = sum(self.ready[name].gpus for name in hosts)
        ranks = of_gpus if self._device is None else len(hosts)
        timings = (
            MultiHostTiming(size, 20, size / busbw / 1e3, 0.02, busbw, busbw, busbw * 1.01, 0)
            for size in self._sizes
        )
        run = MultiHostRun(
            *(why, round_, hosts, self._sizing.collective, ranks, "done"),
            library=LIBRARY,
            sizes=tuple(timings),
            duration_s=9.0,
            transport=(Transport(hosts, rdma(PORTS, channels=16)),),
        )
        if not self._concerns(run, self._device):
            return run
        if self._once:
            self._concerns = _none
        return self._change(run)


def _none(run: MultiHostRun, device: int | None) -> bool:
    return False


PLACES: Mapping[str, Concerns] = {
    "host": lambda run, device: CHANGED in run.hosts,
    "link": lambda run, device: {CHANGED, OTHER} <= set(run.hosts),
    "rail": lambda run, device: device == RAIL,
    "whole set": lambda run, device: device is None and set(run.hosts) == set(HOSTS),
    "all": lambda run, device: True,
    "once": lambda run, device: CHANGED in run.hosts,
}


def _sizes(change: Callable[[MultiHostTiming], MultiHostTiming]) -> Change:
    return lambda run: replace(run, sizes=tuple(map(change, run.sizes)))


def _slower(by: float) -> Change:
    def changed(size: MultiHostTiming) -> MultiHostTiming:
        of = {name: getattr(size, name) / by for name in ("algbw_gbps", "busbw_gbps", "best_gbps")}
        return replace(size, time_us=size.time_us * by, **of)

    return _sizes(changed)


def _transport(everywhere: bool = False, **changes: Any) -> Change:
    """Return a change of what NCCL names on the changed host, or where it has no part on all."""

    def changed(run: MultiHostRun) -> MultiHostRun:
        usual = run.transport[0].facts
        rest = {key.replace("_to_", "/"): of for key, of in changes.items()}
        facts = {key: of for key, of in {**usual, **rest}.items() if of is not None}
        one = tuple(name for name in run.hosts if name == CHANGED)
        here = run.hosts if everywhere else one or run.hosts
        others = tuple(name for name in run.hosts if name not in here)
        ways = (Transport(here, facts), *([Transport(others, usual)] if others else []))
        return replace(run, transport=ways)

    return changed


RUNS: Mapping[str, Change] = {
    "state = hang": lambda run: replace(run, state="hang", sizes=(), reason="no sign of life"),
    "state = failed": lambda run: replace(run, state="failed", sizes=(), reason="exit code 1"),
    "wrong elements = 1": _sizes(lambda size: replace(size, wrong=1)),
    "time = 10 times": _slower(10),
    "time = twice": _slower(2),
    "time = 1.25 times": _slower(1.25),
    "best time = 10 times": _sizes(lambda size: replace(size, best_gbps=size.best_gbps / 10)),
    "busbw = 0": _sizes(lambda size: replace(size, busbw_gbps=0.0, best_gbps=0.0, algbw_gbps=0.0)),
    "spread = 0.8": _sizes(lambda size: replace(size, spread=0.8)),
    "sizes = none": lambda run: replace(run, sizes=()),
    "sizes = the last missing": lambda run: replace(run, sizes=run.sizes[:-1]),
    "ranks = one less": lambda run: replace(run, ranks=run.ranks - 1),
    "library = NCCL 2.18.3": lambda run: replace(run, library="NCCL 2.18.3"),
    "library = none": lambda run: replace(run, library=""),
    "dtype = bfloat16": lambda run: replace(run, dtype="bfloat16"),
    "duration = 500 s": lambda run: replace(run, duration_s=500.0),
    "left over = a process": lambda run: replace(run, left_over=LEFT_OVER),
    "transport = not told": lambda run: replace(run, transport=()),
    "transport = sockets": _transport(NET_to_IB=None, NET_to_Socket=16, gdrdma=False,
                                      network="Socket eth0"),
    "transport = without GPUDirect": _transport(gdrdma=False),
    "transport = one port": _transport(network="IB mlx5_0:1/IB"),
    "transport = 1 channel": _transport(channels=1),
}  # fmt: skip


EVERYWHERE: Mapping[str, Change] = {
    "transport = sockets on every host": _transport(
        True, NET_to_IB=None, NET_to_Socket=16, gdrdma=False, network="Socket eth0"
    ),
    "transport = without GPUDirect on every host": _transport(True, gdrdma=False),
    "transport = one port on every host": _transport(True, network="IB mlx5_0:1/IB"),
}


def _absent(members: Members) -> None:
    members.absent[CHANGED] = Reason("silent", "no sign of life")


def _ready(**changes: Any) -> Callable[[Members], None]:
    def changed(members: Members) -> None:
        members.ready[CHANGED] = replace(members.ready[CHANGED], **changes)

    return changed


JOINED: Mapping[str, Callable[[Members], None]] = {
    "host = absent": _absent,
    "host = no GPU": _ready(gpus=0),
    "host = seven GPUs": _ready(gpus=7),
    "host = its loopback address": _ready(address="127.0.0.1"),
    "host = no active port": _ready(rdma_active=0),
    "host = an interface of 1 Gb/s": _ready(interface_gbps=1.0),
    "host = NCCL_ALGO left over": _ready(settings=(("NCCL_ALGO", "Tree", "/etc/nccl.conf"),)),
}
"""What a host says of itself before the first run."""


def _unchanged(run: MultiHostRun) -> MultiHostRun:
    return run


def _as_it_is(members: Members) -> None:
    """Leave what the hosts say of themselves."""


@dataclass(frozen=True)
class FleetChange:
    """A change of the runs, or of what a host says of itself."""

    mutation: Mutation
    runs: Change = _unchanged
    concerns: Concerns = _none
    once: bool = False
    joined: Callable[[Members], None] = _as_it_is


def of_fleet() -> Iterator[FleetChange]:
    """Yield every change of the healthy hosts."""
    for title, change in RUNS.items():
        quantity, _, words = title.partition(" = ")
        for place, concerns in PLACES.items():
            mutation = Mutation(f"multi_host.{quantity}", f"{words}, {place}", place)
            yield FleetChange(mutation, change, concerns, place == "once")
    for title, change in EVERYWHERE.items():
        quantity, _, words = title.partition(" = ")
        mutation = Mutation(f"multi_host.{quantity}", words, "all")
        yield FleetChange(mutation, change, PLACES["all"])
    for title, joined in JOINED.items():
        quantity, _, words = title.partition(" = ")
        yield FleetChange(Mutation(f"multi_host.{quantity}", words, "one"), joined=joined)


def hosts() -> list[HostRecord]:
    """Return what each of the hosts says of its ports and the ways between its GPUs."""
    return [_with_gpudirect(host(name, ports=PORTS)) for name in HOSTS]


def _with_gpudirect(record: HostRecord) -> HostRecord:
    """Return a host whose driver offers GPUDirect RDMA, with a port at each GPU's switch."""
    assert record.report is not None
    near = tuple(Sample("nic_path", "PIX", "", f"gpu{n}-mlx5_{n}") for n in range(PORTS))
    results = [
        replace(each, samples=(*each.samples, *near)) if each.check == "topology" else each
        for each in record.report.results
    ]
    results.append(answer_of("peermem", {"gpudirect_rdma": True}, shipped().checks))
    return replace(record, report=replace(record.report, results=tuple(results)))


@dataclass(frozen=True)
class SeenFleet:
    """What came of a change: all that is no pass, the first action, what was recorded.

    The fabric between hosts, by which the run fails and no host, is a finding of none.
    """

    findings: tuple[Finding, ...]
    action: str
    record: MultiHostRecord


def see(change: FleetChange, folder: Path) -> SeenFleet:
    """Run the scopes over hosts with this change, and judge what came of it."""
    members = Members(change.runs, change.concerns, change.once)
    change.joined(members)
    runner = ScopeRunner(members, SCOPES, folder, lambda text: None, NCCL)  # type: ignore[arg-type]
    record = runner.run()
    assessment = assess(run_of(hosts()), shipped(), record)
    judgement = assessment.judgement
    worse = [each for each in judgement.findings if each.outcome != "pass"]
    worse += [Finding("", MULTI_HOST, "fail", reason=text) for text in judgement.fabric]
    actions = [each.title for each in assessment.advice.actions if each.check == MULTI_HOST]
    return SeenFleet(tuple(worse), (actions or [""])[0], record)
