"""Where NCCL's own diagnostics and the copies between GPUs contradict each other. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hwcheck.judge.host_case import HostCase, values_of
from hwcheck.judge.records import Finding
from hwcheck.text import line

DIAGNOSTICS, COPIES = "nccl_diagnostics", "gpu_pairs"
CONTRADICTS = "contradicts"
WORDS = 80
SOURCE = (
    "derived from NVIDIA/nccl src/diagnostics/p2p.cc: both write between the same two GPUs and "
    "look at what arrives, NCCL by kernels and imported memory, gpu_pairs by copy engines"
)


def judge_second_opinion(host: HostCase) -> Iterator[Finding]:
    """Yield a warning for each pair of GPUs that one of them calls whole and the other broken.

    A pair without peer access goes through the host in ``gpu_pairs``, and NCCL leaves it out.
    """
    if not {DIAGNOSTICS, COPIES} <= host.answers.keys():
        return
    ends = values_of(host.record, COPIES, "p2p_state")
    access = values_of(host.record, COPIES, "p2p_access")
    wrong = values_of(host.record, COPIES, "p2p_wrong_elements")
    for pair, by_nccl in values_of(host.record, DIAGNOSTICS, "diag_p2p").items():
        if pair not in ends or access.get(pair) is False:
            continue
        elements = wrong.get(pair)
        bad = ends[pair] == "hang" or (type(elements) is int and elements > 0)
        whole = ends[pair] == "done" and elements == 0
        if (bad and by_nccl == "verified") or (whole and by_nccl != "verified"):
            copies = "a copy hangs" if ends[pair] == "hang" else f"{elements} elements arrive wrong"
            yield Finding(
                host=host.name,
                check=DIAGNOSTICS,
                outcome="warn",
                metric=CONTRADICTS,
                subject=pair,
                value=f"NCCL: {line(str(by_nccl), WORDS)}; copies: {copies}",
                limit="warn where one calls the pair whole and the other does not",
                source=SOURCE,
                confidence="derived",
                reason=f"NCCL's diagnostics and gpu_pairs do not agree on {pair}",
            )
