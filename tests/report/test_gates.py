from __future__ import annotations

from rich.console import Console

from hwcheck.advise.assessment import Assessment
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.report.gates import gate_line, gate_views
from hwcheck.report.html import html
from hwcheck.report.markdown import markdown
from hwcheck.report.summary import summary
from hwcheck.report.terminal import terminal
from hwcheck.results.run_folder import HostRecord
from tests.factories import HOSTILE, record, run
from tests.report.example import judged


def _samples(gate: str, fired: bool | None, said: str) -> tuple[Sample, ...]:
    subject = f"gate {gate}"
    if fired is None:
        return (Sample("gate_absent", said, "", subject),)
    return (Sample("gate_fired", fired, "", subject), Sample("meaning", said, "", subject))


def _host(
    name: str, *, wrong: bool = True, hang: bool = True, said: str = "2 of 2 damaged"
) -> HostRecord:
    samples = (
        *_samples("prove_wrong", wrong, said),
        *_samples("prove_hang", hang, "killed after 38 s"),
        *_samples("prove_transport", None, "one GPU has no peer"),
    )
    return record(name, [CheckResult("gate_proof", "done", samples=samples)])


def _shown(*hosts: HostRecord) -> Assessment:
    return judged(run(*hosts, checks=["gate_proof"]))


def test_what_was_proven_and_what_was_not_is_told_by_host() -> None:
    lost = record(
        "n4", [CheckResult("gate_proof", "could_not_measure", Reason("no_torch", "no torch"))]
    )
    assessment = _shown(_host("n1"), _host("n2"), _host("n3", wrong=False), lost)
    lines = [gate_line(view) for view in gate_views(assessment.run)]
    assert lines[0] == "wrong data is counted: did not fire on n3: 2 of 2 damaged"
    assert "wrong data is counted: proven on n[1-2]: 2 of 2 damaged" in lines
    assert "a rank that stands still is a hang: proven on n[1-3]: killed after 38 s" in lines
    assert "a transport that was not to be is noticed: could not be proven on n4: no torch" in lines
    outcomes = {host.host: host.outcome for host in assessment.judgement.hosts}
    assert outcomes == {"n1": "pass", "n2": "pass", "n3": "fail", "n4": "inconclusive"}
    assert assessment.judgement.exit_code == 1


def test_every_report_has_the_section() -> None:
    shown = _shown(_host("n1"))
    console = Console(record=True, width=200, file=None)
    with console.capture() as captured:
        console.print(terminal(shown))
    for text in (markdown(shown), html(shown), captured.get()):
        assert "Proven gates" in text
        assert "wrong data is counted" in text
        assert "one GPU has no peer" in text
    gates = summary(shown)["gates"]
    assert {gate["state"] for gate in gates} == {"proven", "does not apply"}
    assert {gate["said"] for gate in gates} >= {"2 of 2 damaged", "one GPU has no peer"}


def test_a_run_that_did_not_ask_has_no_section() -> None:
    shown = judged(run(_host("n1"), checks=["driver"]))
    assert gate_views(shown.run) == ()
    assert "Proven gates" not in markdown(shown)
    assert "Proven gates" not in html(shown)
    assert summary(shown)["gates"] == []


def test_hostile_words_of_a_gate_stay_words() -> None:
    for text in HOSTILE:
        shown = _shown(_host("n1", said=text))
        assert "<script>alert" not in html(shown)
        assert "\x1b" not in markdown(shown)


def test_broken_legs_are_no_evidence() -> None:
    """Whatever a node sends as an answer of this check, nothing is advised from it."""
    from tests.factories import gpu_facts, hung, leg

    legs = (hung(), leg("p2p_off", 21.0))
    answer = CheckResult("gate_proof", "done", legs=legs)
    host = record("n", [answer], gpus=gpu_facts(nvlink_links=0))
    advice = judged(run(host, checks=["gate_proof", "all_reduce"])).advice
    assert advice.nccl.settings == ()
