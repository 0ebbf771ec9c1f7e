"""No NVLink has to repeat, retrain or drop what it carries."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import OFTEN, RARE, AtMost
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import UP_NVLINKS, middle, mig_is_on, where_supported
from hwcheck.node.node import Gpu, Node

LIMITS = (
    "derived from NVIDIA/DCGM, dcgm_gpu_hardware_limits, which newer releases have in "
    "error_thresholds.yaml"
)

AFTER_CORRECTION = (
    "derived from NVML API Reference Guide, NVML_FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS and "
    "_EFFECTIVE_ERRORS, and IBUtils2 Utility Documentation, Bit Error Rate (threshold 1e-12): at "
    "the 425 Gb/s of an NVLink 5 that makes a million errors in a month"
)

COUNTERS = (
    "replay",
    "recovery",
    "recovery_failed",
    "crc",
    "malformed_packet",
    "buffer_overrun",
    "symbol",
    "effective",
)


ALONE = ("malformed_packet", "buffer_overrun", "symbol", "effective")
"""Counters of NVLink 5 whose healthy figures nobody publishes: a link is held against the others of
its GPU, which are of one age and do one work."""

NORMAL = 100
"""What a link may count anyway, when it is trained or its switch is reset."""

ERRORLESS = 1e-200
"""NVML has no 0: a link without errors gives 15e-255."""


@check(
    metrics=[
        Metric(
            "nvlink_replay_errors",
            "errors",
            "transfers that had to be repeated",
            (
                AtMost(
                    LIMITS + " (DCGM_LIMIT_MAX_NVLINK_ERROR 1): its health watch fails from one "
                    "replay on; ours is the count since the last reset, so it warns",
                    warn=0,
                    confidence="derived",
                ),
            ),
            of_some=UP_NVLINKS,
            past=OFTEN,
        ),
        Metric(
            "nvlink_recovery_errors",
            "errors",
            "times that the link had to be trained again",
            (
                AtMost(
                    LIMITS + " (DCGM_LIMIT_MAX_NVLINK_ERROR 1): its health watch fails from one "
                    "recovery on; ours is the count since the last reset, so it warns",
                    warn=0,
                    confidence="derived",
                ),
            ),
            of_some=UP_NVLINKS,
            past=RARE,
        ),
        Metric(
            "nvlink_recovery_failed_errors",
            "errors",
            "times that the link could not be trained again (Blackwell and later)",
            (
                AtMost(
                    "NVML API Reference Guide, "
                    "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS",
                    fail=0,
                ),
            ),
            of_some=UP_NVLINKS,
        ),
        Metric(
            "nvlink_crc_errors",
            "errors",
            "packets with a wrong checksum",
            (
                AtMost(
                    LIMITS + " (DCGM_LIMIT_MAX_NVLINK_CRC_ERROR: they matter from 100 a second "
                    "on): one minute of that",
                    warn=6000,
                    confidence="derived",
                ),
            ),
            of_some=UP_NVLINKS,
            past=OFTEN,
        ),
        Metric(
            "nvlink_malformed_packet_errors",
            "errors",
            "packets that made no sense",
            of_some=UP_NVLINKS,
        ),
        Metric(
            "nvlink_buffer_overrun_errors",
            "errors",
            "packets that found no room",
            of_some=UP_NVLINKS,
        ),
        Metric(
            "nvlink_symbol_errors",
            "errors",
            "symbols that error correction could not repair",
            (AtMost(AFTER_CORRECTION, warn=1_000_000, confidence="derived"),),
            of_some=UP_NVLINKS,
            past=OFTEN,
        ),
        Metric(
            "nvlink_effective_errors",
            "errors",
            "bit errors after error correction",
            (AtMost(AFTER_CORRECTION, warn=1_000_000, confidence="derived"),),
            of_some=UP_NVLINKS,
            past=OFTEN,
        ),
        *(
            Metric(
                "nvlink_%s_errors_over_links" % counter,
                "x",
                "the count of a link over the median of the GPU's other links, which is taken for "
                "100 at least",
                (
                    AtMost(
                        "derived: links of one GPU have one age and one work, and NVIDIA gives no "
                        "figure for this counter; more than a thousand where the others have none "
                        "are the link's own",
                        warn=10,
                        confidence="derived",
                    ),
                ),
            )
            for counter in ALONE
        ),
        Metric(
            "nvlink_symbol_ber",
            "",
            "symbol error rate of the GPU's worst link",
            of_some=UP_NVLINKS,
        ),
        Metric(
            "nvlink_effective_ber",
            "",
            "bit error rate after error correction, of the GPU's worst link",
            (
                AtMost(
                    "Azure healthagent, NVLink bit error rate above 1e-6; NVML API Reference "
                    "Guide, NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER (mantissa and exponent)",
                    warn=1e-6,
                    confidence="published",
                ),
            ),
            of_some=UP_NVLINKS,
        ),
    ],
    remedy=Remedy(
        cause="a bridge, board or cable with a bad contact, or a link on its way to failing",
        fix="see whether the counts grow under load; reset the GPUs, reseat bridge or board, and "
        "have it replaced when they still do",
        command="nvidia-smi nvlink --errorcounters",
    ),
    optional="active NVLinks that count errors",
    group="NVLink, P2P",
    follows=("mig", "nvlink_state"),
)
def nvlink_errors(node: Node) -> Iterator[Sample]:
    """Read the error counters of every active NVLink since the last reset of its GPU.

    A link with errors repeats what it carries: bandwidth goes, then the link, then the job. A
    counter that is 0 on all links of a GPU is one sample; otherwise each link that is not at 0
    has its own, and where no healthy figure is known it is held against the others of its GPU.
    Which counters there are depends on the generation; Blackwell and later also give bit error
    rates, of which the worst of each GPU counts.
    """
    missing = "no GPU of this node has an active NVLink with error counters, or MIG is on"
    yield from where_supported(node, _errors, missing)


def _errors(gpu: Gpu) -> Iterator[Sample]:
    if mig_is_on(gpu):
        return
    links = gpu.nvlink_errors()
    for counter in COUNTERS:
        counts = {link.link: link.counters[counter] for link in links if counter in link.counters}
        metric = "nvlink_%s_errors" % counter
        if counts and not any(counts.values()):
            yield Sample(metric, 0, "errors", gpu.subject)
        for link, count in counts.items():
            if count:
                subject = "%s link%d" % (gpu.subject, link)
                yield Sample(metric, count, "errors", subject)
                others = [other for at, other in counts.items() if at != link]
                if counter in ALONE and others:
                    over = count / max(NORMAL, middle(others))
                    yield Sample(metric + "_over_links", round(over, 2), "x", subject)
    yield from _rates(gpu)


def _rates(gpu: Gpu) -> Iterator[Sample]:
    """Yield the worst rates of the GPU, under the name of the link that has them."""
    links = gpu.nvlink_rates()
    for name in ("symbol", "effective"):
        rates = [(getattr(link, name), link.link) for link in links]
        given = [(rate, link) for rate, link in rates if rate is not None]
        if given:
            rate, link = max(given)
            subject = "%s link%d" % (gpu.subject, link) if rate > ERRORLESS else gpu.subject
            yield Sample("nvlink_%s_ber" % name, rate, "", subject)
