"""From hosts to orders of training, and from answers to one run. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hwcheck.contract.reasons import Reason
from hwcheck.node.training.order import TrainingOrder
from hwcheck.node.training.strategies import load
from hwcheck.results.multi_host import left_over_by_host
from hwcheck.results.options import TrainingOptions
from hwcheck.results.training import GpuAtWork, TrainingRun
from hwcheck.results.transport import alike
from hwcheck.run.multi_host.blame import without_echoes
from hwcheck.run.multi_host.orders import Ready

LEGS: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "p2p_off": {"NCCL_P2P_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"},
    "net": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"},
}
"""The legs of a step, as those of the collectives. NCCL_P2P_DISABLE alone leaves NVLS on
(``collective.proof``)."""

CPU_RANKS = 2
MOST_CPU_RANKS = 64
"""On a host without a GPU nothing else bounds how many processes start there."""
SINGLE = "single"
DEADLINE_S = 7200.0
RANK = re.compile(r"rank (\d{1,6}): ")


@dataclass(frozen=True)
class TrainingCase:
    """A strategy under a leg on so many ranks."""

    strategy: str
    leg: str
    ranks: int
    sequences: int
    parity_sequences: int


def spread(hosts: Sequence[str], ready: Mapping[str, Ready], ranks: int) -> dict[str, list[int]]:
    """Return the devices of each host that so many ranks have; hosts in order, each alike.

    Raises ValueError, with the reason, where there are too few GPUs or they cannot be split alike.
    """
    if ranks == 1:
        return {hosts[0]: [0]}
    each, rest = divmod(ranks, len(hosts))
    if rest:
        raise ValueError(f"{ranks} ranks cannot be split alike over {len(hosts)} hosts")
    for host in hosts:
        gpus = ready[host].gpus
        if each > (gpus or MOST_CPU_RANKS):
            most = f"{gpus} GPUs" if gpus else f"no GPU: at most {MOST_CPU_RANKS}"
            raise ValueError(f"{each} ranks on {host}, which has {most}")
    return {host: list(range(each)) if ready[host].gpus else [0] * each for host in hosts}


def orders(
    number: int,
    launch: str,
    unit: TrainingCase,
    hosts: Sequence[str],
    ready: Mapping[str, Ready],
    options: TrainingOptions,
    repeats: int,
    parity_steps: int,
) -> dict[str, dict[str, Any]]:
    """Return each host's order; the ranks meet at the first host. Raises what ``spread`` does."""
    devices = spread(hosts, ready, unit.ranks)
    first = ready[hosts[0]]
    made, rank0 = {}, 0
    for host, here in devices.items():
        order = TrainingOrder(
            id=number,
            launch=launch,
            strategy=unit.strategy,
            rank0=rank0,
            world=unit.ranks,
            hosts=len(devices),
            devices=tuple(here),
            store=(first.address, first.port),
            model=options.model,
            sequences=unit.sequences,
            parity_sequences=unit.parity_sequences,
            micro_batch=options.micro_batch,
            parity_steps=parity_steps,
            warmup=options.warmup,
            steps=options.steps,
            repeats=repeats,
            dtype=options.dtype,
            tf32=options.tf32,
            leg=unit.leg,
            env=LEGS[unit.leg],
            start_s=options.start_s,
            silence_s=options.silence_s,
            deadline_s=DEADLINE_S,
        )
        made[host] = order.to_dict()
        rank0 += len(here)
    return made


def refused(unit: TrainingCase, hosts: Sequence[str], state: str, reason: str) -> TrainingRun:
    """Return the run of what is not started, for this reason."""
    return TrainingRun(tuple(hosts), unit.strategy, unit.leg, unit.ranks, state, reason[:4000])


def merged(
    unit: TrainingCase,
    order_by_host: Mapping[str, Mapping[str, Any]],
    answers: Mapping[str, Mapping[str, Any]],
    lost: Mapping[str, Reason],
) -> TrainingRun:
    """Put the answers to one set of orders together; ``lost`` hosts gave none, for that reason."""
    hosts = tuple(order_by_host)
    state, reasons = _outcome(answers, lost)
    unproven = [f"{host}: {a['unproven']}" for host, a in answers.items() if a["unproven"]]
    return TrainingRun(
        hosts=hosts,
        strategy=unit.strategy,
        leg=unit.leg,
        ranks=unit.ranks,
        state="unproven" if state == "done" and unproven else state,
        reason="; ".join(reasons or unproven)[:4000],
        degrees=load(unit.strategy).degrees(unit.ranks, len(hosts)),
        sequences=unit.sequences,
        parity_sequences=unit.parity_sequences,
        losses=_losses(answers),
        times_s=_times(answers, hosts),
        peak_bytes=tuple(peak for answer in answers.values() for peak in answer["peak_bytes"]),
        gpus=tuple(
            GpuAtWork(host, **gpu) for host, answer in answers.items() for gpu in answer["gpus"]
        ),
        library=next((a["library"] for a in answers.values() if a["library"]), ""),
        transport=next(
            (each.facts for each in alike({h: a["transport"] for h, a in answers.items()})), {}
        ),
        left_over=left_over_by_host({host: a["left_over"] for host, a in answers.items()}),
        logs={host: a["log_tail"] for host, a in answers.items() if a["log_tail"]},
        duration_s=max((answer["duration_s"] for answer in answers.values()), default=0.0),
    )


def _outcome(
    answers: Mapping[str, Mapping[str, Any]], lost: Mapping[str, Reason]
) -> tuple[str, list[str]]:
    """Return the state of a run over hosts, and why, by the hosts that it is due to.

    Where a host broke, the others wait for it or lose their connection to it. That is also how some
    see a hang, once another has ended its ranks.
    """
    by_state: dict[str, dict[str, str]] = {}
    for host, answer in answers.items():
        by_state.setdefault(answer["state"], {})[host] = answer["reason"]
    failed = by_state.pop("failed", {})
    broken = {host: answers[host] for host in failed}
    gone = {host: reason.text for host, reason in lost.items()}
    causes = (
        ("out_of_memory", by_state.get("out_of_memory", {})),
        ("failed", {**gone, **without_echoes(broken)}),
        ("hang", by_state.get("hang", {})),
        ("failed", failed),
    )
    state, reasons = next((cause for cause in causes if cause[1]), ("done", {}))
    return state, [f"{host}: {why}" for host, why in reasons.items()]


def compared(run: TrainingRun, expected: Sequence[float], tolerance: float) -> TrainingRun:
    """Hold a run's losses against those of one process: one that differs has no time."""
    run = replace(run, expected=tuple(expected))
    if run.state not in ("done", "unproven"):
        return replace(run, times_s=())
    count = min(len(run.losses), len(expected))
    off = [abs(one - other) / abs(other) for one, other in zip(run.losses, expected, strict=False)]
    if not count:
        reason = "no losses to compare with those of one process"
        return replace(run, state="failed", reason=reason, times_s=())
    if max(off) > tolerance:
        reason = (
            f"it computes something else: loss {run.losses[count - 1]:.6g} after {count} steps, "
            f"{expected[count - 1]:.6g} in one process; {max(off):.1g} off, {tolerance:g} allowed"
        )
        return replace(run, state="wrong_loss", reason=reason, times_s=())
    return replace(run, times_s=() if run.state == "unproven" else run.times_s)


def with_turn(run: TrainingRun, turn: TrainingRun) -> TrainingRun:
    """Add a further turn's times; one that did not end well ends the run as well."""
    if turn.state != "done":
        reason = f"in a repetition: {turn.reason}"[:4000]
        return replace(turn, reason=reason, losses=run.losses, expected=run.expected, times_s=())
    peaks = zip(run.peak_bytes, turn.peak_bytes, strict=False)
    return replace(
        run,
        times_s=run.times_s + turn.times_s,
        peak_bytes=tuple(max(pair) for pair in peaks),
        gpus=turn.gpus or run.gpus,
        duration_s=run.duration_s + turn.duration_s,
    )


def single(sequences: int, ranks: int) -> TrainingCase:
    """Return the unit of one GPU: the share of one rank is timed, the losses are those of all."""
    return TrainingCase(SINGLE, "default", 1, sequences // ranks, sequences)


def _losses(answers: Mapping[str, Mapping[str, Any]]) -> tuple[float, ...]:
    """Return the mean of what the ranks saw of each step: their shares are alike."""
    seen = [part["losses"] for answer in answers.values() for part in answer["losses"]]
    return tuple(sum(step) / len(step) for step in zip(*seen, strict=False))


def _times(
    answers: Mapping[str, Mapping[str, Any]], hosts: Sequence[str]
) -> tuple[tuple[float, ...], ...]:
    if len(answers) < len(hosts):
        return ()
    repeats = zip(*(answer["repeats"] for answer in answers.values()), strict=False)
    return tuple(
        tuple(max(step) for step in zip(*(each["times_s"] for each in parts), strict=False))
        for parts in repeats
    )
