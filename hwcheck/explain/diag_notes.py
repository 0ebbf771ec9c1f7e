"""What NCCL's own diagnostics in a log say, and where they contradict its figures. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hwcheck.contract.nccl_diag import Diagnostics, read
from hwcheck.explain.records import BenchmarkRun
from hwcheck.text import count, line

MOST_NOTES = 8
LINE = 200


def notes(text: str, runs: Sequence[BenchmarkRun] = ()) -> Iterator[str]:
    """Yield what NCCL reported of itself; ``runs`` are what the same log has measured."""
    diagnostics = read(text)
    if not diagnostics.results:
        return
    yield _summary(diagnostics)
    complaints = [each for each in diagnostics.results if not each.ok]
    for each in complaints[:MOST_NOTES]:
        kind = "complains" if each.complains else "could not be done"
        yield f"NCCL's check {line(each.check, 40)} {kind}: {line(each.text, LINE)}"
    if len(complaints) > MOST_NOTES:
        yield f"and {len(complaints) - MOST_NOTES} more of NCCL's checks complain"
    if diagnostics.slow_ranks:
        ranks = ", ".join(line(rank, 120) for rank in diagnostics.slow_ranks[:MOST_NOTES])
        yield f"network cards more than 30 % off the median by NCCL's own measure: {ranks}"
    yield from _contradictions(diagnostics, runs)


def _summary(diagnostics: Diagnostics) -> str:
    passed = sum(each.ok for each in diagnostics.results)
    text = f"NCCL's own diagnostics: {passed} of {count(len(diagnostics.results), 'result')} OK"
    if diagnostics.peer_accesses:
        passed, tested = diagnostics.peer_accesses
        text += f", {passed} of {tested} accesses between GPUs verified"
    if not diagnostics.ended:
        text += "; the report does not come to its end, so a check may be missing"
    return text


def _contradictions(diagnostics: Diagnostics, runs: Sequence[BenchmarkRun]) -> Iterator[str]:
    """Say where NCCL's word on P2P and the run's own data do not fit together."""
    accesses = diagnostics.peer_accesses
    wrong = [run for run in runs if run.state == "corrupt"]
    clean = [run for run in runs if run.state == "done" and run.wrong == 0]
    if wrong and accesses and accesses[0] == accesses[1] and not diagnostics.p2p_failed:
        yield (
            "contradiction: NCCL verified every access between GPUs and the run has wrong data: "
            "it goes wrong under load or on another way (network, NVLS), or the fault comes and "
            "goes; run it again with NCCL_P2P_DISABLE=1"
        )
    if clean and not wrong and diagnostics.p2p_failed:
        yield (
            "contradiction: NCCL found P2P between GPUs broken and the run's data is right: the "
            "run may not have used these pairs; believe the pair that NCCL names until every pair "
            "was copied and verified (hwcheck validate --only gpu_pairs)"
        )
