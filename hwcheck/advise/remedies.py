"""What each code of a reason means, what it points at, and what to do about it.

Beside ``contract.reasons``, which travels in the payload: a node needs no remedies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hwcheck.contract.reasons import (
    AT_WORK,
    CHANGED,
    COMES_AND_GOES,
    COUNT_IN_DOUBT,
    CRASHED,
    CUT_OFF,
    DRIFTS,
    DRIVER_BROKEN,
    FABRIC_BETWEEN,
    GIVEN_UP,
    GPU_EXCLUSIVE,
    GPU_LOST,
    GREW,
    HANG,
    IDLE_CARDS,
    IMPLAUSIBLE,
    INTERRUPTED,
    LOG_LOST,
    MIG,
    NO_ANSWER,
    NO_IDENTIFIER,
    NO_PART,
    NO_PERMISSION,
    NO_REFERENCE,
    NO_TORCH,
    NOT_ANSWERED,
    NOT_APPLICABLE,
    NOT_IDLE,
    NOT_MEASURED,
    NOT_OFFERED,
    NOT_PINNED,
    NOT_REACHED,
    NOTHING_APPLIES,
    ON_A_BORDER,
    OTHER_WAY,
    OUT_OF_BUDGET,
    OUT_OF_MEMORY,
    OUT_OF_TIME,
    RANK_FAILED,
    RUNS_CUT_SHORT,
    SAME_IDENTIFIER,
    SAME_MACHINE,
    SILENT,
    STUCK,
    SUSPECT,
    TOO_FEW_HOSTS,
    UNDER_WAY,
    UNKNOWN_CHECK,
    UNKNOWN_METRIC,
    UNPROVEN,
    VISIT_ENDED,
    WRONG_LOSS,
)


@dataclass(frozen=True)
class ReasonRemedy:
    """What a code means, what it points at, and what to do about it.

    ``command`` is one for the host that shows it, ``role`` an Ansible role that mends it. Where
    ``by_text``, its reasons have several causes, which their texts tell apart: those whose texts
    are alike are one action, with the command of their check where ``command`` is empty.
    """

    meaning: str
    cause: str
    fix: str
    command: str = ""
    role: str = ""
    by_text: bool = False


_RUN_AGAIN = "run again"

REMEDY_OF: Mapping[str, ReasonRemedy] = {
    NO_PERMISSION: ReasonRemedy(
        "the user that measures may not read it",
        "the login has too few rights",
        "set ansible_become for the host, or let the login read what the evidence names (group adm "
        "for logs); a container is shown less than its node",
        "id; sudo -n true",
    ),
    LOG_LOST: ReasonRemedy(
        "the kernel log goes back too short a time",
        "the kernel log has lost its beginning",
        "find what floods it, and keep the journal on disk (Storage=persistent)",
        "journalctl --disk-usage; sudo dmesg | head -n 3",
    ),
    AT_WORK: ReasonRemedy(
        "a job, a process or another hwcheck is at work on the node",
        "the node is at work",
        "run again when it is idle",
        "nvidia-smi; ps aux",
    ),
    NOT_IDLE: ReasonRemedy(
        "a GPU computes for somebody while it is to be idle",
        "somebody computes on a GPU, of this host, a container or a guest",
        "find out who, and run again when it is idle",
        "nvidia-smi; ps aux",
    ),
    NO_TORCH: ReasonRemedy(
        "there is no torch that can measure",
        "torch is missing or does not run",
        "set hwcheck_torch_python to a Python with torch; the role brings one",
        "python3 -c 'import torch; print(torch.__version__, torch.version.cuda)'",
        "validation_env",
    ),
    MIG: ReasonRemedy(
        "a GPU is split into instances, and the driver keeps it back",
        "MIG is on",
        "take the GPU out of MIG mode to measure it, or leave what is named out with --skip",
        "nvidia-smi --query-gpu=index,mig.mode.current --format=csv",
    ),
    OUT_OF_BUDGET: ReasonRemedy(
        "the visit's budget of time was spent",
        "the time budget ended first",
        "run again with --profile standard",
    ),
    CRASHED: ReasonRemedy(
        "the check raised what nobody foresaw",
        "a defect of hwcheck or an unforeseen node",
        "report it with the host's log",
    ),
    UNKNOWN_METRIC: ReasonRemedy(
        "the node sent what this version does not declare",
        "the node runs another version of hwcheck",
        "run again with this version",
    ),
    UNKNOWN_CHECK: ReasonRemedy(
        "the run asked for a check that this version does not have",
        "the run was made by another version of hwcheck, or with a site's folder that is missing",
        "judge it with that version, or with that folder (--site)",
    ),
    NOTHING_APPLIES: ReasonRemedy(
        "none of the checks that were asked for applies",
        "nothing that was asked for applies: the host has no such hardware, and none is declared",
        "declare hwcheck_gpus if it should have GPUs; otherwise ask for other checks or leave it "
        "out with --limit",
    ),
    NOT_REACHED: ReasonRemedy(
        "the visit ended before the check's turn",
        "the visit ended before the check's turn",
        "see why it ended, then run again",
    ),
    NOT_ANSWERED: ReasonRemedy(
        "the report of the node holds nothing of it",
        "the node left out what it was asked for",
        "look at its log in the run folder, and run again",
    ),
    UNDER_WAY: ReasonRemedy(
        "the visit is under way",
        "the visit has not ended yet",
        "wait for the run to end",
    ),
    CUT_OFF: ReasonRemedy(
        "the run itself ended while the host was visited",
        "hwcheck itself was killed, or its machine went down, while this host was measured",
        "run again; on the host nothing of ours outlives the connection",
    ),
    INTERRUPTED: ReasonRemedy(
        "the run was stopped by its operator",
        "the run was stopped while this host was measured",
        _RUN_AGAIN,
    ),
    GIVEN_UP: ReasonRemedy(
        "the scheduler wants the node",
        "a job began on the host, or was about to, while it was measured",
        "nothing: the next sweep begins with it",
    ),
    OUT_OF_TIME: ReasonRemedy(
        "the time of the sweep is over",
        "the time of the sweep was over while this host was measured",
        "nothing; where it happens often, raise the budget of the level",
    ),
    NO_PART: ReasonRemedy(
        "the host took no part in the runs over several hosts",
        "the host took no part in the runs over several hosts",
        "the evidence says what kept it away: let it be reached, end what is at work on it, or "
        "give it a torch (hwcheck_torch_python); then run again",
    ),
    SILENT: ReasonRemedy(
        "the host gives no sign of life any more, or no answer to an order",
        "the host stopped answering while it measured: a crash, a reboot or a hung driver",
        "look at the host's kernel log around the time of the run, then run again",
        "sudo dmesg -T | tail -n 50",
    ),
    STUCK: ReasonRemedy(
        "a process cannot be ended: it is stuck in the kernel",
        "a process is stuck in a driver: that of the GPU or of the network card",
        "read its stack and the kernel log, then restart the node",
        "ps -eo pid,stat,wchan,comm | grep ' D'; sudo dmesg | tail -n 30",
    ),
    FABRIC_BETWEEN: ReasonRemedy(
        "groups of hosts are fine by themselves, and what connects them is not",
        "a switch, an uplink or a route between them: too few or slow uplinks, one that is down or "
        "drops packets, a wrong MTU or routing table; or too few by design",
        "look at the switches between the groups named below: state, speed and error counters of "
        "their uplinks, and routes; the hosts stay in service, each group by itself; hwcheck "
        "validate --scope rails shows which rails it concerns",
    ),
    NOT_PINNED: ReasonRemedy(
        "something went wrong between hosts and could be pinned on none of them",
        "a fault that comes and goes, or one of what connects the hosts",
        "run again, with more hosts where there are few; look at the switches between them",
    ),
    RUNS_CUT_SHORT: ReasonRemedy(
        "the runs over several hosts, or the training, ended before all was run",
        "they ended for a job, for the time, or with hwcheck",
        _RUN_AGAIN,
    ),
    TOO_FEW_HOSTS: ReasonRemedy(
        "fewer than two hosts took part",
        "fewer than two hosts took part",
        "mend what keeps the others away, or name more hosts, and run again",
    ),
    OUT_OF_MEMORY: ReasonRemedy(
        "the model does not fit by this strategy",
        "the model does not fit by this strategy",
        "take a smaller --micro-batch, or a strategy that shards more",
    ),
    WRONG_LOSS: ReasonRemedy(
        "a strategy computes something else than one process",
        "the strategy computes something else than one process: data that is damaged on its way, "
        "or a torch whose strategy is wrong",
        "see whether the leg p2p_off has the right loss: then peer access damages data; where "
        "every leg is wrong, another torch",
    ),
    RANK_FAILED: ReasonRemedy(
        "a rank ended early or with an error",
        "a rank broke",
        "the reason names rank and host; its last lines are in the report",
    ),
    SUSPECT: ReasonRemedy(
        "runs over several hosts blame the host or a link of it",
        "a host or a link that does less than the others",
        "see the action about it: what it names is swapped or compared",
    ),
    ON_A_BORDER: ReasonRemedy(
        "the figure scatters over a border",
        "the figure lies on a border and scatters over it",
        "see that nothing else runs on the node and measure again; the run itself did so once",
    ),
    IMPLAUSIBLE: ReasonRemedy(
        "the answer contradicts what else the node says, or what is possible",
        "the node's answer cannot be true, or what the inventory declares is wrong",
        "compare the evidence with the node itself; correct the hwcheck_ variable that it names, "
        "or else report it with the host's log in the run folder",
        by_text=True,
    ),
    NO_REFERENCE: ReasonRemedy(
        "there is nothing to hold the value against",
        "nothing says what the value should be: it is not declared, not in the model's page, and "
        "too few hosts or GPUs are alike",
        "declare what the evidence names in the inventory (hwcheck_limits holds any metric against "
        "a limit of yours), or measure three or more alike hosts in one run",
        by_text=True,
    ),
    SAME_MACHINE: ReasonRemedy(
        "two names of the inventory seem to be one machine",
        "two names of the inventory lead to one machine",
        "correct ansible_host of one of them, or leave one out",
    ),
    VISIT_ENDED: ReasonRemedy(
        "the visit ended otherwise; its phase says where",
        "the connection broke, or the host refused a step of the visit",
        "see that ssh reaches the host as the inventory says and read its log in the run folder, "
        "then run again",
        by_text=True,
    ),
    NOT_MEASURED: ReasonRemedy(
        "something else kept it from being measured; the text says what and why",
        "the host does not give the value, or the measurement broke off",
        "see what the host itself says of what the evidence names (kernel log, the command here), "
        "and read its log in the run folder; then run again",
        by_text=True,
    ),
    NOT_APPLICABLE: ReasonRemedy(
        "it has no meaning on this node",
        "the node does not have what the check is about",
        "nothing: it is left out and does not count against coverage",
        by_text=True,
    ),
    IDLE_CARDS: ReasonRemedy(
        "network cards for RDMA are on the bus and no driver offers RDMA",
        "cards for RDMA are there without their driver",
        "load mlx5_ib, or install the network driver",
        "lspci | grep -i -E 'infiniband|mellanox'; rdma link",
        "rdma",
    ),
    OTHER_WAY: ReasonRemedy(
        "NCCL went another way than the leg is to measure",
        "NCCL or a setting of the node leaves it no such way: NCCL_* in the environment or in a "
        "nccl.conf, peer access that is off, or no such links between these GPUs",
        "take NCCL_* settings out of force and run again; where it stays, the node has no such "
        "way: leave the leg out with --legs",
        "env | grep NCCL_; cat /etc/nccl.conf ~/.nccl.conf; nvidia-smi topo -m",
        by_text=True,
    ),
    UNPROVEN: ReasonRemedy(
        "nothing proves that it was done the way that it is to measure",
        "NCCL does not log what it did: its log is turned off or elsewhere, or its version words "
        "it in another way",
        "unset NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE in the environment and nccl.conf, "
        "and run again; otherwise use another NCCL",
        "env | grep NCCL_; cat /etc/nccl.conf ~/.nccl.conf",
        by_text=True,
    ),
    NOT_OFFERED: ReasonRemedy(
        "the library does not offer it",
        "this version of the library cannot do what was asked of it",
        "use a newer torch (hwcheck_torch_python), or leave the collective out with --collectives",
        "python3 -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'",
        by_text=True,
    ),
    GPU_EXCLUSIVE: ReasonRemedy(
        "CUDA says that a GPU is busy or unavailable",
        "the compute mode keeps a second process off the GPU",
        "set it back with nvidia-smi -c 0",
        "nvidia-smi --query-gpu=index,compute_mode --format=csv",
    ),
    GREW: ReasonRemedy(
        "a counter grew faster than it did",
        "errors of a part that wears, or of a link or slot that loosens",
        "find the part by the subject and read the kernel log since the former run; plan its "
        "exchange while it still works",
        "sudo dmesg -T | tail -n 50",
        by_text=True,
    ),
    COMES_AND_GOES: ReasonRemedy(
        "a figure is good on some nights and bad on others",
        "a loose contact, heat by the hour, or another's work at the time of some runs",
        "compare temperature, clocks and the node's jobs of good and bad nights; reseat the part "
        "where they do not explain it",
        "nvidia-smi -q -d TEMPERATURE,CLOCK,PERFORMANCE",
        by_text=True,
    ),
    DRIFTS: ReasonRemedy(
        "a figure gets worse night by night",
        "dust, a fan or a pump that weakens, or a part that wears",
        "look at temperatures, fans and filters first; where they are well, at the part",
        "nvidia-smi -q -d TEMPERATURE,POWER; sudo ipmitool sdr type fan",
        by_text=True,
    ),
    CHANGED: ReasonRemedy(
        "a figure became worse from one run to the next, or is held against another",
        "something was done to the node between the two runs: software, a setting, a part",
        "find what: hwcheck compare shows everything that differs between two runs",
        by_text=True,
    ),
    HANG: ReasonRemedy(
        "copies or ranks stood still and were killed; what came after them was not measured",
        "GPUs wait for each other: peer access that does not work, a link that lost its other end",
        "read the stacks in the report; hwcheck validate times each collective under every leg",
        "nvidia-smi topo -p2p r",
    ),
    COUNT_IN_DOUBT: ReasonRemedy(
        "counts of GPUs contradict each other, or what ran did not run on them all",
        "hwcheck_gpus is wrong, a GPU is lost, or the login, container or CUDA_VISIBLE_DEVICES "
        "shows only some of them",
        "compare what the bus, the driver and CUDA count; correct hwcheck_gpus, or bring back the "
        "GPU that is missing",
        "lspci -d 10de:; nvidia-smi -L; env | grep CUDA_VISIBLE_DEVICES; sudo dmesg | grep Xid",
        by_text=True,
    ),
    SAME_IDENTIFIER: ReasonRemedy(
        "two GPUs carry one identifier",
        "boards carry one identifier",
        "have the boards replaced whose infoROM was written with another board's content",
        "nvidia-smi -L",
    ),
    NO_IDENTIFIER: ReasonRemedy(
        "a GPU tells no identifier",
        "the GPU does not answer the driver, or its infoROM cannot be read",
        "reset the GPU or power the node off and on; where it still tells none, have the board "
        "replaced",
        "nvidia-smi -L; nvidia-smi --query-gpu=index,uuid,serial --format=csv; sudo dmesg | grep "
        "Xid",
        by_text=True,
    ),
    DRIVER_BROKEN: ReasonRemedy(
        "NVML finds no driver, or one in two versions",
        "the NVIDIA driver does not run here",
        "install the driver and its kernel module in one version, then reboot",
        "nvidia-smi; cat /proc/driver/nvidia/version",
        "nvidia_driver",
    ),
    GPU_LOST: ReasonRemedy(
        "NVML says that the GPU is lost or waits for a reset",
        "a GPU is lost, or waits for a reset",
        "drain the node; reset the GPU, or power the node off and on",
        "nvidia-smi -L; sudo dmesg | grep Xid",
    ),
    NO_ANSWER: ReasonRemedy(
        "the driver did not answer in time",
        "the driver does not answer",
        "drain the node and reboot it; read the kernel log for what came before",
        "timeout 20 nvidia-smi; sudo dmesg -T | tail -n 30",
    ),
}
"""Every code of ``reasons.CODES``."""
