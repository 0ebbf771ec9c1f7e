"""NCCL's own diagnostics in a log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.contract.nccl_diag import Diagnostics, read
from hwcheck.explain.diag_notes import notes
from hwcheck.explain.explain import explain
from hwcheck.explain.records import BenchmarkRun, Unknown
from hwcheck.explain.sources import LogFile
from hwcheck.node.nccl_tests.records import Table

HEAD = "node0:24563 NCCL DIAG "
VERIFIED = (
    HEAD + "=== NCCL Diagnostics ===\n" + HEAD + "[OK]   p2p: verified P2P access in both "
    "directions between every GPU pair (56 peer accesses)\n"
)
BROKEN = HEAD + "[INFO] p2p: only 52/56 GPU-to-GPU peer accesses passed verification\n"
END = HEAD + "NCCL diagnostics completed in 245.3 ms across 8 ranks\n"
NETWORK = (
    HEAD + "[INFO] net bw: 265.1/391.5/398.0 Gbit/s min/median/max cross-nic bw (across 8 ranks) "
    "in comm 0x7a\n" + HEAD + "[INFO] net bw: cross-nic rank 3 (node0): 265.1 Gbit/s, >30% off "
    "median 391.5 Gbit/s in comm 0x7a\n"
)
RAS = (
    HEAD + "=== RAS Diagnostics ===\n" + HEAD + "[OK]   ECC: no uncorrected volatile errors "
    "across 8 ranks in comm 0x5f\n"
    + HEAD
    + "[INFO] NVLink: unavailable via NVML on rank 3\n"
    + HEAD
    + "RAS diagnostics completed in 38.4 ms across 8 ranks\n"
)
RUN = BenchmarkRun("all_reduce", 8, 400.0, "in place", 1 << 30, 0, "done", (), Table())


def test_lines_become_records() -> None:
    found = read(VERIFIED + END)
    assert found.ended
    assert [(each.ok, each.check) for each in found.results] == [(True, "p2p")]
    assert (found.peer_accesses, found.p2p_failed) == ((56, 56), False)
    broken = read(BROKEN)
    assert (broken.peer_accesses, broken.p2p_failed, broken.ended) == ((52, 56), True, False)
    assert read(NETWORK).slow_ranks == ("rank 3 on node0 (265.1 Gbit/s)",)
    assert read("loss 0.3\nNCCL INFO DIAG\n") == Diagnostics()


def test_a_check_that_could_not_be_done_is_no_complaint() -> None:
    ecc, nvlink = read(RAS).results
    assert (ecc.ok, nvlink.ok, nvlink.complains) == (True, False, False)
    assert any("NVLink could not be done" in note for note in notes(RAS))


def test_one_line_a_hundred_times_is_one_and_a_flood_is_cut() -> None:
    assert len(read(BROKEN * 100).results) == 1
    flood = "".join(HEAD + f"[INFO] p2p: write mismatch {n}\n" for n in range(1000))
    assert len(read(flood).results) == 400
    assert len(list(notes(flood))) < 12


def test_a_good_report_is_one_note() -> None:
    assert list(notes(VERIFIED + END, [RUN])) == [
        "NCCL's own diagnostics: 1 of 1 result OK, 56 of 56 accesses between GPUs verified"
    ]
    assert list(notes("NCCL version 2.32.3", [RUN])) == []
    assert "does not come to its end" in next(notes(VERIFIED))


@pytest.mark.parametrize(
    ("report", "state", "wrong", "contradicts"),
    [
        (VERIFIED, "done", 0, ""),
        (VERIFIED, "corrupt", 9, "verified every access between GPUs and the run has wrong data"),
        (BROKEN, "done", 0, "found P2P between GPUs broken and the run's data is right"),
        (BROKEN, "corrupt", 9, ""),
        (BROKEN, "unchecked", None, ""),
        (NETWORK, "done", 0, ""),
        (RAS, "corrupt", 9, ""),
    ],
)
def test_what_contradicts_the_run_is_said(
    report: str, state: str, wrong: int | None, contradicts: str
) -> None:
    run = replace(RUN, state=state, wrong=wrong)
    found = [note for note in notes(report + END, [run]) if note.startswith("contradiction")]
    assert len(found) == bool(contradicts)
    assert all(contradicts in note for note in found)


def test_explain_reads_a_report_alone_and_in_a_log_of_nccl() -> None:
    (alone,) = explain(LogFile("diag.txt", BROKEN + END))
    assert isinstance(alone, Unknown)
    assert any("52 of 56" in note for note in alone.notes)
    (log,) = explain(LogFile("nccl.log", "NCCL version 2.32.3+cuda13.0\n" + BROKEN + END))
    assert log.kind == "nccl-info"
    assert sum("52 of 56" in note for note in log.notes) == 1
