"""A real Slurm of this machine: munged, slurmctld, and a slurmd for each of its nodes.

As Slurm's documentation has several slurmd on one machine: each with a name and a port of its own
(``slurmd -N``). Everything stands in one folder, and ends with the cluster.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.lab.waiting import wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sinfo", "squeue", "scontrol", "sbatch")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
PORT = 17000
START_S = 60.0
CONF = """\
ClusterName=tests
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
GresTypes=gpu
ReturnToService=2
MessageTimeout=10
SlurmdTimeout=30
KillWait=1
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 Gres=gpu:2\n"


def why_not() -> str:
    """Return why no Slurm can be started here; empty where it can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing:
        return f"{', '.join(missing)} not installed (slurm-wlm, munge)"
    # Its ports and its bridge are then nobody else's, and all of it ends with the tests.
    return "" if "HWCHECK_TESTS_APART" in os.environ else "no namespaces of our own"


class SlurmCluster:
    """A context manager; ``partitions`` are the names of nodes by partition."""

    def __init__(self, folder: Path, partitions: Mapping[str, Sequence[str]]) -> None:
        self.folder = folder
        self._partitions = partitions
        self.names = sorted({name for names in partitions.values() for name in names})
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        self.slurmctld: subprocess.Popen[bytes]
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> SlurmCluster:
        # Slurm takes no address, not even 127.0.0.1, while the machine has none but that.
        self._ip("link", "add", "slurm", "type", "bridge")
        self._ip("address", "add", "10.93.0.1/24", "dev", "slurm")
        self._ip("link", "set", "slurm", "up")
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def run(self, *words: str, check: bool = True) -> str:
        """Run a program of Slurm; return its stdout."""
        done = subprocess.run(
            words,
            env={**os.environ, **self.environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
        )
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def state(self, node: str) -> str:
        """Return the state of a node in Slurm's own words."""
        words = ("--noheader", "--Node", f"--nodes={node}", "--Format=StateComplete:;")
        return self.run("sinfo", *words).partition(";")[0]  # without a sign it is cut at 20

    def submit(self, node: str, *words: str) -> str:
        """Start a job of two GPUs on a node; return its id when it runs."""
        partition = next(name for name, nodes in self._partitions.items() if node in nodes)
        place = [f"--partition={partition}", f"--nodelist={node}", "--gres=gpu:2"]
        command = ["sbatch", "--parsable", "--output=/dev/null", *place, *words, "--wrap=sleep 300"]
        job = self.run(*command)
        wait_until(lambda: self.run("squeue", "-h", f"--job={job}", "-o%T") == "RUNNING", START_S)
        return job

    def cancel(self, job: str) -> None:
        """End a job, and see that it has left its nodes."""
        self.run("scancel", job)
        wait_until(lambda: not self.run("squeue", "-h", f"--job={job}", check=False), START_S)

    def resume(self) -> None:
        """Cancel all jobs and give back all nodes."""
        self.run("scancel", "--user=root")
        for name in self.names:
            if "drain" in self.state(name):
                self.run("scontrol", "update", f"nodename={name}", "state=undrain")
        wait_until(self._all_idle, START_S)

    def _start(self) -> None:
        munge = self.folder / "munge"
        for folder in (munge, self.folder / "state"):
            folder.mkdir(mode=0o755)
        key = munge / "key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        files = {"key-file": key, **{name: munge / name for name in ("socket", "pid-file")}}
        files |= {"log-file": munge / "log", "seed-file": munge / "seed"}
        words = [f"--{name}={path}" for name, path in files.items()]
        self._begin("munged", "--foreground", "--force", *words)
        wait_until((munge / "socket").exists, START_S)
        self._write_conf()
        self.slurmctld = self._begin("slurmctld", "-D")
        for name in self.names:
            (self.folder / f"spool-{name}").mkdir()
            self._begin("slurmd", "-D", "-N", name)
        wait_until(lambda: self._answers() and self._all_idle(), START_S)

    def _answers(self) -> bool:
        return "UP" in self.run("scontrol", "ping", check=False)

    def _all_idle(self) -> bool:
        states = self.run("sinfo", "--noheader", "--Node", "--format=%T", check=False).split()
        return states == ["idle"] * len(self.names)

    def _write_conf(self) -> None:
        lines = [CONF.format(folder=self.folder, port=PORT)]
        for number, name in enumerate(self.names, 1):
            lines.append(NODE.format(name=name, host=socket.gethostname(), port=PORT + number))
        for name, nodes in self._partitions.items():
            lines.append(f"PartitionName={name} Nodes={','.join(nodes)} State=UP\n")
        (self.folder / "slurm.conf").write_text("".join(lines))
        for gpu in range(2):
            (self.folder / f"gpu{gpu}").touch()
        gres = "".join(
            f"NodeName={name} Name=gpu File={self.folder}/gpu[0-1]\n" for name in self.names
        )
        (self.folder / "gres.conf").write_text(gres)

    def _begin(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{words[0]}.out").open("ab") as output:
            process = subprocess.Popen(
                words,
                env={**os.environ, **self.environment, "PATH": PATH},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._processes.append(process)
        return process

    def _end(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._ip("link", "delete", "slurm")

    @staticmethod
    def _ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)
