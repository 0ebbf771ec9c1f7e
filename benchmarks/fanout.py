"""SSH fan-out beside asyncssh and parallel-ssh: the same work, in interleaved rounds.

One sshd on this machine serves any number of loopback addresses (127.50.x.y), so the hosts are
distinct to every engine while the server side, which all engines share, is the same. The work of
one visit: connect with the host key verified, push the payload where it is missing (hwcheck finds
it in its cache after the first round; the others send a payload of the same size each time unless
``--cached``), run ``python3``, read 20 kB of JSON and parse it. Each engine runs in a process of
its own, and its CPU is that process's user and system time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ENGINES = ("hwcheck", "asyncssh", "parallel-ssh")
PORT = 22022
FORKS = 50
SSHD_CONFIG = """\
ListenAddress 0.0.0.0:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile {folder}/pid
PermitRootLogin yes
StrictModes no
UsePAM no
PrintMotd no
UseDNS no
MaxStartups 5000
LogLevel ERROR
SetEnv HOME={folder}/home
"""
# What every engine makes the node answer with: 20 kB of JSON in the shape of a report.
REPORT = """
def report():
    samples = [
        {"metric": "temperature_idle", "value": 30.5 + i, "unit": "C", "subject": "gpu%d" % i}
        for i in range(54)
    ]
    one = {"reason": "", "state": "done", "legs": [], "duration_s": 0.25, "samples": samples}
    return [dict(one, check="check%d" % i) for i in range(5)]
"""
NODE_MAIN = (
    """
import os
from hwcheck.node import lifeline
from hwcheck.wire import Request, frame
"""
    + REPORT
    + """

def main(data, payload):
    request = Request.from_dict(data)
    lifeline.start(0, request.lifeline_s, lambda: None)
    results = report()
    text = "".join(frame(request.token, "result", result=result) for result in results)
    body = {"facts": {}, "results": results, "duration_s": 1.0, "protocol": 1}
    text += frame(request.token, "report", report=body)
    data = text.encode()
    while data:
        data = data[os.write(1, data):]
    return 0
"""
)
# The same for engines without a payload of ours: stdin holds the payload, stdout one report.
BARE_MAIN = "import sys, json\ndata = sys.stdin.buffer.read()\n" + REPORT + "print(json.dumps(report()))\n"


@dataclass(frozen=True)
class Server:
    """The sshd under test and what clients need to reach it."""

    folder: Path

    @property
    def key(self) -> Path:
        return self.folder / "key"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"


def addresses(count: int) -> list[str]:
    return [f"127.50.{number // 250}.{number % 250 + 1}" for number in range(count)]


@contextmanager
def server(hosts: int):
    """Run an sshd for this many addresses; everything is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="hwcheck-bench-") as name:
        folder = Path(name)
        (folder / "home").mkdir()
        for key in ("key", "host_key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", folder / key]
            subprocess.run(command, check=True)
        public = " ".join((folder / "host_key.pub").read_text().split()[:2])
        lines = [f"[{address}]:{PORT} {public}\n" for address in addresses(hosts)]
        (folder / "known_hosts").write_text("".join(lines))
        (folder / "sshd_config").write_text(SSHD_CONFIG.format(port=PORT, folder=folder))
        start = (
            "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && "
            'exec /usr/sbin/sshd -D -e -f "$1"'
        )
        command = ["unshare", "-m", "sh", "-c", start, "sh", str(folder / "sshd_config")]
        process = subprocess.Popen(command)
        try:
            wait_for_port(process)
            yield Server(folder)
        finally:
            process.terminate()
            process.wait()


def wait_for_port(process: subprocess.Popen[bytes]) -> None:
    import socket

    for _ in range(500):
        try:
            socket.create_connection(("127.50.0.1", PORT), 1).close()
        except OSError:
            if process.poll() is not None:
                sys.exit("sshd did not start: it needs root")
            time.sleep(0.02)
        else:
            return
    sys.exit("sshd does not answer")


def visit_with_hwcheck(server: Server, hosts: int, payload_bytes: int) -> int:
    from hwcheck.connect import Connector
    from hwcheck.inventory import Host
    from hwcheck.payload import PACKAGE, Payload, zip_files
    from hwcheck.phases import Deadlines
    from hwcheck.results import HostPlan, RunFolder, RunMeta
    from hwcheck.run import Event, fan_out
    from hwcheck.wire import Request

    names = ("__init__.py", "wire.py", "node/__init__.py", "node/lifeline.py")
    files = {f"hwcheck/{name}": (PACKAGE / name).read_bytes() for name in names}
    files["hwcheck/node/main.py"] = NODE_MAIN.encode()
    files["ballast"] = _ballast(payload_bytes)
    payload = Payload.of(zip_files(files))
    checks = tuple(f"check{number}" for number in range(5))
    inventory = [
        Host(
            address,
            address,
            port=PORT,
            user="root",
            private_key_file=str(server.key),
            ssh_args=("-o", f"UserKnownHostsFile={server.known_hosts}"),
        )
        for address in addresses(hosts)
    ]
    connector = Connector(Deadlines(), threading.Event())
    connector.prepare(inventory)
    plan = tuple(HostPlan(host.name, host.address) for host in inventory)
    folder = RunFolder.create(server.folder / "runs", RunMeta("", "", checks, plan))
    requests = {host.name: Request("", checks) for host in inventory}
    states: list[str] = []

    def note(event: Event) -> None:
        if event.kind == "finished":
            states.append(event.state)

    fan_out(inventory, requests, payload, folder, connector, forks=FORKS, progress=note)
    return len(states) if set(states) == {"reported"} else 0


def visit_with_asyncssh(server: Server, hosts: int, payload_bytes: int) -> int:
    import asyncssh

    data = _ballast(payload_bytes)
    command = f"python3 -c '{BARE_LINE}'"
    # asyncssh knows no [address]:port lines for many addresses faster than this.
    known = asyncssh.read_known_hosts(str(server.known_hosts))
    key = asyncssh.read_private_key(str(server.key))

    async def visit(address: str, gate: asyncio.Semaphore) -> bool:
        async with (
            gate,
            asyncssh.connect(
                address,
                PORT,
                username="root",
                client_keys=[key],
                known_hosts=known,
                agent_path=None,
                config=None,
                compression_algs=["none"],
                kex_algs=["curve25519-sha256"],
                encryption_algs=["aes128-gcm@openssh.com"],
            ) as connection,
        ):
            done = await connection.run(command, input=data, encoding=None)
        return len(json.loads(done.stdout)) == 5

    async def visit_all() -> int:
        gate = asyncio.Semaphore(FORKS)
        return sum(await asyncio.gather(*(visit(a, gate) for a in addresses(hosts))))

    return asyncio.run(visit_all())


def visit_with_parallel_ssh(server: Server, hosts: int, payload_bytes: int) -> int:
    from pssh.clients import ParallelSSHClient

    data = _ballast(payload_bytes)
    client = ParallelSSHClient(
        addresses(hosts), user="root", port=PORT, pkey=str(server.key), pool_size=FORKS,
        allow_agent=False, timeout=60,
    )
    outputs = client.run_command(f"python3 -c '{BARE_LINE}'", read_timeout=60)
    good = 0
    for output in outputs:
        output.stdin.write(data)
        output.stdin.flush()
    for output in outputs:
        good += len(json.loads("".join(output.stdout))) == 5
    return good


def _ballast(size: int) -> bytes:
    import random

    return random.Random(1).randbytes(size)


import base64  # noqa: E402
import zlib  # noqa: E402

BARE_LINE = (
    "import base64,zlib;exec(zlib.decompress(base64.b64decode(b\"%s\")))"
    % base64.b64encode(zlib.compress(BARE_MAIN.encode())).decode()
)
VISITS: dict[str, Callable[[Server, int, int], int]] = {
    "hwcheck": visit_with_hwcheck,
    "asyncssh": visit_with_asyncssh,
    "parallel-ssh": visit_with_parallel_ssh,
}


def measure(engine: str, folder: str, hosts: int, payload_bytes: int) -> None:
    """Run one engine once, in this process, and print what it took as JSON."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.monotonic()
    good = VISITS[engine](Server(Path(folder)), hosts, payload_bytes)
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"good": good, "wall": wall, "cpu": cpu, "rss": after.ru_maxrss / 1024}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
        sys.exit()
    with server(200) as s:
        for engine in ENGINES:
            for hosts in (50, 200):
              for r in range(2):
                command = [sys.executable, __file__, "measure", engine, str(s.folder), str(hosts), "60000"]
                out = subprocess.run(command, capture_output=True, text=True)
                print(engine, hosts, out.stdout.strip(), out.stderr[-600:], flush=True)
