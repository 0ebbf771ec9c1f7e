"""Visits as steps of Slurm: ``srun`` starts what SSH would, where a login node may not use SSH."""

from __future__ import annotations

import math
import os
import shutil
import threading
from collections.abc import Iterable

from hwcheck.connect.connector import Connector
from hwcheck.connect.deadlines import Deadlines
from hwcheck.connect.links import Link, LocalLink
from hwcheck.connect.remote_command import interpreter
from hwcheck.errors import Complaints, HostError, UsageError
from hwcheck.inventory.inventory import Host
from hwcheck.results.phases import SESSION
from hwcheck.scheduler import slurm
from hwcheck.scheduler.matching import match
from hwcheck.scheduler.records import NodeState

IMMEDIATE_S = 20
"""How long Slurm may take to give a node: one at work is not waited for."""
HANDED_ON = (
    *("HOME", "LANG", "LOGNAME", "PATH", "USER"),
    *("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JOB_ID", "SLURM_JWT"),
)
"""What srun and with it the nodes get of this environment: no secret, and no option of srun."""


class SlurmLauncher(Connector):
    """A connector whose visits are jobs of one node each, or steps of the job that it runs in.

    A job has its node for itself (``--exclusive``, ``--mem=0``) and ends with its time limit
    whatever becomes of srun; a step (``salloc -N 4 --exclusive hwcheck ...``) shares what the job
    has (``--overlap``). Flags as in srun(1), 20.11 and newer.
    """

    def __init__(self, deadlines: Deadlines, stop: threading.Event) -> None:
        super().__init__(deadlines, stop)
        self._nodes: dict[str, NodeState] = {}

    def prepare(self, hosts: Iterable[Host]) -> None:
        """Ask Slurm which nodes the hosts are. Raises UsageError that names the host."""
        hosts = list(hosts)
        if shutil.which("srun") is None:
            raise UsageError("--launcher slurm: srun: not found; run hwcheck where Slurm is")
        complaints = Complaints()
        for host in hosts:
            with complaints.noting():
                interpreter(host)
        nodes = match("slurm", hosts, slurm.nodes())
        for host in hosts:
            with complaints.noting():
                if not nodes[host.name].node:
                    problem = "Slurm has no node of its name or address"
                    raise HostError("", host.name, f"{problem}; set hwcheck_scheduler_node")
        complaints.refuse()
        self._nodes = nodes

    def as_reached(self, host: Host) -> Host:
        """Return the host as it is: whether sudo is needed is known to the node alone."""
        return host

    def start(self, host: Host, arguments: list[str], deadlines: Deadlines | None = None) -> Link:
        """Run the Python of a host that ``prepare`` has seen. Raises VisitError."""
        environment = {name: os.environ[name] for name in HANDED_ON if name in os.environ}
        lasts_s = (deadlines or self.deadlines).run_s
        words = self._srun(host, lasts_s, inside="SLURM_JOB_ID" in environment)
        return LocalLink([*words, *interpreter(host), *arguments], SESSION, environment)

    def _srun(self, host: Host, lasts_s: float, *, inside: bool) -> list[str]:
        """Return the words of srun; what it starts has one task on one node."""
        node = self._nodes[host.name]
        of_job = [f"--partition={','.join(node.partitions)}", "--exclusive", "--mem=0"]
        of_job += [f"--immediate={IMMEDIATE_S}", f"--time={math.ceil(lasts_s / 60)}"]
        return [
            *("srun", "--quiet", "--nodes=1", "--ntasks=1", f"--nodelist={node.node}"),
            *("--job-name=hwcheck", "--chdir=/", "--cpu-bind=none", "--mpi=none", "--unbuffered"),
            *(["--overlap"] if inside else of_job),
            "--",
        ]
