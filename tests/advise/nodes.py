"""Nodes for the tests of diagnosis, from what a case file says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from hwcheck.advise.catalogue import shipped
from hwcheck.advise.causes import diagnose
from hwcheck.advise.records import Causes
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import CheckResult, Leg
from hwcheck.judge.judge import judge
from hwcheck.judge.past import Past, figures, joined
from hwcheck.results.run_folder import HostPlan, HostRecord, Run
from hwcheck.testing.cases import answer_of
from tests import factories
from tests.judge.nodes import H100, pcie, topology

GPUS = 2
KEYS = {
    *("doc", "confidence", "explains", "observed", "first"),  # what must come of it
    *("samples", "unmeasured", "legs", "path", "link_gbps", "gpus", "expect"),  # what the node is
    *("ports", "cpu", "absent", "beside", "others", "former"),
}


def address(gpu: int) -> str:
    """Return where a GPU of these nodes is on the bus."""
    return f"0000:{0x18 + 8 * gpu:02x}:00.0"


def record_of(host: str, case: Mapping[str, Any]) -> HostRecord:
    """Return a node, of two GPUs where ``gpus`` does not say otherwise.

    ``samples`` by check and metric: a value of the node, or values by subject. ``path`` is the way
    between the GPUs, ``legs`` those of all_reduce, ``unmeasured`` the reasons of checks that could
    not be measured, ``absent`` those of checks that do not apply. ``ports`` are active RDMA ports
    by device: ``{gbps: 400, layer: InfiniBand, near: {gpu0: PIX}}``, or the number alone. ``cpu``
    is the vendor. ``beside`` is a host of which the run has four more.
    """
    gpus = case.get("gpus", GPUS)
    samples = {**case.get("samples", {})}
    for check, metrics in _of_ports(case.get("ports", {})).items():
        samples[check] = {**samples.get(check, {}), **metrics}
    answers = [answer_of(check, metrics, shipped().checks) for check, metrics in samples.items()]
    answers += [
        CheckResult(check, "could_not_measure", Reason.from_json(reason))
        for check, reason in case.get("unmeasured", {}).items()
    ]
    answers += [
        CheckResult(check, "not_applicable", Reason.from_json(reason))
        for check, reason in case.get("absent", {}).items()
    ]
    if "path" in case:
        way = topology(gpus, case["path"], link_gbps=case.get("link_gbps", 26.5625))
        by_check = {answer.check: answer for answer in answers}
        if "topology" in by_check:
            way = replace(way, samples=(*way.samples, *by_check["topology"].samples))
        answers = [answer for answer in answers if answer.check != "topology"] + [way]
        if not any(answer.check == "pcie_link" for answer in answers):
            answers.append(pcie(gpus, 4))
    if "legs" in case:
        answers.append(factories.reduce_result([_leg(each, gpus) for each in case["legs"]]))
    facts = [
        {**gpu, "pci_address": address(gpu["index"])} for gpu in factories.gpu_facts(gpus, H100)
    ]
    made = factories.record(host, answers, gpus=facts)
    if "cpu" not in case or made.report is None:
        return made
    facts = {**made.report.facts, "cpu_vendor": case["cpu"]}
    return replace(made, report=replace(made.report, facts=facts))


def diagnosed(*hosts: tuple[str, Mapping[str, Any]]) -> Causes:
    """Judge and diagnose some nodes as one run."""
    beside = [case["beside"] for _, case in hosts if "beside" in case]
    run = run_of(*hosts, *((f"like{n}", case) for case in beside for n in range(4)))
    return diagnose(run, judge(run, shipped(), past=joined(former_runs(*hosts))), shipped().rules)


def former_runs(*hosts: tuple[str, Mapping[str, Any]]) -> Iterator[Past]:
    """Yield the figures of the nights before: ``former`` has one value of each, as in ``samples``.

    Of a list there is one for each night.
    """
    nights = max((_nights(case.get("former", {})) for _, case in hosts), default=0)
    for night in range(nights):
        then = [
            (host, {**case, "samples": _of_night(case["former"], night)}) for host, case in hosts
        ]
        run = run_of(*then)
        started = datetime(2026, 1, 31, 2, tzinfo=timezone.utc) - timedelta(days=nights - night)
        meta = replace(run.meta, id=f"n{night}", started=f"{started:%Y-%m-%dT%H:%M:%SZ}")
        yield figures(replace(run, meta=meta), shipped().checks)


def _nights(values: Any) -> int:
    if isinstance(values, Mapping):
        return max(map(_nights, values.values()), default=0)
    return len(values) if isinstance(values, list) else 0


def _of_night(values: Any, night: int) -> Any:
    if isinstance(values, Mapping):
        return {key: _of_night(each, night) for key, each in values.items()}
    return values[night] if isinstance(values, list) else values


def run_of(*hosts: tuple[str, Mapping[str, Any]]) -> Run:
    """Return the run of some nodes; ``others`` are what four hosts beside one of them answer."""
    for host, case in list(hosts):
        if "others" in case:
            like = {**case, "samples": case["others"]}
            hosts += tuple((f"{host}-other{n}", like) for n in range(1, 5))
    records = [record_of(host, case) for host, case in hosts]
    names = {r.check for record in records if record.report for r in record.report.results}
    run = factories.run(*records, checks=sorted(names))
    plans = tuple(
        HostPlan(host, "127.0.0.1", case.get("expect", {})) for host, case in hosts
    )  # fmt: skip
    return replace(run, meta=replace(run.meta, hosts=plans))


def _of_ports(ports: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what infiniband_ports and topology say of these ports."""
    if not ports:
        return {}
    usual = {"gbps": 400, "layer": "InfiniBand", "near": {}}
    full = {
        device: {**usual, **(says if isinstance(says, dict) else {"gbps": says})}
        for device, says in ports.items()
    }
    named = {f"port {device}/1": says for device, says in full.items()}
    ports_check: dict[str, Any] = {
        "active_ports": len(ports),
        "link_layer": {subject: says["layer"] for subject, says in named.items()},
        "linked_state": dict.fromkeys(named, "ACTIVE"),
        "port_rate_gbps": {subject: float(says["gbps"]) for subject, says in named.items()},
        "firmware": dict.fromkeys(named, "28.39.2048"),
        "firmware_of_most": dict.fromkeys(named, "28.39.2048"),
    }
    near = {f"{g}-{d}": way for d, says in full.items() for g, way in says["near"].items()}
    return {"infiniband_ports": ports_check, **({"topology": {"nic_path": near}} if near else {})}


def _leg(keys: Mapping[str, Any], gpus: int) -> Leg:
    given = dict(keys)
    name, gbps = given.pop("leg"), given.pop("gbps", 100.0)
    changes: dict[str, Any] = {"ranks": gpus, "transport": given.pop("transport", {})}
    changes |= {key: given.pop(key) for key in ("library", "first_failure") if key in given}
    changes |= {"notes": tuple(given.pop("notes", ())), "log_tail": given.pop("log", "")}
    state, wrong = given.pop("state", "done"), given.pop("wrong", 0)
    small = given.pop("small", 1)
    assert not given, f"unknown keys of a leg: {sorted(given)}"
    if state != "done":
        return factories.leg(name, **changes, state=state, sizes=())
    if wrong:
        return factories.wrong(name, wrong, peak_gbps=gbps, **changes)
    return factories.slow_in_small(factories.leg(name, gbps, **changes), small)
