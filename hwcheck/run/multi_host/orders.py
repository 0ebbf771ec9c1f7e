"""From hosts to orders, and from answers to one run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hwcheck.contract.busbw import busbw_factor
from hwcheck.contract.collective_spec import CollectiveSpec
from hwcheck.contract.reasons import SILENT, Reason
from hwcheck.node.collective.timing import quantile
from hwcheck.results.multi_host import MultiHostRun, MultiHostTiming, Suspect, left_over_by_host
from hwcheck.results.options import MultiHostOptions
from hwcheck.results.transport import alike
from hwcheck.run.multi_host import blame

MIB = 1024 * 1024
VERIFIED = 2


@dataclass(frozen=True)
class Sizing:
    """What is measured and how long it may take.

    ``floor_gbps`` is a bandwidth in 1e9 B/s below which a run counts as hanging, ``start_s`` what
    their start together may take. With ``keep_log`` the hosts' logs keep all that the ranks print.
    ``env`` is set beside the leg's variables.
    """

    pair_sizes: tuple[int, ...]
    whole_sizes: tuple[int, ...]
    floor_gbps: float
    start_s: float
    warmups: int = 1
    iterations: int = 5
    collective: str = "all_reduce"
    dtype: str = "float"
    leg: str = "default"
    keep_log: bool = False
    env: Mapping[str, str] = field(default_factory=dict)

    def deadline_s(self, sizes: Sequence[int]) -> float:
        """Return the seconds after which a run of these sizes hangs."""
        runs = self.warmups + self.iterations + VERIFIED
        # all_reduce moves up to twice its size, and an exchange may follow.
        moved = sum(2 * size * runs for size in sizes) + 2 * MIB
        return self.start_s + moved / (self.floor_gbps * 1e9)


NCCL = Sizing(
    (256 * MIB,),
    (MIB, 32 * MIB, 256 * MIB, 1024 * MIB),
    floor_gbps=0.1,
    start_s=CollectiveSpec.start_s,
)
GLOO = Sizing((MIB,), (MIB,), floor_gbps=0.004, start_s=30.0)
"""gloo over the CPUs is an exercise: small, so that it costs little."""


def sizing_of(options: MultiHostOptions, usual: Sizing) -> Sizing:
    """Return a backend's sizing with what is asked in it."""
    return replace(
        usual,
        pair_sizes=options.sizes[-1:] or usual.pair_sizes,
        whole_sizes=options.sizes or usual.whole_sizes,
        iterations=usual.iterations if options.iterations is None else options.iterations,
        warmups=usual.warmups if options.warmups is None else options.warmups,
        dtype=options.dtype,
        leg=options.leg or usual.leg,
    )


@dataclass(frozen=True)
class Ready:
    """A participant as it said that it is: where its store is, its GPUs and their model, its NICs.

    ``settings`` are the NCCL variables in force there: name, value, origin. ``interface_gbps`` is
    the rate of the interface, in Gb/s, None where the kernel does not know it. ``nvlink_domain`` is
    the fabric over several hosts that all of its GPUs are in, and the clique; empty without one.
    ``torch`` is its version where the session trains.
    """

    address: str
    port: int
    interface: str
    gpus: int
    model: str = ""
    rdma_ports: int = 0
    rdma_active: int = 0
    settings: tuple[tuple[str, str, str], ...] = ()
    interface_gbps: float | None = None
    nvlink_domain: str = ""
    torch: str = ""

    @property
    def kind(self) -> str:
        """What hosts have in common that can be compared."""
        gpus = f"{self.gpus} x {self.model or 'GPU'}" if self.gpus else "no GPU"
        return f"{gpus}, {self.rdma_ports} RDMA ports"


def orders(
    number: int,
    hosts: Sequence[str],
    ready: Mapping[str, Ready],
    sizes: Sequence[int],
    sizing: Sizing,
    device: int | None = None,
) -> dict[str, dict[str, Any]]:
    """Return each host's order; the ranks meet at the first host.

    A host has one rank for each of its GPUs, one where it has none; with ``device`` that GPU only.
    """
    devices = {
        host: [device] if device is not None else list(range(ready[host].gpus)) or [0]
        for host in hosts
    }
    world, made, rank0 = sum(map(len, devices.values())), {}, 0
    first = ready[hosts[0]]
    for host in hosts:
        made[host] = {
            "id": number,
            "collective": sizing.collective,
            "rank0": rank0,
            "world": world,
            "devices": devices[host],
            "store": [first.address, first.port],
            "sizes": list(sizes),
            "deadline_s": sizing.deadline_s(sizes),
            "warmups": sizing.warmups,
            "iterations": sizing.iterations,
            "dtype": sizing.dtype,
            "leg": sizing.leg,
            "keep_log": sizing.keep_log,
            "env": dict(sizing.env),
        }
        rank0 += len(devices[host])
    return made


def merged(
    why: str,
    round_: int,
    order_by_host: Mapping[str, Mapping[str, Any]],
    answers: blame.Answers,
    lost: Mapping[str, Reason],
) -> MultiHostRun:
    """Put the answers to one set of orders together; ``lost`` hosts gave none, for that reason."""
    rank_hosts = [host for host, order in order_by_host.items() for _ in order["devices"]]
    states = [answer["state"] for answer in answers.values()]
    # A host that is silent may still be there, against one that ended its visit.
    kinds = {host: "hang" if why.code == SILENT else "failed" for host, why in lost.items()}
    blamed = [Suspect((host,), kinds[host], (f"{host}: {lost[host]}",), True) for host in lost]
    first = next(iter(order_by_host.values()))
    factor = busbw_factor(first["collective"], len(rank_hosts))
    state, sizes = "done", tuple(_sizes(answers, factor))
    if "hang" in [*states, *kinds.values()]:
        state = "hang"
        blamed = blamed or blame.of_state(answers)
        blamed = blamed or blame.of_failure(answers) or blame.of_hang(answers)
    elif lost or "failed" in states:
        state, blamed = "failed", blamed or blame.of_failure(answers)
    else:
        blamed = blame.of_wrong(answers, rank_hosts)
        state = "done" if len(sizes) == len(first["sizes"]) else "failed"
    reasons = [f"{host}: {text}" for host, text in lost.items()]
    reasons += [
        f"{host}: {answer['reason']}" for host, answer in answers.items() if answer["reason"]
    ]
    return MultiHostRun(
        why=why,
        round=round_,
        hosts=tuple(order_by_host),
        collective=first["collective"],
        ranks=len(rank_hosts),
        state=state,
        reason="; ".join(reasons)[:4000],
        library=next((a["library"] for a in answers.values() if a["library"]), ""),
        sizes=sizes,
        blamed=tuple(blamed),
        left_over=left_over_by_host({host: a["left_over"] for host, a in answers.items()}),
        logs={host: a["log_tail"] for host, a in answers.items() if a["log_tail"]},
        duration_s=max((answer["duration_s"] for answer in answers.values()), default=0.0),
        dtype=first["dtype"],
        transport=alike({host: answer["transport"] for host, answer in answers.items()}),
    )


def _sizes(answers: blame.Answers, factor: float) -> list[MultiHostTiming]:
    """Return the figures of each size that every host measured with as many iterations."""
    by_size: dict[int, list[Mapping[str, Any]]] = {}
    for answer in answers.values():
        for size in answer["sizes"]:
            by_size.setdefault(size["size_bytes"], []).append(size)
    made = []
    for size_bytes, parts in sorted(by_size.items()):
        counts = {len(part["times_us"]) for part in parts}
        if len(parts) < len(answers) or len(counts) != 1:
            continue
        times = [max(each) for each in zip(*(part["times_us"] for part in parts), strict=True)]
        median = quantile(times, 0.5)
        algbw, best = (size_bytes / time_us / 1e3 for time_us in (median, min(times)))
        made.append(
            MultiHostTiming(
                size_bytes=size_bytes,
                iterations=len(times),
                time_us=median,
                spread=(quantile(times, 0.75) - quantile(times, 0.25)) / median,
                algbw_gbps=algbw,
                busbw_gbps=algbw * factor,
                best_gbps=best * factor,
                wrong=sum(part["wrong"] for part in parts),
            )
        )
    return made
