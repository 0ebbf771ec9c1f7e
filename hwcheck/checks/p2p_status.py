"""GPUs that NVLink joins may read and write each other's memory, and like pairs answer alike."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, NamedTuple, Tuple, Union

from hwcheck.contract.check import TIMED, CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import Equal
from hwcheck.contract.quantities import P2PStatus
from hwcheck.contract.reasons import Reason, together
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import majority
from hwcheck.node.interconnect import Interconnect, LinkedGpu, nvlinks
from hwcheck.node.node import Node
from hwcheck.node.threads import side_by_side

NVML = "NVML API Reference Guide, nvmlDeviceGetP2PStatus, nvmlGpuP2PStatus_t"
NVLINKED = (
    NVML + "; NCCL refuses to start over NVLinks without P2P (NVIDIA/nccl src/graph/paths.cc, "
    "ncclTopoCheckP2p)"
)
CODES = "; OK, or CNS, GNS, TNS: not supported by chipset, GPU or topology, DR: disabled in the "
CODES += "driver's settings, NS: not supported, U: unknown"

GRANTED = ("OK", "OK")
# Consumer boards and what nobody has seen granted are not in it.
MODELS = re.compile(
    r"\b(V100|A100|A800|A30|A40|[HL]20|H[18]00|H200|B[23]00|L40S?|RTX (A|PRO )6000|RTX 6000 Ada)\b"
)


class _Pair(NamedTuple):
    subject: str
    kind: Tuple[str, str, str]
    nvlinked: bool
    status: P2PStatus


PCIE_READ = Metric("pcie_read", "", "whether the first GPU may read the second's memory over PCIe")
PCIE_WRITE = Metric(
    "pcie_write", "", "whether the first GPU may write the second's memory over PCIe"
)


NVLINK_READ = Metric(
    "nvlink_read",
    "",
    "whether the first GPU may read the second's memory, which NVLink joins" + CODES,
    (Equal("OK", source=NVLINKED),),
)


@check(
    metrics=[
        NVLINK_READ,
        Metric(
            "nvlink_write",
            "",
            "whether the first GPU may write the second's memory, which NVLink joins" + CODES,
            (Equal("OK", source=NVLINKED),),
        ),
        PCIE_READ,
        PCIE_WRITE,
        Metric(
            "unlike_other_pairs",
            "",
            "whether reading or writing over PCIe is answered otherwise than for most pairs of "
            "the same models with the same way between them",
            (
                Equal(
                    False,
                    source="derived from " + NVML + ": it goes by chipset, GPU and topology, and "
                    "these pairs have the same",
                    confidence="derived",
                    otherwise="warn",
                ),
            ),
        ),
        Metric(
            "refused_like_all",
            "",
            "whether a pair of one NUMA node is refused what its model can do, and all like it are",
            (
                Equal(
                    False,
                    source="derived from " + NVML + " and NVIDIA/nccl#175: boards for data centers "
                    "and workstations have PCIe P2P below one CPU, so a chipset that the driver "
                    "does not know, or a setting, takes it from all of them",
                    confidence="derived",
                    otherwise="warn",
                ),
            ),
        ),
        Metric(
            "uvm_hmm",
            "",
            "whether the driver migrates ordinary memory (HMM), which is on unless "
            "uvm_disable_hmm=1; lock-ups of P2P went with it (local-inference-lab/rtx6kpro)",
        ),
        Metric("p2p_nvlink", "", "whether the pair may use NVLink for it" + CODES),
        Metric("p2p_atomics", "", "whether the first GPU may do atomics in the second's memory"),
    ],
    remedy=Remedy(
        cause="NVLinks or an NVSwitch fabric that did not come up, or a setting of the driver or "
        "of the firmware (RMDisableP2P, resizable BAR, access control) on some boards only",
        fix="read the kernel log for Xid and SXid; see that the fabric manager runs and that "
        "nvlink_state passes; compare the boards' slots and firmware settings, then reset or "
        "reboot",
        command="nvidia-smi topo -p2p r && nvidia-smi topo -p2p w && nvidia-smi topo -m",
    ),
    optional="a second GPU without MIG",
    group="NVLink, P2P",
    follows=("gpu_count", "mig", "virtualization"),
    beside=TIMED,
)
def p2p_status(node: Node) -> Iterator[Sample]:
    """Ask the driver for every ordered pair of GPUs what one may do in the other's memory.

    Without it data between two GPUs goes through the CPU's memory, and over NVLinks NCCL does not
    start at all. A GeForce board that refuses it over PCIe is as its driver makes it: that is
    recorded. One pair that is refused what pairs like it are granted is worth a look, and so are
    boards for data centers that are refused it to the last pair. In a virtual machine the host
    decides pair by pair, and with MIG on there is no such access.
    """
    interconnect = Interconnect(node)
    members = [member for member in interconnect.members if not member.mig]
    if len(members) < 2 and not interconnect.reasons:
        missing = (
            "one GPU, no pair" if len(interconnect.members) < 2 else "MIG is on, which rules it out"
        )
        raise NotApplicable(missing)
    pairs, reasons = _ask(interconnect, members)
    answers: Dict[Tuple[str, str, str], List[Tuple[str, str]]] = {}
    for pair in pairs:
        answers.setdefault(pair.kind, []).append((pair.status.read, pair.status.write))
    hypervisor = node.host.hypervisor()
    for pair in pairs:
        yield from _samples(pair)
        if not pair.nvlinked and not hypervisor:
            # Of as many refused as granted, it is the refused ones that are unlike.
            granted_first = sorted(answers[pair.kind], key=lambda answer: answer != GRANTED)
            unlike = (pair.status.read, pair.status.write) != majority(granted_first)
            yield Sample("unlike_other_pairs", unlike, "", pair.subject)
            one, other, path = pair.kind
            if path != "SYS" and MODELS.search(one) and MODELS.search(other):
                refused = not unlike and (pair.status.read, pair.status.write) != GRANTED
                yield Sample("refused_like_all", refused, "", pair.subject)
    disabled = node.host.module_parameter("nvidia_uvm", "uvm_disable_hmm")
    if disabled:
        yield Sample("uvm_hmm", disabled in ("N", "0"))
    if reasons:
        raise CouldNotMeasure.of(together(reasons))
    if hypervisor and not any(pair.nvlinked for pair in pairs):
        raise NotApplicable("no NVLink, and a virtual machine (%s) is given its pairs" % hypervisor)


def _ask(interconnect: Interconnect, members: List[LinkedGpu]) -> Tuple[List[_Pair], List[Reason]]:
    """Return every ordered pair that answered, and why the others did not."""

    def ask(one: LinkedGpu) -> List[Union[_Pair, CouldNotMeasure]]:
        return [_pair(interconnect, one, other) for other in members if one is not other]

    pairs: List[_Pair] = []
    reasons = list(interconnect.reasons)
    for answers in side_by_side(ask, members):
        for answer in answers:
            if isinstance(answer, _Pair):
                pairs.append(answer)
            else:
                reasons.append(answer.reason)
    return pairs, reasons


def _pair(
    interconnect: Interconnect, one: LinkedGpu, other: LinkedGpu
) -> Union[_Pair, CouldNotMeasure]:
    first, second = sorted((one, other), key=lambda member: member.number)
    models = sorted((one.model, other.model))
    try:
        status = one.gpu.p2p_status(other.number)
        kind = (models[0], models[1], interconnect.path(first, second))
    except CouldNotMeasure as error:
        return error
    subject = "%s-%s" % (one.subject, other.subject)
    return _Pair(subject, kind, nvlinks(one, other) > 0, status)


def _samples(pair: _Pair) -> Iterator[Sample]:
    over = "nvlink" if pair.nvlinked else "pcie"
    codes = {
        over + "_read": pair.status.read,
        over + "_write": pair.status.write,
        "p2p_nvlink": pair.status.nvlink,
        "p2p_atomics": pair.status.atomics,
    }
    for metric, code in codes.items():
        if code is not None:
            yield Sample(metric, code, "", pair.subject)
