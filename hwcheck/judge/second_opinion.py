"""Where NCCL's own diagnostics and the copies between GPUs contradict each other. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hwcheck.checks.ecc_errors import ECC_UNCORRECTED_VOLATILE, ecc_errors
from hwcheck.checks.gpu_pairs import P2P_ACCESS, P2P_STATE, P2P_WRONG_ELEMENTS, gpu_pairs
from hwcheck.checks.nccl_diagnostics import DIAG_P2P, RAS_ECC, RAS_NVLINK, nccl_diagnostics
from hwcheck.checks.nvlink_state import NVLINK_LINKS_INACTIVE, nvlink_state
from hwcheck.contract.check import Check, Metric
from hwcheck.contract.nccl_diag import FINE
from hwcheck.contract.reasons import remark
from hwcheck.judge.host_case import HostCase, values_of
from hwcheck.judge.records import Finding
from hwcheck.text import line

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
    if not {nccl_diagnostics.id, gpu_pairs.id} <= host.answers.keys():
        return
    ends = values_of(host.record, gpu_pairs, P2P_STATE)
    access = values_of(host.record, gpu_pairs, P2P_ACCESS)
    wrong = values_of(host.record, gpu_pairs, P2P_WRONG_ELEMENTS)
    for pair, by_nccl in values_of(host.record, nccl_diagnostics, DIAG_P2P).items():
        if pair not in ends or access.get(pair) is False:
            continue
        elements = wrong.get(pair)
        bad = ends[pair] == "hang" or (type(elements) is int and elements > 0)
        whole = ends[pair] == "done" and elements == 0
        if (bad and by_nccl == "verified") or (whole and by_nccl != "verified"):
            copies = "a copy hangs" if ends[pair] == "hang" else f"{elements} elements arrive wrong"
            yield Finding(
                host=host.name,
                check=nccl_diagnostics.id,
                outcome="warn",
                metric=CONTRADICTS,
                subject=pair,
                value=f"NCCL: {line(str(by_nccl), WORDS)}; copies: {copies}",
                limit="warn where one calls the pair whole and the other does not",
                source=SOURCE,
                confidence="derived",
                reason=remark(f"NCCL's diagnostics and {gpu_pairs.id} do not agree on {pair}"),
            )


def _of_ras(host: HostCase) -> Iterator[Finding]:
    errors = _most(host, ecc_errors, ECC_UNCORRECTED_VOLATILE)
    links = _most(host, nvlink_state, NVLINK_LINKS_INACTIVE)
    ecc = values_of(host.record, nccl_diagnostics, RAS_ECC).get("node")
    nvlink = values_of(host.record, nccl_diagnostics, RAS_NVLINK).get("node")
    if ecc == FINE and errors:
        # The other way round an error may have come in between.
        text = f"NCCL: no uncorrected errors; {ecc_errors.id}: {errors}"
        yield _disputed(host, "ECC", text, ecc_errors)
    if nvlink is not None and links is not None and (nvlink == FINE) != (links == 0):
        words = "all links active" if nvlink == FINE else line(str(nvlink), WORDS)
        text = f"NCCL: {words}; {nvlink_state.id}: {links} inactive"
        yield _disputed(host, "NVLink", text, nvlink_state)


def _most(host: HostCase, check: Check, metric: Metric) -> int | None:
    values = values_of(host.record, check, metric).values()
    return max((value for value in values if type(value) is int), default=None)


def _disputed(host: HostCase, subject: str, text: str, check: Check) -> Finding:
    return Finding(
        host=host.name,
        check=nccl_diagnostics.id,
        outcome="warn",
        metric=CONTRADICTS,
        subject=subject,
        value=text,
        limit="warn where one calls it whole and the other does not",
        source=RAS_SOURCE,
        confidence="derived",
        reason=remark(f"NCCL's RAS diagnostics and {check.id} do not agree on {subject}"),
    )
