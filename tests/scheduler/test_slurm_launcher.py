"""Training over the nodes of a real Slurm, which starts what SSH would."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.waiting import wait_until
from tests.scheduler.slurm_cluster import SlurmCluster

pytestmark = pytest.mark.timeout(600)

HWCHECK = Path(sys.executable).with_name("hwcheck")
BENCH = "train bench --launcher slurm --model tiny --strategies ddp --ranks 2"
BENCH += " --steps 1 --repeats 1 --warmup 0"
ADDRESSES = {"gpu1": "10.93.0.1", "gpu2": "10.93.0.2", "login": "10.93.0.9"}
"""The first is the machine's own; the second has a network of its own, as every node has."""
IP = (
    "netns add gpu2",
    "link add slurm-gpu2 master slurm up type veth peer name eth0 netns gpu2",
    "-n gpu2 address add 10.93.0.2/24 dev eth0",
    "-n gpu2 link set eth0 up",
    "-n gpu2 link set lo up",
)


@pytest.fixture
def gpu2(slurm: SlurmCluster) -> Iterator[None]:
    """A network for the second node: on one network two nodes would be one machine at work."""
    for words in IP:
        subprocess.run(["ip", *words.split()], check=True)
    yield
    subprocess.run(["ip", "netns", "delete", "gpu2"], check=True)


def bench(
    slurm: SlurmCluster, folder: Path, hosts: tuple[str, ...], *words: str, before: str = ""
) -> subprocess.Popen[str]:
    python = {"gpu2": f"/usr/sbin/ip netns exec gpu2 {sys.executable}"}
    variables = {
        name: {
            "ansible_host": ADDRESSES[name],
            "ansible_python_interpreter": python.get(name, sys.executable),
        }
        for name in hosts
    }
    inventory = {"all": {"hosts": variables}}
    (folder / "cluster.yml").write_text(yaml.safe_dump(inventory))
    return subprocess.Popen(
        [*before.split(), HWCHECK, *BENCH.split(), "-i", "cluster.yml", "--json", *words],
        cwd=folder,
        env={**os.environ, **slurm.environment, "HOME": str(folder), "SECRET_TOKEN": "s3cret"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def record(folder: Path) -> dict[str, Any]:
    (file,) = folder.glob("runs/2*/training.json")
    return json.loads(file.read_text())  # type: ignore[no-any-return]


def states(folder: Path) -> dict[str, str]:
    return {run["strategy"]: run["state"] for run in record(folder)["runs"]}


def environments_of_steps() -> dict[str, bytes]:
    """Return the environment of each process that is part of a job, by its command line."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has just ended
            continue
        if b"SLURM_STEP_ID=" in environment:
            found[words] = environment
    return found


@pytest.mark.wide
def test_a_node_trains_as_a_job_and_nothing_is_left_of_a_controller_that_was_killed(
    slurm: SlurmCluster, real_ansible: None, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    killed = tmp_path / "killed"
    killed.mkdir()
    process = bench(slurm, killed, ("gpu1",))
    wait_until(environments_of_steps, 60)
    assert slurm.run("squeue", "-h", "-o%j %N %P") == "hwcheck gpu1 batch"
    assert not any(b"s3cret" in each for each in environments_of_steps().values())
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not environments_of_steps() and not slurm.run("squeue", "-h"), 60)

    out, err = bench(slurm, tmp_path, ("gpu1",)).communicate()
    assert states(tmp_path) == {"single": "done", "ddp": "done"}, out + err


@pytest.mark.wide
@pytest.mark.usefixtures("gpu2")
def test_nodes_of_an_allocation_train_together(slurm: SlurmCluster, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    salloc = "salloc --quiet --nodes=2 --exclusive --partition=batch --nodelist=gpu[1-2]"
    process = bench(slurm, tmp_path, ("gpu1", "gpu2"), "--scope", "all", before=salloc)
    out, err = process.communicate()
    assert states(tmp_path) == {"single": "done", "ddp": "done"}, out + err
    assert record(tmp_path)["absent"] == {}


def test_a_node_at_work_is_not_waited_for(slurm: SlurmCluster, tmp_path: Path) -> None:
    job = slurm.submit("gpu2")
    process = bench(slurm, tmp_path, ("gpu2",))
    out, err = process.communicate()
    assert process.returncode == 3
    assert "Requested nodes are busy" in record(tmp_path)["absent"]["gpu2"]["text"], out + err
    slurm.cancel(job)


def test_a_host_that_is_no_node_is_named_and_nothing_is_written(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    process = bench(slurm, tmp_path, ("gpu1", "login"))
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert "login: Slurm has no node of its name or address; set hwcheck_scheduler_node" in err
    assert not (tmp_path / "runs").exists()
