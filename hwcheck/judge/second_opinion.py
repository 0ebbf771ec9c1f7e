"""Where NCCL's own diagnostics and the copies between GPUs contradict each other. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hwcheck.judge.host_case import HostCase, values_of
from hwcheck.judge.records import Finding
from hwcheck.node.collective.nccl_diag import FINE
from hwcheck.node.reasons import remark
from hwcheck.text import line

DIAGNOSTICS, COPIES = "nccl_diagnostics", "gpu_pairs"
CONTRADICTS = "contradicts"
WORDS = 80
SOURCE = (
    "derived from NVIDIA/nccl src/diagnostics/p2p.cc: both write between the same two GPUs and "
    "look at what arrives, NCCL by kernels and imported memory, gpu_pairs by copy engines"
)

RAS_SOURCE = (
    "derived from NVIDIA/nccl src/ras/diagnostics_checks.cc: both read NVML's volatile ECC "
    "counters and link states; what is read later may have changed since"
)


def judge_second_opinion(host: HostCase) -> Iterator[Finding]:
    """Yield a warning for each pair of GPUs that one of them calls whole and the other broken.

    A pair without peer access goes through the host in ``gpu_pairs``, and NCCL leaves it out. And
    for NCCL's RAS, which reads the same counters and states as ``ecc_errors`` and ``nvlink_state``.
    """
    yield from _of_ras(host)
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
                reason=remark(f"NCCL's diagnostics and gpu_pairs do not agree on {pair}"),
            )


def _of_ras(host: HostCase) -> Iterator[Finding]:
    errors = _most(host, "ecc_errors", "ecc_uncorrected_volatile")
    links = _most(host, "nvlink_state", "nvlink_links_inactive")
    ecc = values_of(host.record, DIAGNOSTICS, "ras_ecc").get("node")
    nvlink = values_of(host.record, DIAGNOSTICS, "ras_nvlink").get("node")
    if ecc == FINE and errors:
        # The other way round an error may have come in between.
        text = f"NCCL: no uncorrected errors; ecc_errors: {errors}"
        yield _disputed(host, "ECC", text, "ecc_errors")
    if nvlink is not None and links is not None and (nvlink == FINE) != (links == 0):
        words = "all links active" if nvlink == FINE else line(str(nvlink), WORDS)
        text = f"NCCL: {words}; nvlink_state: {links} inactive"
        yield _disputed(host, "NVLink", text, "nvlink_state")


def _most(host: HostCase, check: str, metric: str) -> int | None:
    values = values_of(host.record, check, metric).values()
    return max((value for value in values if type(value) is int), default=None)


def _disputed(host: HostCase, subject: str, text: str, check: str) -> Finding:
    return Finding(
        host=host.name,
        check=DIAGNOSTICS,
        outcome="warn",
        metric=CONTRADICTS,
        subject=subject,
        value=text,
        limit="warn where one calls it whole and the other does not",
        source=RAS_SOURCE,
        confidence="derived",
        reason=remark(f"NCCL's RAS diagnostics and {check} do not agree on {subject}"),
    )
