"""What NCCL's own diagnostics say of pairs of GPUs, and which lines of a log are theirs."""

from __future__ import annotations

import pytest

from hwcheck.contract.nccl_diag import MOST, DiagnosticsRun, is_there, lines_of, read
from hwcheck.contract.reasons import Reason

HEAD = "node0:24563 NCCL DIAG "
END = HEAD + "NCCL diagnostics completed in 245.3 ms across 8 ranks\n"


def edge(source: int, target: int) -> str:
    fields = "{0}Rank={1} {0}CudaDev={1} {0}NvmlDev={1}"
    return f"{fields.format('src', source)} {fields.format('dst', target)} path=NVL handle=DIRECT"


MISMATCH = HEAD + f"[INFO] p2p: write mismatch {edge(2, 5)} expected=0x0000d1a6 got=0x00000000\n"
SETUP = HEAD + f"[INFO] p2p: local CUDA setup failed {edge(3, 1)} reason=localCuda\n"
PART = HEAD + "[INFO] p2p: only 54/56 GPU-to-GPU peer accesses passed verification\n"


def test_what_failed_and_what_was_not_tested_have_their_pairs() -> None:
    report = read(PART + MISMATCH + SETUP + END)
    assert report.failed_pairs == {"gpu2-gpu5": "write mismatch"}
    assert report.untested_pairs == {"gpu3-gpu1": "local CUDA setup failed"}
    assert report.untested == ("gpu3-gpu1: local CUDA setup failed",)
    assert read(HEAD + "[INFO] p2p: check returned 3\n").untested == ("p2p: check returned 3",)
    assert read(HEAD + "[OK] net bw: skipped (single host)\n").untested == ()


def test_only_lines_of_a_report_are_kept_and_a_flood_keeps_its_end() -> None:
    log = f"node0:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n{MISMATCH}x\n{END}"
    assert lines_of(log) == (MISMATCH + END).strip()
    flood = "".join(HEAD + f"[INFO] p2p: read mismatch {n}\n" for n in range(10 * MOST))
    kept = lines_of(flood + END)
    assert kept.count("\n") == MOST - 1
    assert kept.endswith(END.strip())
    assert len(lines_of(HEAD + "[INFO] p2p: " + "x" * 10**6)) < 1000


@pytest.mark.parametrize(
    ("version", "there"),
    [((2, 31, 0), True), ((2, 32, 3), True), ((3, 0, 0), True), ((2, 30, 7), False), ((2,), False)],
)
def test_which_nccl_has_them(version: tuple[int, ...], there: bool) -> None:
    assert is_there(version) == there
    assert DiagnosticsRun(".".join(map(str, version))).absent != there


def test_a_run_survives_the_wire() -> None:
    run = DiagnosticsRun("2.31.2", MISMATCH, Reason("not_measured", "rank 3 exited with code 1"))
    assert DiagnosticsRun.from_dict(run.to_dict()) == run
    assert not DiagnosticsRun(reason=Reason("no_torch", "no torch")).absent


RAS_BEGINS = HEAD + "=== RAS Diagnostics ===\n"
RAS_ENDS = HEAD + "RAS diagnostics completed in 12.3 ms across 8 ranks\n"


def test_ras_has_its_own_words_and_end() -> None:
    fine = HEAD + "[OK]   ECC: no uncorrected volatile errors across 8 ranks in comm 0x5\n"
    bad = HEAD + "[INFO] NVLink: inactive link(s) on rank(s) {2} across 8 ranks in comm 0x5\n"
    ours = HEAD + "[INFO] NCCL environment: mismatch across 8 ranks in comm 0x5 for NCCL_DEBUG\n"
    unread = HEAD + "[INFO] GPU inventory: unavailable via NVML across 8 ranks in comm 0x5\n"
    report = read(RAS_BEGINS + fine + bad + ours + unread + RAS_ENDS)
    assert report.ras == {
        "ECC": "ok",
        "NVLink": "inactive link(s) on rank(s) {2} across 8 ranks",
    }
    assert (report.untested, report.failed_pairs, report.peer_accesses) == ((), {}, None)
    assert (report.ended, report.active) == (True, False)


def test_the_end_of_one_report_is_not_that_of_the_other() -> None:
    begins = HEAD + "=== NCCL Diagnostics ===\n"
    torn = read(begins + RAS_BEGINS + RAS_ENDS)
    assert (torn.ended, torn.active) == (False, False)
    assert read(begins + END + RAS_BEGINS).ended is False
    both = read(begins + END + RAS_BEGINS + RAS_ENDS)
    assert (both.ended, both.active) == (True, True)
