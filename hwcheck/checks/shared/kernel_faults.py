"""What the kernel and its drivers write of faults of the machine: one table of their lines.

The shapes are those of Linux (the file is named at each) and, where a kind has several, of the
versions from 4.18 on. The NVIDIA driver's lines are in ``xids``, a port's link in ``port_flaps``.
"""

from __future__ import annotations

import re
from typing import (
    Dict,
    Iterator,
    List,
    Mapping,
    Match,
    NamedTuple,
    Optional,
    Pattern,
    Sequence,
    Tuple,
)

from hwcheck.checks.shared import xids
from hwcheck.contract.facts import KernelMessage
from hwcheck.contract.limits import AtMost

DAY_S = 24 * 3600.0
START_S = 600.0
"""While a node starts, firmware's own transfers go on that the kernel has not mapped."""
MESSAGE_LIMIT = 10_000
CUT = 200

PCI = r"(?P<pci>[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
BUS = r"(?P<bus>[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
MLX5 = r"mlx5_core " + PCI + r": (?:\w{1,60}:\d{1,6}:(?:\(pid \d{1,9}\): ?)?)?"
"""What mlx5_core puts before its words (drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.h)."""

UNCORRECTED_BIT = 61
"""UC in the status of a machine check (Intel SDM volume 3B, IA32_MCi_STATUS; AMD alike)."""


class FaultKind(NamedTuple):
    """One kind of fault: how its lines look, and what they mean.

    A pattern names what the fault is of in its groups: ``pci`` or ``bus`` (an address, the latter
    without its domain), else ``thing``, and any others, which are put behind it. ``count``
    is how many errors the line tells of, where they are counted (``counted``) and not the bursts.
    ``over`` says of the same subject that it has ended. ``lasts`` kinds count since the boot,
    others for a day.
    """

    metric: str
    meaning: str
    thing: str
    lines: Tuple[str, ...]
    limit: AtMost
    over: str = ""
    lasts: bool = False
    counted: bool = False
    while_booting: bool = True

    @property
    def unit(self) -> str:
        """Errors that the lines count, or bursts of lines."""
        return "errors" if self.counted else "events"


def _none(source: str, fails: bool = False) -> AtMost:
    if fails:
        return AtMost(source, fail=0, confidence="derived")
    return AtMost(source, warn=0, confidence="derived")


EDAC = "Linux, drivers/edac/edac_mc.c: "
MCE = "Linux, arch/x86/kernel/cpu/mce/core.c and drivers/edac/mce_amd.c: "
MCELOG = "mcelog, mcelog.conf: "
HEALTH = "Linux, drivers/net/ethernet/mellanox/mlx5/core/"

KINDS: Tuple[FaultKind, ...] = (
    FaultKind(
        "memory_uncorrected",
        "memory of the host had an error that could not be corrected",
        "memory",
        (
            r"EDAC MC(?P<mc>\d{1,3}): \d{1,9} UE .{0,200}?\bon (?P<label>[^(]{1,80}?) \(",
            r"EDAC MC(?P<mc>\d{1,3}): \d{1,9} UE ",
            r"mce: Uncorrected hardware memory error in user-access at [0-9a-f]{1,16}",
        ),
        _none(
            EDAC + "UE, an error that could not be corrected; " + MCELOG + "[dimm] "
            "uc-error-threshold = 1 / 24h",
            fails=True,
        ),
    ),
    FaultKind(
        "memory_corrected",
        "memory of the host had errors, all corrected",
        "memory",
        (
            r"EDAC MC(?P<mc>\d{1,3}): (?P<count>\d{1,9}) CE .{0,200}?\bon "
            r"(?P<label>[^(]{1,80}?) \(",
            r"EDAC MC(?P<mc>\d{1,3}): (?P<count>\d{1,9}) CE ",
        ),
        AtMost(
            MCELOG + "[dimm] ce-error-threshold = 10 / 24h; single ones are usual (Schroeder, "
            "Pinheiro and Weber, DRAM Errors in the Wild, 2009)",
            warn=10,
            confidence="published",
        ),
        counted=True,
    ),
    FaultKind(
        "machine_checks",
        "a processor reported an error that was not corrected",
        "cpu",
        (
            r"(?:mce: )?\[Hardware Error\]: CPU (?P<cpu>\d{1,5}): Machine Check(?: Exception)?: "
            r"[0-9a-f]{1,16} Bank \d{1,3}: (?P<status>[0-9a-f]{16})",
            r"\[Hardware Error\]: (?:System Fatal error|Uncorrected, software "
            r"(?:restartable|containable) error)\.",
        ),
        _none(MCE + "the status of the machine check says uncorrected", fails=True),
    ),
    FaultKind(
        "machine_checks_corrected",
        "processors or firmware reported errors, all corrected",
        "",
        (
            r"mce: \[Hardware Error\]: Machine check events logged",
            r"\[Hardware Error\]: Corrected error, no action required\.",
            r"\{\d{1,9}\}\[Hardware Error\]: event severity: corrected",
        ),
        AtMost(
            MCELOG + "[socket] mem-ce-error-threshold = 100 / 24h",
            warn=100,
            confidence="published",
        ),
        counted=True,
    ),
    FaultKind(
        "firmware_errors",
        "the firmware reported an error of the hardware that was not corrected",
        "firmware",
        (r"(?:\{\d{1,9}\})?\[Hardware Error\]: event severity: (?P<severity>fatal|recoverable)",),
        _none(
            "Linux, drivers/acpi/apei/ghes.c, bert.c and drivers/firmware/efi/cper.c: severity "
            "fatal or recoverable; one of the boot before counts for a day"
        ),
    ),
    FaultKind(
        "card_halted",
        "the firmware of a network card does not answer",
        "",
        (
            MLX5 + r"device's health compromised - reached miss count",
            MLX5 + r"Fatal error \d{1,5} detected",
            MLX5 + r"health recovery failed",
        ),
        _none(HEALTH + "health.c, poll_health", fails=True),
        over=MLX5 + r"health recovery succeeded",
        lasts=True,
    ),
    FaultKind(
        "card_hot",
        "a network card or its module says that it is too warm",
        "",
        (
            MLX5 + r"High temperature on sensors with bit set",
            MLX5 + r"synd 0x10: High temperature",
            MLX5 + r"Port module event\[error\]: module \d{1,3}, Cable error, High Temperature",
        ),
        _none(HEALTH + "events.c, temp_warn and port_module"),
    ),
    FaultKind(
        "cable_refused",
        "a network card does not accept the cable or module of a port",
        "",
        (
            MLX5 + r"Port module event\[error\]: (?P<module>module \d{1,3}), "
            r"(?!Cable error, High Temperature)",
        ),
        _none(HEALTH + "events.c, port_module"),
        over=MLX5 + r"Port module event: (?P<module>module \d{1,3}), Cable (?:un)?plugged",
        lasts=True,
    ),
    FaultKind(
        "dma_refused",
        "the IOMMU refused an access of a GPU, a network card or a drive to memory",
        "",
        (
            r"DMAR: \[DMA (?:Read|Write)[ \w]{0,12}\] Request device \[%s\]" % BUS,
            r"[\w-]{1,30} %s: AMD-Vi: Event logged \[IO_PAGE_FAULT " % PCI,
            r"AMD-Vi: Event logged \[IO_PAGE_FAULT device=(?:[0-9a-f]{4}:)?%s " % BUS,
        ),
        _none(
            "Linux, drivers/iommu/intel/dmar.c, dmar_fault_do_one, and drivers/iommu/amd/iommu.c, "
            "amd_iommu_report_page_fault: the access did not take place"
        ),
        while_booting=False,
    ),
    FaultKind(
        "drive_errors",
        "a drive did not answer or reported an error",
        "drive",
        (
            r"nvme (?P<drive>nvme\d{1,4}): I/O .{1,80}? timeout, "
            r"(?:aborting|reset controller|disable controller)",
            r"nvme (?P<drive>nvme\d{1,4}): controller is down; will reset",
            r"nvme (?P<drive>nvme\d{1,4}): (?:Device not ready|Removing after probe failure)",
            r"(?:blk_update_request: |print_req_error: )?(?:I/O|critical medium|critical target) "
            r"error, dev (?P<drive>nvme\d{1,4}|sd[a-z]{1,3}|vd[a-z]{1,3})(?:c\d+)?(?:n\d+)?,",
        ),
        _none("Linux, drivers/nvme/host/pci.c, nvme_timeout, and block/blk-mq.c, blk_errors"),
    ),
    FaultKind(
        "stuck_tasks",
        "a process waited for two minutes or more for a driver or a disk",
        "task",
        (
            r"INFO: task (?P<task>[\w./:-]{1,40}):\d{1,9} blocked (?:on [\w-]{1,30},? )?"
            r"for more than \d{1,6} seconds",
        ),
        _none("Linux, kernel/hung_task.c: a task in uninterruptible sleep"),
    ),
    FaultKind(
        "stuck_cpus",
        "a CPU ran in the kernel without a pause for 20 s or more",
        "cpu",
        (
            r"(?:watchdog: )?BUG: soft lockup - CPU#(?P<cpu>\d{1,5}) stuck",
            r"(?:NMI )?watchdog: (?:BUG: )?Watchdog detected hard LOCKUP on cpu (?P<cpu>\d{1,5})",
        ),
        _none("Linux, kernel/watchdog.c: twice watchdog_thresh, 10 s by default"),
        while_booting=False,
    ),
    FaultKind(
        "kernel_bugs",
        "the kernel met an error of its own and went on without what it was doing",
        "",
        (
            r"BUG: unable to handle ",
            r"BUG: kernel NULL pointer dereference",
            r"kernel BUG at ",
            r"Oops: ",
            r"general protection fault",
            r"Internal error: Oops",
        ),
        _none(
            "Linux, admin-guide/tainted-kernels, D: the kernel died recently, OOPS or BUG; locks "
            "that the thread held stay held until a restart",
            fails=True,
        ),
        lasts=True,
    ),
)
WORDS = (
    *("EDAC MC", "Hardware Error]", "Uncorrected hardware memory error", "mlx5_core ", "DMAR: ["),
    *("IO_PAGE_FAULT", "nvme nvme", " error, dev ", " blocked ", "lockup", "LOCKUP", "BUG: "),
    *("kernel BUG at ", "Oops", "general protection fault"),
)
"""One of them is in every line of the table."""

_LINES: Tuple[Tuple[FaultKind, Pattern[str], bool], ...] = tuple(
    (kind, re.compile(line), False) for kind in KINDS for line in kind.lines
) + tuple((kind, re.compile(kind.over), True) for kind in KINDS if kind.over)
_DETAIL = re.compile(
    r"(?:\{\d{1,9}\})?\[Hardware Error\]:\s+"
    r"(?:section[_ ]type: (?P<section>[\w ,/-]{1,60})|DIMM location: (?P<dimm>[^\x00]{1,60})|"
    r"device_id: (?P<device>[0-9a-f:.]{1,16}))"
)


class KernelFault(NamedTuple):
    """What the kernel wrote of one thing: its kind, subject, how often, and the latest line."""

    kind: FaultKind
    subject: str
    events: int
    text: str


class _LogLine(NamedTuple):
    kind: FaultKind
    subject: str
    is_over: bool
    errors: int
    age_s: float
    text: str


def faults(
    messages: Sequence[KernelMessage], uptime_s: float, things: Mapping[str, str]
) -> List[KernelFault]:
    """Return what the kernel's messages say of faults, each kind and subject once.

    ``things`` are the names, by PCI address, of the devices that count: an access that was refused
    to another one says nothing, and an address without a domain is that of one of these.
    """
    lines: Dict[Tuple[str, str], List[_LogLine]] = {}
    for line in _read(messages[-MESSAGE_LIMIT:], things):
        if line.is_over:
            lines.pop((line.kind.metric, line.subject), None)
            continue
        if not (line.kind.lasts or line.age_s <= DAY_S):
            continue
        if not line.kind.while_booting and uptime_s - line.age_s < START_S:
            continue
        lines.setdefault((line.kind.metric, line.subject), []).append(line)
    return [_fault(alike) for alike in lines.values()]


def _fault(alike: List[_LogLine]) -> KernelFault:
    last = alike[-1]
    if last.kind.counted:
        events = sum(line.errors for line in alike)
    else:
        events = xids.incidents(line.age_s for line in alike)
    return KernelFault(last.kind, last.subject, events, last.text)


def _read(messages: Sequence[KernelMessage], things: Mapping[str, str]) -> Iterator[_LogLine]:
    for place, message in enumerate(messages):
        for kind, pattern, is_over in _LINES:
            match = pattern.match(message.text)
            if match is None:
                continue
            line = _line(kind, match, is_over, message, things)
            if line is None:
                break
            if kind.metric == "firmware_errors":
                details = _details(messages[place + 1 : place + 30])
                line = line._replace(text="; ".join([line.text, *details])[:CUT])
            yield line
            break


def _line(
    kind: FaultKind,
    match: Match[str],
    is_over: bool,
    message: KernelMessage,
    things: Mapping[str, str],
) -> Optional[_LogLine]:
    groups = {name: value for name, value in match.groupdict().items() if value}
    errors = int(groups.pop("count", 1))
    status = groups.pop("status", "")
    if status and not int(status, 16) >> UNCORRECTED_BIT & 1:
        kind = CORRECTED_CHECKS
        groups.clear()
    address = groups.pop("pci", "") or _whole(groups.pop("bus", ""), things)
    if kind.metric == "dma_refused" and address not in things:
        return None
    if "label" in groups:
        groups.pop("mc")
    thing = things.get(address, "pci " + address) if address else kind.thing
    subject = " ".join([thing, *(value.strip() for value in groups.values())]).strip() or "node"
    return _LogLine(kind, subject, is_over, errors, message.age_s, message.text[:CUT])


CORRECTED_CHECKS = next(kind for kind in KINDS if kind.metric == "machine_checks_corrected")


def _whole(bus: str, things: Mapping[str, str]) -> str:
    """Return the whole address of a device whose domain the line leaves out."""
    return next((thing for thing in things if bus and thing.endswith(":" + bus)), bus)


def _details(messages: Sequence[KernelMessage]) -> Iterator[str]:
    """Yield what the lines after an error record's first name: its section, DIMM or device."""
    for message in messages:
        if "event severity: " in message.text:
            return
        match = _DETAIL.match(message.text)
        if match:
            yield next(filter(None, match.groups())).strip()
