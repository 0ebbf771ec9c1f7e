"""Every GPU copies to every other whole, and as fast as pairs with the same way between them."""

from __future__ import annotations

from statistics import median
from typing import Dict, Iterator, List, Sequence, Tuple

from hwcheck.contract.check import CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import AtLeast, Equal, Steady
from hwcheck.contract.pairs_run import CHECK_OFF, PairCopy, PairsRun
from hwcheck.contract.wire import DRIVER_ANSWERS, Sample
from hwcheck.node.interconnect import Interconnect
from hwcheck.node.node import Gpu, Node

P2P_STATE = Metric(
    "p2p_state",
    "",
    "done, or hang: the copy stood still and its process was killed",
    (
        Equal(
            "done",
            "a healthy pair ends every copy; hangs of single pairs: NVIDIA/nccl#606, "
            "NVIDIA/nccl-tests#117",
        ),
    ),
    required=True,
)
P2P_ACCESS = Metric("p2p_access", "", "whether CUDA grants the first GPU the second's memory")
P2P_WRONG_ELEMENTS = Metric(
    "p2p_wrong_elements",
    "elements",
    "32-bit integers that did not arrive as they were sent, worked out on the far side",
    (
        Equal(
            0,
            "a copy is exact; one that is granted, ends well and is not whole: "
            "NVIDIA/open-gpu-kernel-modules#1257",
        ),
    ),
    required=True,
)
P2P_COPY_GBPS = Metric(
    "p2p_copy_gbps",
    "GB/s",
    "the best copy to the second GPU, nothing else under way",
    past=Steady(-1, ratio=True, scatter=0.01, least=0.05),
)
P2P_PERCENT_OF_ALIKE = Metric(
    "p2p_percent_of_alike",
    "%",
    "that copy, in % of the median of the pairs with the same way between them",
    (
        AtLeast(
            "derived: pairs with the same way have the same links; access control on a "
            "switch halves it (local-inference-lab/rtx6kpro), a lost NVLink of 4 takes a "
            "quarter, a narrower PCIe link half",
            warn=80,
            confidence="derived",
        ),
    ),
)
P2P_CONCURRENT_PERCENT = Metric(
    "p2p_concurrent_percent",
    "%",
    "that, in % of what a link that all these pairs shared would leave to each",
    (
        AtLeast(
            "derived: n copies that share a link get 1/n of it each, and half of that "
            "behind switches in a row; a published collapse: 2.7 to 7 of 50 GB/s "
            "(local-inference-lab/rtx6kpro, hardware/collapse-report.md)",
            warn=40,
            confidence="derived",
        ),
    ),
)
DRIVER_ANSWERS_METRIC = Metric(
    "driver_answers",
    "",
    "whether the driver answers within a bound after a copy stood still",
    (
        Equal(
            True,
            "a driver that hangs with a GPU hangs until a reboot; NVIDIA/nccl-tests#117",
            confidence="published",
        ),
    ),
)


@check(
    metrics=[
        P2P_STATE,
        P2P_ACCESS,
        Metric(
            "p2p_refused_by_cuda",
            "",
            "whether CUDA refuses the first GPU the second's memory although NVML grants it",
            (
                Equal(
                    False,
                    "NVML API Reference Guide, nvmlDeviceGetP2PStatus; CUDA Features Archive, CUDA "
                    "13.5: cuDeviceCanAccessPeer() also checks IOMMU and PCI ACS",
                    otherwise="warn",
                ),
            ),
        ),
        Metric(
            "p2p_refused_by_nvml",
            "",
            "whether NVML refuses the first GPU the second's memory although CUDA grants it",
            (
                Equal(
                    False,
                    "NVML API Reference Guide, nvmlDeviceGetP2PStatus; NVIDIA/nccl "
                    "src/graph/paths.cc, ncclTopoCheckP2p: NCCL asks NVML too, and leaves P2P off "
                    "where it refuses",
                    otherwise="warn",
                ),
            ),
        ),
        Metric("p2p_check_off", "", "value of %s, where it is set" % CHECK_OFF),
        P2P_WRONG_ELEMENTS,
        P2P_COPY_GBPS,
        P2P_PERCENT_OF_ALIKE,
        Metric("p2p_concurrent_gbps", "GB/s", "the same while disjoint pairs of all GPUs copy"),
        P2P_CONCURRENT_PERCENT,
        DRIVER_ANSWERS_METRIC,
    ],
    remedy=Remedy(
        cause="peer access that is granted and does not work: PCIe ACS or an IOMMU that redirects "
        "it, a driver that offers it on boards without it, a broken NVLink",
        fix="for wrong data or a hang: turn ACS redirection and IOMMU translation off, or update "
        "the driver, and until then keep NCCL off PCIe peer access; for a slow pair: look at the "
        "links and switches on its way. Where driver_answers is false reboot the node first: "
        "nvidia-smi hangs there too",
        command="nvidia-smi topo -m; nvidia-smi topo -p2p r; lspci -vvv | grep ACSCtl",
    ),
    load=True,
    optional="a second GPU, none of them with MIG",
    group="NVLink, P2P",
)
def gpu_pairs(node: Node) -> Iterator[Sample]:
    """Copy from each GPU of the node to each other one, and look at what arrives.

    A collective hides which two GPUs are to blame, and one over shared memory does not touch the
    way between them at all. Each ordered pair copies alone, then disjoint pairs of all GPUs at
    once, in the rounds of a tournament: a switch may carry one pair and collapse under several.
    Where the driver grants peer access the copies go straight, otherwise through the host, and
    they must be whole either way. Wrong data with access granted is evidence against P2P. CUDA's
    word is held against NVML's: from 13.5 on CUDA refuses PCIe peer access where IOMMU or ACS
    would break it, and NVML does not know.
    """
    gpus = node.gpus()
    if len(gpus) < 2:
        raise NotApplicable("one GPU has nobody to copy to")
    run = node.pairs()
    if run.check_off:
        yield Sample("p2p_check_off", run.check_off)
    for pair in run.hung:
        yield Sample("p2p_state", "hang", "", pair)
    if run.driver:
        yield Sample("driver_answers", run.driver == DRIVER_ANSWERS)
    ways = _ways(node) if run.copies else {}
    together = len({gpu for copy in run.copies for gpu in (copy.one, copy.other)}) // 2
    for copy in run.copies:
        yield from _pair(run, copy, _alike(copy, run.copies, ways))
        yield from _against_nvml(gpus, copy)
        if together > 1 and copy.access and copy.gbps and copy.together_gbps is not None:
            share = 100.0 * together * copy.together_gbps / copy.gbps
            yield Sample("p2p_concurrent_percent", round(share, 1), "%", copy.subject)
    if run.reason:
        raise CouldNotMeasure.of(run.reason)
    left_out = _left_out(run.copies, len(node.gpus()))
    if left_out:
        raise CouldNotMeasure("no bandwidth of %s" % ", ".join(left_out))


def _left_out(copies: Sequence[PairCopy], gpus: int) -> List[str]:
    """Return the pairs that nobody copied between."""
    copied = {copy.subject for copy in copies if copy.gbps is not None}
    pairs = ((one, other) for one in range(gpus) for other in range(gpus) if one != other)
    return [name for name in ("gpu%d-gpu%d" % pair for pair in pairs) if name not in copied]


def _pair(run: PairsRun, copy: PairCopy, alike: List[float]) -> Iterator[Sample]:
    subject = copy.subject
    if subject not in run.hung:
        yield Sample("p2p_state", "done", "", subject)
    yield Sample("p2p_access", copy.access, "", subject)
    yield Sample("p2p_wrong_elements", copy.wrong, "elements", subject)
    if copy.gbps is not None:
        yield Sample("p2p_copy_gbps", round(copy.gbps, 3), "GB/s", subject)
        if alike:
            share = 100.0 * copy.gbps / median(alike)
            yield Sample("p2p_percent_of_alike", round(share, 1), "%", subject)
    if copy.together_gbps is not None:
        yield Sample("p2p_concurrent_gbps", round(copy.together_gbps, 3), "GB/s", subject)


def _against_nvml(gpus: Sequence[Gpu], copy: PairCopy) -> Iterator[Sample]:
    """Yield whether CUDA and NVML contradict each other; nothing where NVML does not say."""
    try:
        status = gpus[copy.one].p2p_status(copy.other)
    except (CouldNotMeasure, IndexError):  # ``p2p_status`` says why, ``gpu_count`` which is missing
        return
    granted = (status.read, status.write) == ("OK", "OK")
    metric = "p2p_refused_by_nvml" if copy.access else "p2p_refused_by_cuda"
    yield Sample(metric, granted != copy.access, "", copy.subject)


def _ways(node: Node) -> Dict[Tuple[int, int], str]:
    """Return the way between every two GPUs; a pair that cannot be placed has none."""
    interconnect = Interconnect(node)
    ways = {}
    for one, other in interconnect.pairs():
        try:
            way = interconnect.path(one, other)
        except CouldNotMeasure:  # ``topology`` says why; here the pair has nothing to be like
            continue
        ways[one.number, other.number] = ways[other.number, one.number] = way
    return ways


def _alike(
    copy: PairCopy, copies: Tuple[PairCopy, ...], ways: Dict[Tuple[int, int], str]
) -> List[float]:
    """Return the figures of the other pairs with the same way between them."""
    way = ways.get((copy.one, copy.other))
    return [
        each.gbps
        for each in copies
        if each is not copy
        and each.gbps
        and way is not None
        and (ways.get((each.one, each.other)), each.access) == (way, copy.access)
    ]
