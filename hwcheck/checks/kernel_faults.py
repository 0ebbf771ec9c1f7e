"""The kernel and its drivers reported no fault of the machine."""

from __future__ import annotations

from typing import Dict, Iterator

from hwcheck.checks.shared.kernel_faults import DAY_S, KINDS, WORDS, faults
from hwcheck.contract.check import CouldNotMeasure, Metric, Remedy, check, in_words
from hwcheck.contract.reasons import LOG_LOST
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node


@check(
    metrics=[
        *(
            Metric(
                kind.metric,
                kind.unit,
                kind.meaning,
                (kind.limit,),
                required=True,
            )
            for kind in KINDS
        ),
        in_words("what it means, and the kernel's latest line"),
    ],
    remedy=Remedy(
        cause="a part of the machine that fails or is too warm: memory, processor, network card, "
        "cable, drive; or the kernel itself, which met an error of its own",
        fix="drain the node and see to the part that is named: reseat or replace it, and see that "
        "the lines do not come back under load; restart the node after an error of the kernel",
        command="sudo dmesg --ctime | grep -E 'Hardware Error|EDAC|mce:|mlx5_core|DMAR|AMD-Vi|"
        "nvme|I/O error|blocked for|lockup|BUG|Oops'",
    ),
    group="GPUs",
    proof="events",
)
def kernel_faults(node: Node) -> Iterator[Sample]:
    """Read what the kernel wrote of memory, processors, network cards, drives and of itself.

    Much of it is in no counter: a card whose firmware has halted keeps its port's last state, and
    memory that fails is first seen by the job that gets it. The last day counts; what only a repair
    or a restart ends (a card's firmware, a cable, an error of the kernel) counts since the boot.
    What comes within three minutes is one event. Errors that were corrected are usual in ones and
    are counted by what they are of. Accesses that the IOMMU refused count for GPUs, network cards
    and drives, and not while the node boots, when firmware has transfers of its own.
    """
    host = node.host
    things = {address: "pci " + address for address in host.pci_gpus()}
    things.update({drive.pci_address: drive.name for drive in host.nvme_drives() if drive.name})
    things.update({address: name for name, address in host.rdma_devices().items()})
    log = host.kernel_log(WORDS)
    of_host = faults(log.messages, host.uptime_s(), things)
    meanings: Dict[str, str] = {}
    for fault in of_host:
        yield Sample(fault.kind.metric, fault.events, fault.kind.unit, fault.subject)
        meaning = "%s: %s" % (fault.kind.meaning, fault.text)
        earlier = meanings.get(fault.subject)
        meanings[fault.subject] = "%s; %s" % (earlier, meaning) if earlier else meaning
    for subject, meaning in meanings.items():
        yield Sample("meaning", meaning, "", subject)
    if not (log.complete or log.reach_s >= DAY_S):
        raise CouldNotMeasure(
            "the kernel log goes back %.1f h only and has lost what came before"
            % (log.reach_s / 3600),
            LOG_LOST,
        )
    there = {fault.kind.metric for fault in of_host}
    for kind in KINDS:
        if kind.metric not in there:
            yield Sample(kind.metric, 0, kind.unit)
