"""Why something was not measured, or what a finding means: a code that decides, and free words.

Standard library only, Python 3.8: this module travels in the payload. Rules, remedies and folding
ask the code; the text is for people, and no decision hangs on its words.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Tuple


@dataclass(frozen=True)
class Code:
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


# Of a check that could not measure.
NO_PERMISSION = "no_permission"
AT_WORK = "at_work"
NOT_IDLE = "not_idle"
NO_TORCH = "no_torch"
LOG_LOST = "log_lost"
MIG = "mig"
OUT_OF_BUDGET = "out_of_budget"
COUNT_IN_DOUBT = "count_in_doubt"
NO_IDENTIFIER = "no_identifier"
SAME_IDENTIFIER = "same_identifier"
CRASHED = "crashed"
NOT_MEASURED = "not_measured"
DRIVER_BROKEN = "driver_broken"
GPU_LOST = "gpu_lost"
NO_ANSWER = "no_answer"

# Of an answer that the controller does not have or does not take.
UNKNOWN_METRIC = "unknown_metric"
UNKNOWN_CHECK = "unknown_check"
NOTHING_APPLIES = "nothing_applies"
NOT_REACHED = "not_reached"
NOT_ANSWERED = "not_answered"
IMPLAUSIBLE = "implausible"
NO_REFERENCE = "no_reference"
ON_A_BORDER = "on_a_border"
SAME_MACHINE = "same_machine"

# Of a visit.
UNDER_WAY = "under_way"
CUT_OFF = "cut_off"
INTERRUPTED = "interrupted"
GIVEN_UP = "given_up"
OUT_OF_TIME = "out_of_time"
VISIT_ENDED = "visit_ended"

# Of a check that does not apply.
NOT_APPLICABLE = "not_applicable"
IDLE_CARDS = "idle_cards"

# Of a leg.
OTHER_WAY = "other_way"
UNPROVEN = "unproven"
GPU_EXCLUSIVE = "gpu_exclusive"
NOT_OFFERED = "not_offered"

# Of runs over several hosts and of training.
NO_PART = "no_part"
SILENT = "silent"
STUCK = "stuck"
FABRIC_BETWEEN = "fabric_between"
NOT_PINNED = "not_pinned"
RUNS_CUT_SHORT = "runs_cut_short"
TOO_FEW_HOSTS = "too_few_hosts"
SUSPECT = "suspect"
WRONG_LOSS = "wrong_loss"
HANG = "hang"
RANK_FAILED = "rank_failed"
OUT_OF_MEMORY = "out_of_memory"

# Of a figure that is not what it was.
GREW = "grew"
COMES_AND_GOES = "comes_and_goes"
DRIFTS = "drifts"
CHANGED = "changed"

_RUN_AGAIN = "run again"

CODES: Mapping[str, Code] = {
    NO_PERMISSION: Code(
        "the user that measures may not read it",
        "the login has too few rights",
        "set ansible_become for the host, or let the login read what the evidence names (group adm "
        "for logs); a container is shown less than its node",
        "id; sudo -n true",
    ),
    LOG_LOST: Code(
        "the kernel log goes back too short a time",
        "the kernel log has lost its beginning",
        "find what floods it, and keep the journal on disk (Storage=persistent)",
        "journalctl --disk-usage; sudo dmesg | head -n 3",
    ),
    AT_WORK: Code(
        "a job, a process or another hwcheck is at work on the node",
        "the node is at work",
        "run again when it is idle",
        "nvidia-smi; ps aux",
    ),
    NOT_IDLE: Code(
        "a GPU computes for somebody while it is to be idle",
        "somebody computes on a GPU, of this host, a container or a guest",
        "find out who, and run again when it is idle",
        "nvidia-smi; ps aux",
    ),
    NO_TORCH: Code(
        "there is no torch that can measure",
        "torch is missing or does not run",
        "set hwcheck_torch_python to a Python with torch; the role brings one",
        "python3 -c 'import torch; print(torch.__version__, torch.version.cuda)'",
        "validation_env",
    ),
    MIG: Code(
        "a GPU is split into instances, and the driver keeps it back",
        "MIG is on",
        "take the GPU out of MIG mode to measure it, or leave what is named out with --skip",
        "nvidia-smi --query-gpu=index,mig.mode.current --format=csv",
    ),
    OUT_OF_BUDGET: Code(
        "the visit's budget of time was spent",
        "the time budget ended first",
        "run again with --profile standard",
    ),
    CRASHED: Code(
        "the check raised what nobody foresaw",
        "a defect of hwcheck or an unforeseen node",
        "report it with the host's log",
    ),
    UNKNOWN_METRIC: Code(
        "the node sent what this version does not declare",
        "the node runs another version of hwcheck",
        "run again with this version",
    ),
    UNKNOWN_CHECK: Code(
        "the run asked for a check that this version does not have",
        "the run was made by another version of hwcheck, or with a site's folder that is missing",
        "judge it with that version, or with that folder (--site)",
    ),
    NOTHING_APPLIES: Code(
        "none of the checks that were asked for applies",
        "nothing that was asked for applies: the host has no such hardware, and none is declared",
        "declare hwcheck_gpus if it should have GPUs; otherwise ask for other checks or leave it "
        "out with --limit",
    ),
    NOT_REACHED: Code(
        "the visit ended before the check's turn",
        "the visit ended before the check's turn",
        "see why it ended, then run again",
    ),
    NOT_ANSWERED: Code(
        "the report of the node holds nothing of it",
        "the node left out what it was asked for",
        "look at its log in the run folder, and run again",
    ),
    UNDER_WAY: Code(
        "the visit is under way",
        "the visit has not ended yet",
        "wait for the run to end",
    ),
    CUT_OFF: Code(
        "the run itself ended while the host was visited",
        "hwcheck itself was killed, or its machine went down, while this host was measured",
        "run again; on the host nothing of ours outlives the connection",
    ),
    INTERRUPTED: Code(
        "the run was stopped by its operator",
        "the run was stopped while this host was measured",
        _RUN_AGAIN,
    ),
    GIVEN_UP: Code(
        "the scheduler wants the node",
        "a job began on the host, or was about to, while it was measured",
        "nothing: the next sweep begins with it",
    ),
    OUT_OF_TIME: Code(
        "the time of the sweep is over",
        "the time of the sweep was over while this host was measured",
        "nothing; where it happens often, raise the budget of the level",
    ),
    NO_PART: Code(
        "the host took no part in the runs over several hosts",
        "the host took no part in the runs over several hosts",
        "the evidence says what kept it away: let it be reached, end what is at work on it, or "
        "give it a torch (hwcheck_torch_python); then run again",
    ),
    SILENT: Code(
        "the host gives no sign of life any more, or no answer to an order",
        "the host stopped answering while it measured: a crash, a reboot or a hung driver",
        "look at the host's kernel log around the time of the run, then run again",
        "sudo dmesg -T | tail -n 50",
    ),
    STUCK: Code(
        "a process cannot be ended: it is stuck in the kernel",
        "a process is stuck in a driver: that of the GPU or of the network card",
        "read its stack and the kernel log, then restart the node",
        "ps -eo pid,stat,wchan,comm | grep ' D'; sudo dmesg | tail -n 30",
    ),
    FABRIC_BETWEEN: Code(
        "groups of hosts are fine by themselves, and what connects them is not",
        "a switch, an uplink or a route between them: too few or slow uplinks, one that is down or "
        "drops packets, a wrong MTU or routing table; or too few by design",
        "look at the switches between the groups named below: state, speed and error counters of "
        "their uplinks, and routes; the hosts stay in service, each group by itself; hwcheck "
        "validate --scope rails shows which rails it concerns",
    ),
    NOT_PINNED: Code(
        "something went wrong between hosts and could be pinned on none of them",
        "a fault that comes and goes, or one of what connects the hosts",
        "run again, with more hosts where there are few; look at the switches between them",
    ),
    RUNS_CUT_SHORT: Code(
        "the runs over several hosts, or the training, ended before all was run",
        "they ended for a job, for the time, or with hwcheck",
        _RUN_AGAIN,
    ),
    TOO_FEW_HOSTS: Code(
        "fewer than two hosts took part",
        "fewer than two hosts took part",
        "mend what keeps the others away, or name more hosts, and run again",
    ),
    OUT_OF_MEMORY: Code(
        "the model does not fit by this strategy",
        "the model does not fit by this strategy",
        "take a smaller --micro-batch, or a strategy that shards more",
    ),
    WRONG_LOSS: Code(
        "a strategy computes something else than one process",
        "the strategy computes something else than one process: data that is damaged on its way, "
        "or a torch whose strategy is wrong",
        "see whether the leg p2p_off has the right loss: then peer access damages data; where "
        "every leg is wrong, another torch",
    ),
    RANK_FAILED: Code(
        "a rank ended early or with an error",
        "a rank broke",
        "the reason names rank and host; its last lines are in the report",
    ),
    SUSPECT: Code(
        "runs over several hosts blame the host or a link of it",
        "a host or a link that does less than the others",
        "see the action about it: what it names is swapped or compared",
    ),
    ON_A_BORDER: Code(
        "the figure scatters over a border",
        "the figure lies on a border and scatters over it",
        "see that nothing else runs on the node and measure again; the run itself did so once",
    ),
    IMPLAUSIBLE: Code(
        "the answer contradicts what else the node says, or what is possible",
        "the node's answer cannot be true, or what the inventory declares is wrong",
        "compare the evidence with the node itself; correct the hwcheck_ variable that it names, "
        "or else report it with the host's log in the run folder",
        by_text=True,
    ),
    NO_REFERENCE: Code(
        "there is nothing to hold the value against",
        "nothing says what the value should be: it is not declared, not in the model's page, and "
        "too few hosts or GPUs are alike",
        "declare what the evidence names in the inventory (hwcheck_limits holds any metric against "
        "a limit of yours), or measure three or more alike hosts in one run",
        by_text=True,
    ),
    SAME_MACHINE: Code(
        "two names of the inventory seem to be one machine",
        "two names of the inventory lead to one machine",
        "correct ansible_host of one of them, or leave one out",
    ),
    VISIT_ENDED: Code(
        "the visit ended otherwise; its phase says where",
        "the connection broke, or the host refused a step of the visit",
        "see that ssh reaches the host as the inventory says and read its log in the run folder, "
        "then run again",
        by_text=True,
    ),
    NOT_MEASURED: Code(
        "something else kept it from being measured; the text says what and why",
        "the host does not give the value, or the measurement broke off",
        "see what the host itself says of what the evidence names (kernel log, the command here), "
        "and read its log in the run folder; then run again with --only and the check's name",
        by_text=True,
    ),
    NOT_APPLICABLE: Code(
        "it has no meaning on this node",
        "the node does not have what the check is about",
        "nothing: it is left out and does not count against coverage",
        by_text=True,
    ),
    IDLE_CARDS: Code(
        "network cards for RDMA are on the bus and no driver offers RDMA",
        "cards for RDMA are there without their driver",
        "load mlx5_ib, or install the network driver",
        "lspci | grep -i -E 'infiniband|mellanox'; rdma link",
        "rdma",
    ),
    OTHER_WAY: Code(
        "NCCL went another way than the leg is to measure",
        "NCCL or a setting of the node leaves it no such way: NCCL_* in the environment or in a "
        "nccl.conf, peer access that is off, or no such links between these GPUs",
        "take NCCL_* settings out of force and run again; where it stays, the node has no such "
        "way: leave the leg out with --legs",
        "env | grep NCCL_; cat /etc/nccl.conf ~/.nccl.conf; nvidia-smi topo -m",
        by_text=True,
    ),
    UNPROVEN: Code(
        "nothing proves that it was done the way that it is to measure",
        "NCCL does not log what it did: its log is turned off or elsewhere, or its version words "
        "it in another way",
        "unset NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE in the environment and nccl.conf, "
        "and run again; otherwise use another NCCL",
        "env | grep NCCL_; cat /etc/nccl.conf ~/.nccl.conf",
        by_text=True,
    ),
    NOT_OFFERED: Code(
        "the library does not offer it",
        "this version of the library cannot do what was asked of it",
        "use a newer torch (hwcheck_torch_python), or leave the collective out with --collectives",
        "python3 -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'",
        by_text=True,
    ),
    GPU_EXCLUSIVE: Code(
        "CUDA says that a GPU is busy or unavailable",
        "the compute mode keeps a second process off the GPU",
        "set it back with nvidia-smi -c 0",
        "nvidia-smi --query-gpu=index,compute_mode --format=csv",
    ),
    GREW: Code(
        "a counter grew faster than it did",
        "errors of a part that wears, or of a link or slot that loosens",
        "find the part by the subject and read the kernel log since the former run; plan its "
        "exchange while it still works",
        "sudo dmesg -T | tail -n 50",
        by_text=True,
    ),
    COMES_AND_GOES: Code(
        "a figure is good on some nights and bad on others",
        "a loose contact, heat by the hour, or another's work at the time of some runs",
        "compare temperature, clocks and the node's jobs of good and bad nights; reseat the part "
        "where they do not explain it",
        "nvidia-smi -q -d TEMPERATURE,CLOCK,PERFORMANCE",
        by_text=True,
    ),
    DRIFTS: Code(
        "a figure gets worse night by night",
        "dust, a fan or a pump that weakens, or a part that wears",
        "look at temperatures, fans and filters first; where they are well, at the part",
        "nvidia-smi -q -d TEMPERATURE,POWER; sudo ipmitool sdr type fan",
        by_text=True,
    ),
    CHANGED: Code(
        "a figure became worse from one run to the next, or is held against another",
        "something was done to the node between the two runs: software, a setting, a part",
        "find what: hwcheck compare shows everything that differs between two runs",
        by_text=True,
    ),
    HANG: Code(
        "copies or ranks stood still and were killed; what came after them was not measured",
        "GPUs wait for each other: peer access that does not work, a link that lost its other end",
        "read the stacks in the report; hwcheck validate times each collective under every leg",
        "nvidia-smi topo -p2p r",
    ),
    COUNT_IN_DOUBT: Code(
        "counts of GPUs contradict each other, or what ran did not run on them all",
        "hwcheck_gpus is wrong, a GPU is lost, or the login, container or CUDA_VISIBLE_DEVICES "
        "shows only some of them",
        "compare what the bus, the driver and CUDA count; correct hwcheck_gpus, or bring back the "
        "GPU that is missing",
        "lspci -d 10de:; nvidia-smi -L; env | grep CUDA_VISIBLE_DEVICES; sudo dmesg | grep Xid",
        by_text=True,
    ),
    SAME_IDENTIFIER: Code(
        "two GPUs carry one identifier",
        "boards carry one identifier",
        "have the boards replaced whose infoROM was written with another board's content",
        "nvidia-smi -L",
    ),
    NO_IDENTIFIER: Code(
        "a GPU tells no identifier",
        "the GPU does not answer the driver, or its infoROM cannot be read",
        "reset the GPU or power the node off and on; where it still tells none, have the board "
        "replaced",
        "nvidia-smi -L; nvidia-smi --query-gpu=index,uuid,serial --format=csv; sudo dmesg | grep "
        "Xid",
        by_text=True,
    ),
    DRIVER_BROKEN: Code(
        "NVML finds no driver, or one in two versions",
        "the NVIDIA driver does not run here",
        "install the driver and its kernel module in one version, then reboot",
        "nvidia-smi; cat /proc/driver/nvidia/version",
        "nvidia_driver",
    ),
    GPU_LOST: Code(
        "NVML says that the GPU is lost or waits for a reset",
        "a GPU is lost, or waits for a reset",
        "drain the node; reset the GPU, or power the node off and on",
        "nvidia-smi -L; sudo dmesg | grep Xid",
    ),
    NO_ANSWER: Code(
        "the driver did not answer in time",
        "the driver does not answer",
        "drain the node and reboot it; read the kernel log for what came before",
        "timeout 20 nvidia-smi; sudo dmesg -T | tail -n 30",
    ),
}
"""Every code. Of several reasons the first here stands for all (``together``): what a lost GPU or a
driver that hangs does not account for comes before what it does."""

_PLACES = {code: place for place, code in enumerate(CODES)}

# What a GPU or a driver that does not answer has no part in, whatever else it keeps back.
OF_THE_LOGIN = (NO_PERMISSION, LOG_LOST)


@dataclass(frozen=True)
class Reason:
    """Why: ``code`` is one of ``CODES``, or empty of words on which nothing hangs; free ``text``.

    As a text it is its text; without either it is false.
    """

    code: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.text or self.code)

    def __str__(self) -> str:
        return self.text

    def about(self, subject: object) -> Reason:
        """Return it as said of something: ``gpu3: GPU is lost``."""
        return Reason(self.code, "%s: %s" % (subject, self.text))

    def cut(self, characters: int) -> Reason:
        """Return it with no more than so many characters."""
        return self if len(self.text) <= characters else Reason(self.code, self.text[:characters])

    @classmethod
    def from_json(cls, data: Any) -> Reason:
        """Rebuild from JSON; a text is of a run of former versions. Raises TypeError otherwise."""
        if isinstance(data, str):
            return of_former_run(data) if data else NONE
        return cls(data["code"], data["text"])


NONE = Reason()
"""No reason: one object, for a large run has a million findings without any."""


def remark(text: str) -> Reason:
    """Return words beside a figure, on which nothing hangs."""
    return Reason("", text) if text else NONE


def together(several: Iterable[Reason], separator: str = "; ") -> Reason:
    """Return several reasons as one: each text once, and the code that comes first in ``CODES``."""
    distinct = tuple(dict.fromkeys(several))
    codes = {reason.code for reason in distinct if reason.code}
    code = min(codes, key=lambda name: _PLACES.get(name, len(_PLACES)), default="")
    return Reason(code, separator.join(dict.fromkeys(reason.text for reason in distinct)))


def of_errno(number: Any) -> str:
    """Return the code of what the system refused with this error number."""
    return NO_PERMISSION if number in (errno.EACCES, errno.EPERM) else NOT_MEASURED


FORMER_WORDS: Tuple[Tuple[str, str], ...] = (
    ("the fabric between", FABRIC_BETWEEN),
    ("does not die", STUCK),
    ("no sign of life", SILENT),
    ("given up, for the scheduler wants the node", GIVEN_UP),
    ("given up, for the time of the sweep is over", OUT_OF_TIME),
    ("under way when the run itself ended", CUT_OFF),
    ("the visit is under way", UNDER_WAY),
    ("while mig is on", MIG),
    ("mig is on: an instance", MIG),
    ("needs root", NO_PERMISSION),
    ("run as root", NO_PERMISSION),
    ("by root only", NO_PERMISSION),
    ("insufficient permissions", NO_PERMISSION),
    ("permission denied", NO_PERMISSION),
    ("operation not permitted", NO_PERMISSION),
    ("has lost what came before", LOG_LOST),
    ("killed after", HANG),
    ("the check crashed", CRASHED),
    ("nvml did not answer within", NO_ANSWER),
    ("gpu is lost", GPU_LOST),
    ("requires restart", GPU_LOST),
    ("reset required", GPU_LOST),
    ("not loaded", DRIVER_BROKEN),
    ("lib rm version mismatch", DRIVER_BROKEN),
    ("nvml/rm version mismatch", DRIVER_BROKEN),
    ("driver/library version mismatch", DRIVER_BROKEN),
    ("library not found", DRIVER_BROKEN),
    ("is not idle", NOT_IDLE),
    ("in use by", AT_WORK),
    ("% in use", AT_WORK),
    ("job is running", AT_WORK),
    ("another hwcheck is loading", AT_WORK),
    ("torch", NO_TORCH),
    ("time budget", OUT_OF_BUDGET),
    ("but the bus has", IDLE_CARDS),
)
"""Words of the reasons that former versions wrote, and their codes; the first that is in a reason
counts. No other place looks at the words of a reason."""


def of_former_run(text: str) -> Reason:
    """Return a reason of a run of former versions, which had words alone."""
    plain = text.lower().replace("_", " ")
    whole = {"interrupted": INTERRUPTED, "timeout": NO_ANSWER}.get(plain)
    parts = (code for words, code in FORMER_WORDS if words in plain)
    return Reason(whole or next(parts, NOT_MEASURED), text)
