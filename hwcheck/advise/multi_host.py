"""What to do about hosts and links that stand out among several hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hwcheck.advise.records import Action
from hwcheck.advise.remedies import REMEDY_OF
from hwcheck.checks.shared.leg_checks import BUSBW_GBPS
from hwcheck.contract.reasons import FABRIC_BETWEEN, NO_PART, NOT_PINNED, STUCK
from hwcheck.judge.leg_peers import WAY
from hwcheck.judge.mnnvl import METRIC as MNNVL_BUSBW
from hwcheck.judge.mnnvl import NOT_IN_USE
from hwcheck.judge.records import MULTI_HOST, Finding
from hwcheck.results.multi_host import MultiHostRecord, Suspect
from hwcheck.text import line

MOST_LINES = 8
REMEDIES = {
    "hang": (
        "its ranks stand still or never arrive: a process that is stopped or stuck in a driver, or "
        "packets that are dropped (firewall, MTU, a port that is down)",
        "read its stacks in the run folder, then its kernel log and the counters of its ports",
    ),
    "wrong": (
        "data is damaged on its way out of or into this host: memory, PCIe, a network card or a "
        "cable whose errors are not caught",
        "take it out of service; read ECC, AER and port error counters, then exchange parts",
    ),
    "failed": (
        "its ranks end with an error of their own",
        "read the last lines of its log in the run folder",
    ),
    "slow": (
        "its link runs at a lower speed or width, drops packets, or goes another way than those "
        "of the others",
        "compare its link speed, width and error counters with those of a host that is fine",
    ),
}
"""Likely cause and what to do, by the kind of suspect."""

BETWEEN = {
    WAY: (
        "a host among others: NCCL goes another way",
        "settings of NCCL, the topology file, a port or a link that this host alone has otherwise",
        "compare its NCCL settings in force, active ports and paths between GPUs and cards with "
        "those of another host",
        "env | grep NCCL_; cat /etc/nccl.conf; nvidia-smi topo -m",
    ),
    "gpudirect_used": (
        "runs over several hosts: GPUDirect RDMA is not used",
        "NCCL_NET_GDR_LEVEL or NCCL_DMABUF_ENABLE=0 in force, access control on PCIe switches, or "
        "a container without the host's libibverbs",
        "take the settings out of force and look at pcie_acs and iommu",
        "env | grep -E 'NCCL_(NET_GDR|DMABUF)'; NCCL_DEBUG=INFO shows GDRDMA where it is used",
    ),
    "network_ports": (
        "runs over several hosts: few of the RDMA ports are used",
        "NCCL_IB_HCA names too few ports, or a job sees no more of them",
        "take NCCL_IB_HCA out of force or name every compute port in it",
        "env | grep NCCL_IB_HCA; rdma link",
    ),
    "ranks_missing": (
        "runs over several hosts: GPUs had no rank",
        "CUDA sees fewer GPUs than NVML: CUDA_VISIBLE_DEVICES, a container, or a GPU that does "
        "not start",
        "compare what CUDA and nvidia-smi count on the host, and read its kernel log",
        "nvidia-smi -L; env | grep CUDA_VISIBLE_DEVICES; sudo dmesg | grep -E 'NVRM|Xid'",
    ),
    "left_over": (
        "runs over several hosts: a process cannot be ended",
        REMEDY_OF[STUCK].cause,
        REMEDY_OF[STUCK].fix,
        REMEDY_OF[STUCK].command,
    ),
    "pairs_gbps": (
        "a host among others: somewhat slower in every pair",
        "a link of one of its cards, its PCIe slot or its cable, or a longer way to the others",
        "compare speed, width and error counters of its ports and slots with another host's; look "
        "at the switch that it hangs on",
        "rdma link; ibstat; mlxlink -d mlx5_0 -c",
    ),
}
"""Title, likely cause, what to do and a command, by the metric of a warning."""


FABRIC_TITLE = "what connects groups of hosts, not the hosts"
FABRIC_FIX = REMEDY_OF[FABRIC_BETWEEN].fix


def multi_host_actions(record: MultiHostRecord) -> tuple[Action, ...]:
    """Return what to do about the suspects, one action for each kind and shape, and the rest."""
    by_kind: dict[tuple[str, int], list[Suspect]] = {}
    for suspect in record.suspects:
        by_kind.setdefault((suspect.kind, len(suspect.hosts)), []).append(suspect)
    made = [_action(kind, suspects) for (kind, _), suspects in by_kind.items()]
    fabric = [_fabric(record)] if record.fabric else []
    return (*made, *fabric, *_unmeasured(record))


def slow_fabric_actions(findings: Iterable[Finding]) -> tuple[Action, ...]:
    """Return what to do where no host stands out and all are below what their network carries."""
    slow: dict[str, dict[str, str]] = {}
    for finding in findings:
        if (finding.check, finding.metric, finding.outcome) == (
            MULTI_HOST,
            BUSBW_GBPS.name,
            "warn",
        ):
            slow.setdefault(finding.subject, {})[finding.host] = finding.reason.text
    return tuple(
        Action(
            check=MULTI_HOST,
            outcome="warn",
            cause="what all have in common is slow: switches, their uplinks or routing, a limit of "
            "the ports' rate, PFC or ECN of a RoCE fabric, or NCCL settings of all hosts",
            fix="measure one pair with ib_write_bw or iperf3: where that is slow too look at the "
            "switches between them, otherwise at the NCCL settings in force",
            command="ib_write_bw -d mlx5_0 --report_gbits HOST; iperf3 -c HOST -P 8",
            role="",
            hosts=tuple(by_host),
            evidence=tuple(dict.fromkeys(line(reason) for reason in by_host.values()))[:MOST_LINES],
            title=f"the fabric as a whole: slow ({scope})",
        )
        for scope, by_host in slow.items()
    )


def mnnvl_actions(findings: Iterable[Finding]) -> tuple[Action, ...]:
    """Return what to do where hosts of one NVLink domain do not use NVLink between them."""
    unused = {
        finding.host: finding.reason.text
        for finding in findings
        if (finding.check, finding.metric, finding.outcome) == (MULTI_HOST, MNNVL_BUSBW, "warn")
    }
    if not unused:
        return ()
    action = Action(
        check=MULTI_HOST,
        outcome="warn",
        cause="IMEX is not running on every tray, has no channel or lists other trays; their "
        "cliques differ; or NCCL is older than 2.21, or runs with NCCL_CUMEM_ENABLE=0",
        fix="look at the check imex of these hosts and at the state of the IMEX domain, then at "
        "cluster UUID and clique, then at the NCCL settings in force",
        command="nvidia-imex-ctl -H -N; nvidia-smi -q | grep -A8 Fabric; env | grep NCCL_",
        role="",
        hosts=tuple(unused),
        evidence=tuple(dict.fromkeys(map(line, unused.values())))[:MOST_LINES],
        title=NOT_IN_USE,
    )
    return (action,)


def between_hosts_actions(findings: Iterable[Finding]) -> tuple[Action, ...]:
    """Return what to do about what hosts do otherwise than the others, one action for each."""
    named: dict[str, dict[str, list[str]]] = {}
    for finding in findings:
        if (finding.check, finding.outcome) == (MULTI_HOST, "warn") and finding.metric in BETWEEN:
            by_host = named.setdefault(finding.metric, {})
            by_host.setdefault(finding.host, []).append(line(finding.reason.text))
    made = []
    for metric, by_host in named.items():
        title, cause, fix, command = BETWEEN[metric]
        lines = dict.fromkeys(
            f"{host}: {text}" for host, reasons in by_host.items() for text in reasons
        )
        evidence = tuple(lines)[:MOST_LINES]
        action = Action(
            MULTI_HOST, "warn", cause, fix, command, "", tuple(by_host), evidence, title
        )
        made.append(action)
    return tuple(made)


def _fabric(record: MultiHostRecord) -> Action:
    return Action(
        check=MULTI_HOST,
        outcome="fail",
        cause=REMEDY_OF[FABRIC_BETWEEN].cause,
        fix=FABRIC_FIX,
        command="",
        role="",
        hosts=record.hosts,
        evidence=tuple(map(line, record.fabric))[:MOST_LINES],
        title=FABRIC_TITLE,
    )


def _action(kind: str, suspects: list[Suspect]) -> Action:
    cause, fix = REMEDIES[kind]
    hosts = dict.fromkeys(host for suspect in suspects for host in suspect.hosts)
    link = len(suspects[0].hosts) > 1
    return Action(
        check=MULTI_HOST,
        outcome="fail",
        cause=cause.replace("this host", "one of these hosts") if link else cause,
        fix=fix,
        command="",
        role="",
        hosts=tuple(hosts),
        evidence=tuple(_lines(suspects)),
        title=f"{'a link between hosts' if link else 'a host among others'}: {kind}",
    )


def _lines(suspects: Iterable[Suspect]) -> Iterator[str]:
    for suspect in suspects:
        about = f"{' with '.join(suspect.hosts)}: "
        for text in suspect.evidence:
            named = all(host in text for host in suspect.hosts)
            yield line(text) if named else about + line(text)


def _unmeasured(record: MultiHostRecord) -> Iterator[Action]:
    for code in dict.fromkeys(reason.code for reason in record.absent.values()):
        remedy = REMEDY_OF.get(code, REMEDY_OF[NO_PART])
        lines = {
            host: f"{host}: {line(reason.text)}"
            for host, reason in record.absent.items()
            if reason.code == code
        }
        yield _open(
            "hosts that took no part in the runs over several hosts",
            remedy.cause,
            remedy.fix,
            tuple(lines),
            tuple(lines.values()),
            remedy.command,
        )
    if record.not_compared:
        yield _open(
            "hosts that are slower than others and unlike them",
            "another kind of host may rightly reach less, and there are too few of this kind to "
            "tell",
            "run the hosts of this kind by themselves (--limit), three and more, or hold them "
            "against what they were bought for",
            tuple(record.not_compared),
            tuple(f"{host}: {line(reason)}" for host, reason in record.not_compared.items()),
        )
    if record.open_ends:
        yield _open(
            "what went wrong between hosts and could be pinned on none",
            REMEDY_OF[NOT_PINNED].cause,
            REMEDY_OF[NOT_PINNED].fix,
            record.hosts,
            tuple(line(reason.text) for reason in record.open_ends),
        )


def _open(
    title: str,
    cause: str,
    fix: str,
    hosts: tuple[str, ...],
    evidence: tuple[str, ...],
    command: str = "",
) -> Action:
    return Action(MULTI_HOST, "inconclusive", cause, fix, command, "", hosts, evidence, title)
