"""Something keeps the node's clock right."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import Equal
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node


@check(
    metrics=[
        Metric(
            "clock_synchronized",
            "",
            "whether the kernel's clock is kept right by a time service",
            (
                Equal(
                    True,
                    source="adjtimex(2): STA_UNSYNC and TIME_ERROR, the clock is not synchronized",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="no time service runs, it cannot reach its servers, or chrony lacks rtcsync",
        fix="run chrony or systemd-timesyncd with servers that the node reaches; put rtcsync into "
        "chrony.conf, which also tells the kernel",
        command="timedatectl; chronyc tracking",
    ),
    group="host",
)
def time_sync(node: Node) -> Iterator[Sample]:
    """Ask the kernel whether its clock is synchronized.

    Logs of different nodes cannot be put in order, and certificates, Kerberos tickets and shared
    file systems fail, when clocks drift apart.
    """
    yield Sample("clock_synchronized", node.host.clock_synchronized())
