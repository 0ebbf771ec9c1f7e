"""Assertions on many hosts: hwcheck beside testinfra's own backends, in interleaved rounds.

    python benchmarks/state.py [--hosts 10] [--assertions 60] [--rounds 3]

Every engine runs pytest once, in a process of its own, and asserts the same kernel parameters of
the same hosts: one sshd on this machine that serves any number of loopback addresses. Needs root
(sshd) and the ``dev`` extra. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import engines  # noqa: E402 - stands beside this file
from fanout import server  # noqa: E402

TARGET = 0.4
"""hwcheck's wall time over that of testinfra's ssh backend."""
OVER = "testinfra ssh"
KEEP_NOTHING_COMPILED = "PYTHONDONTWRITEBYTECODE"
SSH_CONFIG = """\
Host *
  User root
  Port {port}
  IdentityFile {folder}/key
  UserKnownHostsFile {folder}/known_hosts
  ControlPath {folder}/%C
"""
TESTS = """\
import json
import pathlib

import pytest

WANTED = json.loads(pathlib.Path({wanted!r}).read_text())


@pytest.mark.parametrize("name", sorted(WANTED))
def test_sysctl(host, name):
    done = host.run("cat %s", "/proc/sys/" + name.replace(".", "/"))
    assert done.succeeded
    assert done.stdout.split() == WANTED[name].split()
"""


@dataclass(frozen=True)
class Cost:
    """One engine's round: wall s, and CPU s of its process with all that it started and awaited."""

    wall_s: float
    cpu_s: float


def parameters(count: int) -> dict[str, str]:
    """Return so many kernel parameters of this machine that do not change by themselves."""
    found: dict[str, str] = {}
    for path in (
        sorted(Path("/proc/sys").glob("kernel/*"))
        + sorted(Path("/proc/sys").glob("vm/*"))
        + sorted(Path("/proc/sys").glob("net/ipv4/*"))
    ):
        if len(found) == count:
            return found
        if path.is_file() and os.access(path, os.R_OK):
            text = path.read_bytes()
            # The random ones differ at each look, and so may those of the load of the moment.
            if text == path.read_bytes() and 0 < len(text) < 100 and _is_plain(path, text):
                found[".".join(path.parts[3:])] = " ".join(text.decode().split())
    sys.exit(f"this machine has only {len(found)} fit kernel parameters")


def _is_plain(path: Path, text: bytes) -> bool:
    moving = {"ns_last_pid", "pty", "random", "hostname", "domainname"}
    return path.name not in moving and text.strip() != b"" and text.isascii()


class Bench:
    """The files of a run below ``target.folder``, and a command line for each engine."""

    def __init__(self, target: engines.Target, wanted: dict[str, str]) -> None:
        self._target = target
        folder = target.folder
        self._config = folder / "ssh_config"
        self._config.write_text(SSH_CONFIG.format(port=target.port, folder=folder))
        (folder / "wanted.json").write_text(json.dumps(wanted))
        self._tests = folder / "test_bench.py"
        self._tests.write_text(TESTS.format(wanted=str(folder / "wanted.json")))
        self._inventory = folder / "cluster.yml"
        hosts = {address: {} for address in target.addresses}
        common = {
            "ansible_user": "root",
            "ansible_port": target.port,
            "ansible_ssh_private_key_file": str(folder / "key"),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={folder / 'known_hosts'}",
            "system_tuning_cpu_governor": "",
            "system_tuning_numa_balancing": "unmanaged",
            "system_tuning_transparent_hugepages": "unmanaged",
            "system_tuning_irqbalance": "unmanaged",
            "system_tuning_limits": [],
            "system_tuning_sysctls": wanted,
        }
        self._inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": common}}))

    def hwcheck(self) -> list[str]:
        """Name the assertions of one role of the installed package, as the kernel is now."""
        words = ["--pyargs", "hwcheck.provision.state", "--hwcheck-roles", "system_tuning"]
        words += ["-k", "test_sysctl and not at_boot"]
        return [*words, "--hwcheck-hosts", str(self._inventory)]

    def ssh(self) -> list[str]:
        """Let testinfra start ssh for each command, over a shared connection (ControlPersist)."""
        return self._testinfra("ssh")

    def paramiko(self) -> list[str]:
        """Let testinfra keep one connection for each host, with a channel for each command."""
        return self._testinfra("paramiko")

    def _testinfra(self, backend: str) -> list[str]:
        hosts = ",".join(f"{backend}://{address}" for address in self._target.addresses)
        return [str(self._tests), f"--hosts={hosts}", f"--ssh-config={self._config}"]

    def run(self, words: list[str], expected: int) -> Cost:
        """Run pytest once; every assertion must pass."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
        # As for a user, what was compiled in the round that is not counted is there in the others.
        env = {name: text for name, text in os.environ.items() if name != KEEP_NOTHING_COMPILED}
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, cwd=self._target.folder
        )
        wall_s = time.monotonic() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self._end_shared_connections()
        if done.returncode or f"{expected} passed" not in done.stdout:
            sys.exit(f"{words}:\n{done.stdout[-2000:]}{done.stderr[-1000:]}")
        return Cost(wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    def _end_shared_connections(self) -> None:
        for path in self._target.folder.iterdir():
            if path.is_socket():
                end = ["ssh", "-F", str(self._config), "-o", f"ControlPath={path}", "-O", "exit"]
                subprocess.run([*end, "any"], capture_output=True, check=False)


def compare(hosts: int, assertions: int, rounds: int) -> dict[str, Cost]:
    """Return the medians of interleaved rounds; the first round is not counted."""
    wanted = parameters(assertions)
    costs: dict[str, list[Cost]] = {}
    with server(hosts) as target:
        bench = Bench(target, wanted)
        lines: dict[str, Callable[[], list[str]]] = {
            "hwcheck": bench.hwcheck,
            OVER: bench.ssh,
            "testinfra paramiko": bench.paramiko,
        }
        for number in range(rounds + 1):
            for engine, line in lines.items():
                cost = bench.run(line(), hosts * assertions)
                if number:
                    costs.setdefault(engine, []).append(cost)
    return {engine: _median(found) for engine, found in costs.items()}


def _median(costs: list[Cost]) -> Cost:
    columns = ([vars(cost)[name] for cost in costs] for name in ("wall_s", "cpu_s"))
    return Cost(*map(statistics.median, columns))


def main() -> int:
    """Return 0 where hwcheck meets its target, otherwise 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, default=10)
    parser.add_argument("--assertions", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    costs = compare(options.hosts, options.assertions, options.rounds)
    ours = costs["hwcheck"]
    print(f"{options.hosts} hosts x {options.assertions} assertions   wall s   ratio   CPU s")
    for engine, cost in costs.items():
        ratio = ours.wall_s / cost.wall_s
        print(f"  {engine:32s}{cost.wall_s:7.2f}  {ratio:6.2f}  {cost.cpu_s:6.2f}")
    ratio = ours.wall_s / costs[OVER].wall_s
    print(f"hwcheck takes {ratio:.2f} of {OVER}; the target is {TARGET}")
    return int(ratio > TARGET)


if __name__ == "__main__":
    sys.exit(main())
