"""The gates that were seen to fire, for every report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hwcheck.fold import fold
from hwcheck.results.run_folder import HostRecord, Run
from hwcheck.text import line

CHECK = "gate_proof"
NAMES = {
    "gate prove_wrong": "wrong data is counted",
    "gate prove_hang": "a rank that stands still is a hang",
    "gate prove_transport": "a transport that was not to be is noticed",
}
"""What each subject of the check is about."""
ORDER = ("did not fire", "could not be proven", "proven", "does not apply")


@dataclass(frozen=True)
class GateView:
    """What came of one gate on some hosts; ``said`` is what the gate said there."""

    gate: str
    state: str
    hosts: str
    said: str


def gate_views(run: Run) -> tuple[GateView, ...]:
    """Return the gates with the hosts that they came to the same on, what is wrong first."""
    if CHECK not in run.meta.checks:
        return ()
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for record in run.records:
        for gate, (state, said) in _of_host(record).items():
            groups.setdefault((gate, state), []).append((record.host, said))
    views = [
        GateView(
            gate=NAMES[gate],
            state=state,
            hosts=fold(host for host, _ in members),
            said=_said([said for _, said in members]),
        )
        for (gate, state), members in groups.items()
    ]
    return tuple(sorted(views, key=lambda view: ORDER.index(view.state)))


def in_a_line(view: GateView) -> str:
    """Return a gate as one line."""
    said = f": {view.said}" if view.said else ""
    return f"{view.gate}: {view.state} on {view.hosts}{said}"


def _said(texts: list[str]) -> str:
    distinct = list(dict.fromkeys(texts))
    return distinct[0] + (", and alike" if len(distinct) > 1 else "")


def _of_host(record: HostRecord) -> dict[str, tuple[str, str]]:
    reason = record.reason or "no answer"
    samples: dict[tuple[str, str], object] = {}
    for result in record.report.results if record.report else ():
        if result.check == CHECK:
            reason = result.reason or "no answer"
            samples.update({(s.metric, s.subject): s.value for s in result.samples})
    return {gate: _state(gate, samples, line(reason)) for gate in NAMES}


def _state(gate: str, samples: dict[tuple[str, str], object], reason: str) -> tuple[str, str]:
    said = line(str(samples.get(("meaning", gate), "")))
    fired = samples.get(("gate_fired", gate))
    if fired is True:
        return "proven", said
    if fired is False:
        return "did not fire", said
    if ("gate_absent", gate) in samples:
        return "does not apply", line(str(samples["gate_absent", gate]))
    return "could not be proven", reason


def gate_lines(run: Run) -> Iterator[str]:
    """Yield every gate as one line."""
    yield from map(in_a_line, gate_views(run))
