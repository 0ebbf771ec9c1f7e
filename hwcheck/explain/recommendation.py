"""From logs of several legs of one node to NCCL settings, by the rules that judge a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwcheck.advise.nccl_evidence import NVL, OFF
from hwcheck.advise.nccl_settings import advise_nccl
from hwcheck.advise.records import NcclAdvice, Setting
from hwcheck.contract.wire import CheckResult, Leg, Report
from hwcheck.explain import comparable
from hwcheck.explain.legs import USUAL_ITERATIONS, legs_of
from hwcheck.explain.records import Benchmarks, Entry, TopologyMatrix
from hwcheck.results.run_folder import HostPlan, HostRecord, Run, RunMeta
from hwcheck.text import line

_NO_NVLINK = re.compile(
    r"\bGeForce RTX [45]0\d\d\b|\bRTX \d000 (?:SFF )?Ada\b|\bRTX PRO \d000\b"
    r"|\b(?:L4|L20|L40|L40S|A2|A10|A10G|A16|T4)\b"
)
"""Products without an NVLink connector (NVIDIA's data sheets of each)."""

NODE = "node"
"""What the files are of: they name no host."""


@dataclass(frozen=True)
class Recommendation:
    """Variables to set, and why these or none; ``reasons`` are lines for people."""

    env: Mapping[str, str]
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON types."""
        return {"env": dict(self.env), "reasons": list(self.reasons)}


def recommend(
    default: Sequence[Entry], legs: Mapping[str, Sequence[Entry]], topology: Sequence[Entry]
) -> Recommendation:
    """Return what the legs prove against the default; most often nothing to set.

    ``legs`` are the entries of each leg's file by its name, ``topology`` those of a file with
    ``nvidia-smi topo -m``: without it nobody knows whether P2P off would turn NVLinks off.
    """
    first = list(legs_of("default", _logs(default)))
    all_legs = list(first)
    for name, entries in legs.items():
        all_legs += legs_of(name, _logs(entries), first)
    matrix = next((each for each in topology if _shows_links(each)), None)
    matrix = matrix if isinstance(matrix, TopologyMatrix) else None
    sizes = {leg.ranks for leg in all_legs if leg.ranks}
    reasons = [*_input_notes(default, legs)]
    of_one_node = {"default": _logs(default)} | {
        name: _logs(of_leg) for name, of_leg in legs.items()
    }
    apart = list(comparable.problems(of_one_node))
    if not first or len(sizes) != 1:
        return Recommendation({}, (*_why_not(first, sizes), *apart, *reasons))
    if apart:
        return Recommendation({}, (f"leave unset: {'; '.join(apart)}", *reasons))
    (ranks,) = sizes
    links = _links(ranks, matrix) if matrix else _links_by_product(default, ranks)
    if links is None:
        what = "does not tell the NVLinks of these ranks" if topology else "is not given"
        reasons.append(f"the topology (nvidia-smi topo -m) {what}: P2P off may turn NVLinks off")
    advice, _ = advise_nccl(_run(all_legs, ranks, links))
    if not advice.settings and "nvlink_only" not in legs and matrix and matrix.nvlink == "some":
        without_p2p, _ = advise_nccl(_run(all_legs, ranks, [0] * ranks))
        advice = _without_pcie(advice, without_p2p)
    return Recommendation(
        {setting.name: setting.value for setting in advice.settings},
        (*_advice_lines(advice), *reasons),
    )


def _without_pcie(advice: NcclAdvice, without_p2p: NcclAdvice) -> NcclAdvice:
    """Return what keeps the NVLinks, where the legs speak against P2P on a node with both kinds.

    ``without_p2p`` is what they would say of a node without NVLink: where that is nothing to set,
    its reason is the one, since P2P that is slow over PCIe is no defect of the NVLinks.
    """
    if not without_p2p.settings:
        return without_p2p
    if [(each.name, each.value) for each in without_p2p.settings] != [OFF]:
        return advice
    reason = (
        "without P2P it is better, and NCCL_P2P_DISABLE=1 would turn off the NVLinks of this node "
        "as well; this takes P2P from PCIe only. " + without_p2p.settings[0].reason
    )
    summary = (
        f"set {'='.join(NVL)}, and confirm it: it was not measured here. Run the leg nvlink_only "
        "and give its log with --leg nvlink_only=FILE"
    )
    return NcclAdvice((Setting(*NVL, reason),), summary, advice.evidence)


def _logs(entries: Sequence[Entry]) -> list[Benchmarks]:
    return [entry for entry in entries if isinstance(entry, Benchmarks)]


def _has_rows(logs: Sequence[Benchmarks]) -> bool:
    return any(run.table.rows for log in logs for run in log.runs)


def _shows_links(entry: Entry) -> bool:
    return isinstance(entry, TopologyMatrix) and entry.nvlink is not None


def _advice_lines(advice: NcclAdvice) -> Iterator[str]:
    yield line(advice.summary, 1000)
    yield from (f"{setting.name}={setting.value}: {setting.reason}" for setting in advice.settings)
    yield from advice.evidence


def _why_not(first: Sequence[Leg], sizes: set[int]) -> Iterator[str]:
    if not first:
        yield "leave unset: the path holds no run of nccl-tests to compare the legs with"
    elif not sizes:
        yield "leave unset: no log says how many ranks it had"
    else:
        numbers = ", ".join(map(str, sorted(sizes)))
        yield f"leave unset: the logs are of different numbers of ranks ({numbers})"


def _input_notes(default: Sequence[Entry], legs: Mapping[str, Sequence[Entry]]) -> Iterator[str]:
    for name, entries in (("default", default), *legs.items()):
        logs = _logs(entries)
        if not logs:
            yield f"leg {name}: its file holds no run of nccl-tests"
        elif not any(log.info.transports for log in logs) and _has_rows(logs):
            yield (
                f"leg {name}: its log does not say which way the data went (NCCL_DEBUG=INFO), so "
                "the name of the leg is taken on trust"
            )
        yield from comparable.trusted(name, logs)
        clean = (run for log in logs for run in log.runs if run.state != "corrupt")
        for reason in dict.fromkeys(run.no_proof for run in clean if run.no_proof):
            yield f"leg {name}: its log is no proof of a clean run: {reason}"
        if any(run.table.rows and run.table.iterations is None for log in logs for run in log.runs):
            yield (
                f"leg {name}: its log does not say how often a size was timed; taken as "
                f"nccl-tests' usual {USUAL_ITERATIONS}"
            )
        if any(run.state == "unchecked" for log in logs for run in log.runs):
            yield f"leg {name}: nobody compared its data (-c 0); run it with -c 1"


def _run(legs: Sequence[Leg], ranks: int, links: Sequence[int] | None) -> Run:
    """Return a run of one host that reported these legs."""
    collectives = tuple(dict.fromkeys(leg.collective for leg in legs))
    results = tuple(
        CheckResult(name, "done", legs=tuple(leg for leg in legs if leg.collective == name))
        for name in collectives
    )
    report = Report({"hostname": NODE, "gpus": list(_gpus(ranks, links))}, results)
    meta = RunMeta(id="", started="", checks=collectives, hosts=(HostPlan(NODE, NODE),))
    return Run(Path(), meta, (HostRecord(NODE, "reported", report=report),))


def _gpus(ranks: int, links: Sequence[int] | None) -> Iterator[dict[str, Any]]:
    for index in range(ranks):
        gpu = {"index": index, "name": "GPU", "uuid": f"GPU{index}"}
        yield gpu if links is None else {**gpu, "nvlink_links": links[index]}


def _links(ranks: int, matrix: TopologyMatrix) -> list[int] | None:
    """Return the NVLinks of each rank's GPU; None where the matrix does not tell them.

    Of a part of the GPUs, or of several nodes, only all or none can be told.
    """
    if not matrix.complete and matrix.nvlink == "none":
        return None
    if matrix.nvlink == "none":
        return [0] * ranks
    if ranks != len(matrix.gpus):
        return [1] * ranks if matrix.nvlink == "all" else None
    ways = ([matrix.way(gpu, other) for other in matrix.gpus] for gpu in matrix.gpus)
    return [sum(int(way[2:]) for way in row if way.startswith("NV")) for row in ways]


def _links_by_product(default: Sequence[Entry], ranks: int) -> list[int] | None:
    """Return no NVLinks where every GPU that the logs list is of a product that has none."""
    devices = [
        device.name
        for log in _logs(default)
        for run in log.runs
        for device in run.table.devices.values()
    ]
    return [0] * ranks if devices and all(map(_NO_NVLINK.search, devices)) else None
