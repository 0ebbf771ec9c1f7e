"""SSH fan-out beside asyncssh and parallel-ssh: the same work, in interleaved rounds.

    python benchmarks/fanout.py [--hosts 50 200] [--rounds 9] [--push]

One sshd on this machine serves any number of loopback addresses (127.50.x.y), so the hosts are
distinct to every engine while the server side, which all engines share, is the same. Needs root
(sshd) and the ``dev`` extra. See README.md beside this file for the work and the results.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import engines  # noqa: E402 - stands beside this file

PORT = 22022
PAYLOAD_BYTES = 350_000
SSHD_CONFIG = """\
ListenAddress 0.0.0.0:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
PermitRootLogin yes
StrictModes no
UsePAM no
PrintMotd no
UseDNS no
MaxStartups 5000
LogLevel ERROR
SetEnv HOME={folder}/home
"""
START_SSHD = (
    'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec /usr/sbin/sshd -D -e -f "$1"'
)


@dataclass(frozen=True)
class Cost:
    """One engine's round: wall s, controller CPU ms per host, resident MiB at its largest."""

    wall_s: float
    cpu_ms: float
    rss_mib: float


@contextmanager
def server(hosts: int) -> Iterator[engines.Target]:
    """Run an sshd for this many addresses; everything is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="hwcheck-bench-") as name:
        folder = Path(name)
        (folder / "home").mkdir()
        for key in ("key", "host_key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", folder / key]
            subprocess.run(command, check=True)
        public = " ".join((folder / "host_key.pub").read_text().split()[:2])
        addresses = [f"127.50.{number // 250}.{number % 250 + 1}" for number in range(hosts)]
        lines = [f"[{address}]:{PORT} {public}\n" for address in addresses]
        (folder / "known_hosts").write_text("".join(lines))
        config = folder / "sshd_config"
        config.write_text(SSHD_CONFIG.format(port=PORT, folder=folder))
        # sshd wants an empty folder under /run: in a mount namespace nobody else sees it.
        command = ["unshare", "-m", "sh", "-c", START_SSHD, "sh", str(config)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            _wait_for_port(process)
            yield engines.Target(folder, PORT, tuple(addresses), process.pid)
        finally:
            process.terminate()
            process.wait()


def _wait_for_port(process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.50.0.1", PORT), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    sys.exit("sshd did not start: it needs root")


def _wait_for_quiet(sshd_pid: int) -> None:
    """Wait until the sshd has ended every session: the next engine would pay for the last one's."""
    children = Path(f"/proc/{sshd_pid}/task/{sshd_pid}/children")
    end = time.monotonic() + 30
    while children.read_text():
        if time.monotonic() > end:
            sys.exit("sessions of the last engine are still open after 30 s")
        time.sleep(0.02)


def measure(
    engine: str, target: engines.Target, hosts: int, payload_bytes: int, *, pushed: bool
) -> Cost:
    """Run one engine once over the first ``hosts`` addresses, in a process of its own."""
    command = [sys.executable, __file__, "--measure", engine, str(target.folder)]
    sizes = ["--hosts", str(hosts), "--payload-bytes", str(payload_bytes)]
    push = ["--push"] if pushed else []
    done = subprocess.run([*command, *sizes, *push], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{engine} failed:\n{done.stderr[-2000:]}")
    return Cost(**json.loads(done.stdout))


def _measure_here(
    engine: str, folder: Path, hosts: int, payload_bytes: int, *, pushed: bool
) -> None:
    names = [line.split("]")[0][1:] for line in (folder / "known_hosts").read_text().splitlines()]
    target = engines.Target(folder, PORT, tuple(names[:hosts]), sshd_pid=0)
    importlib.import_module(engines.MODULES[engine])  # starting up is no part of the fan-out
    built = engines.payload(payload_bytes)
    before_s = _cpu_s()
    started = time.monotonic()
    good = engines.ENGINES[engine](target, built, pushed)
    wall_s = time.monotonic() - started
    cpu_s = _cpu_s() - before_s
    if good != hosts:
        sys.exit(f"only {good} of {hosts} hosts answered")
    rss_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cost = Cost(wall_s, cpu_s * 1000 / hosts, rss_kib / 1024)
    print(json.dumps(vars(cost)))


def _cpu_s() -> float:
    """Return what this process and those that it has run (ssh -G) have cost by now."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def compare(sizes: Sequence[int], rounds: int, *, pushed: bool) -> dict[int, list[dict[str, Cost]]]:
    """Return, for each number of hosts, what each engine cost in each round.

    A round has every size and every engine, and another engine begins each time, so none of them
    always follows the same one. The first round is not counted.
    """
    payload_bytes = PAYLOAD_BYTES
    found: dict[int, list[dict[str, Cost]]] = {hosts: [] for hosts in sizes}
    with server(max(sizes)) as target:
        for number in range(rounds + 1):
            names = list(engines.ENGINES)
            first = number % len(names)
            for hosts in sizes:
                costs = {}
                for engine in names[first:] + names[:first]:
                    if pushed:  # a payload that no host has seen
                        payload_bytes += 1
                    _wait_for_quiet(target.sshd_pid)
                    costs[engine] = measure(engine, target, hosts, payload_bytes, pushed=pushed)
                found[hosts].append(costs)
    return {hosts: each_round[1:] for hosts, each_round in found.items()}


def report(hosts: int, rounds: Sequence[dict[str, Cost]]) -> None:
    """Print medians, and the median of hwcheck's ratio to each engine in the same round."""
    print(f"{hosts} hosts      wall s   ratio   ctl ms/host   ratio   RSS MiB   ratio")
    for engine in engines.ENGINES:
        line = f"  {engine:13s}"
        for field, shape in (("wall_s", "7.2f"), ("cpu_ms", "14.1f"), ("rss_mib", "10.0f")):
            theirs = [getattr(costs[engine], field) for costs in rounds]
            ours = [getattr(costs["hwcheck"], field) for costs in rounds]
            ratio = statistics.median(one / other for one, other in zip(ours, theirs, strict=True))
            line += f"{statistics.median(theirs):{shape}}{ratio:8.2f}"
        print(line, flush=True)


def report_growth(found: dict[int, list[dict[str, Cost]]]) -> None:
    """Print each engine's growth of wall time from the least to the most hosts of a round."""
    first, last = min(found), max(found)
    growths = []
    for engine in engines.ENGINES:
        pairs = zip(found[first], found[last], strict=True)
        ratios = [many[engine].wall_s / few[engine].wall_s for few, many in pairs]
        growths.append(f"{engine} {statistics.median(ratios) / (last / first):.2f}")
    print(f"growth from {first} to {last} hosts (1.00 is linear): {', '.join(growths)}")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--push", action="store_true", help="a payload that is not cached")
    parser.add_argument("--measure", nargs=2, metavar=("ENGINE", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--payload-bytes", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        engine, folder = options.measure
        _measure_here(
            engine, Path(folder), options.hosts[0], options.payload_bytes, pushed=options.push
        )
        return
    found = compare(options.hosts, options.rounds, pushed=options.push)
    for hosts, rounds in found.items():
        report(hosts, rounds)
    if len(found) > 1:
        report_growth(found)


if __name__ == "__main__":
    main()
