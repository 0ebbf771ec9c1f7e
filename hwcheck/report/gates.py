"""The gates that were seen to fire, for every report."""

from __future__ import annotations

from dataclasses import dataclass

from hwcheck.checks.gate_proof import GATE_ABSENT, GATE_FIRED, MEANING, gate_proof
from hwcheck.fold import fold
from hwcheck.results.run_folder import HostRecord, Run
from hwcheck.text import line

NAMES = {
    "gate prove_wrong": "wrong data is counted",
    "gate prove_hang": "a rank that stands still is a hang",
    "gate prove_transport": "a transport that was not to be is noticed",
}
"""What each subject of the check is about."""
ORDER = ("did not fire", "could not be proven", "proven", "does not apply")


@dataclass(frozen=True)
class GateView:
    """What came of one gate on some hosts; ``evidence`` is what the gate itself reports there."""

    gate: str
    state: str
    hosts: str
    evidence: str


def gate_views(run: Run) -> tuple[GateView, ...]:
    """Return the gates with the hosts that they came to the same on, what is wrong first."""
    if gate_proof.id not in run.meta.checks:
        return ()
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for record in run.records:
        for gate, (state, evidence) in _gates_of(record).items():
            groups.setdefault((gate, state), []).append((record.host, evidence))
    views = [
        GateView(
            gate=NAMES[gate],
            state=state,
            hosts=fold(host for host, _ in members),
            evidence=_merged([evidence for _, evidence in members]),
        )
        for (gate, state), members in groups.items()
    ]
    return tuple(sorted(views, key=lambda view: ORDER.index(view.state)))


def gate_line(view: GateView) -> str:
    """Return a gate as one line."""
    evidence = f": {view.evidence}" if view.evidence else ""
    return f"{view.gate}: {view.state} on {view.hosts}{evidence}"


def _merged(texts: list[str]) -> str:
    distinct = list(dict.fromkeys(texts))
    return distinct[0] + (", and alike" if len(distinct) > 1 else "")


def _gates_of(record: HostRecord) -> dict[str, tuple[str, str]]:
    """Return the state and the evidence of each gate on a host."""
    reason = record.reason.text or "no answer"
    samples: dict[tuple[str, str], object] = {}
    for result in record.report.results if record.report else ():
        if result.check == gate_proof.id:
            reason = result.reason.text or "no answer"
            samples.update({(s.metric, s.subject): s.value for s in result.samples})
    return {gate: _state(gate, samples, line(reason)) for gate in NAMES}


def _state(gate: str, samples: dict[tuple[str, str], object], reason: str) -> tuple[str, str]:
    meaning = line(str(samples.get((MEANING.name, gate), "")))
    fired = samples.get((GATE_FIRED.name, gate))
    if fired is True:
        return "proven", meaning
    if fired is False:
        return "did not fire", meaning
    if (GATE_ABSENT.name, gate) in samples:
        return "does not apply", line(str(samples[GATE_ABSENT.name, gate]))
    return "could not be proven", reason
