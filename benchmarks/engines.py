"""The same visit by three engines: log in, hand over a payload, run python3, read 20 kB of JSON.

Every function returns how many hosts gave the whole answer. Each engine is set up as lean as it
goes: one key, no agent, no compression, 50 hosts at a time. ``payload_bytes`` 0 means that the
host has the payload already.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import sys
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FORKS = 50
CHECKS = 5
# What every engine makes the node answer with: 20 kB of JSON in the shape of a report.
REPORT = """
import json, sys
def report():
    samples = [
        {"metric": "temperature_idle", "value": 30.5 + i, "unit": "C", "subject": "gpu%d" % i}
        for i in range(54)
    ]
    one = {"reason": "", "state": "done", "legs": [], "duration_s": 0.25, "samples": samples}
    return [dict(one, check="check%d" % i) for i in range(5)]
"""
# hwcheck's node says everything twice: each result at once, and the report that repeats them.
NODE_MAIN = (
    REPORT
    + """
def main(data, payload):
    frames = [{"kind": "result", "result": result} for result in report()]
    body = {"facts": {}, "results": report(), "duration_s": 1.0, "protocol": 1}
    frames.append({"kind": "report", "report": body})
    mark = "@hwcheck:%s " % data["token"]
    sys.stdout.write("".join(mark + json.dumps(frame) + "\\n" for frame in frames))
    sys.stdout.flush()
    return 0
"""
)
BARE_MAIN = REPORT + "data = sys.stdin.buffer.read(int(sys.argv[1]))\nprint(json.dumps(report()))\n"


@dataclass(frozen=True)
class Target:
    """The sshd under test: a folder with ``key`` and ``known_hosts``, a port, the addresses."""

    folder: Path
    port: int
    addresses: tuple[str, ...]


def _bare_command(payload_bytes: int) -> str:
    packed = base64.b64encode(zlib.compress(BARE_MAIN.encode())).decode()
    loader = "import sys,binascii,zlib;exec(zlib.decompress(binascii.a2b_base64(sys.argv.pop(1))))"
    return f"python3 -c '{loader}' {packed} {payload_bytes}"


def _ballast(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def _store(target: Target, address: str, text: str | bytes) -> bool:
    """Keep an answer in a file of its own; return whether it is whole."""
    results = json.loads(text)
    (target.folder / f"{address}.json").write_text(json.dumps(results))
    return len(results) == CHECKS


def visit_with_hwcheck(target: Target, payload_bytes: int) -> int:
    """Go the whole of hwcheck's way: visit, schema check, one file per host."""
    from hwcheck.connect import Connector
    from hwcheck.inventory import Host
    from hwcheck.payload import PACKAGE, Payload, zip_files
    from hwcheck.phases import Deadlines
    from hwcheck.results import HostPlan, RunFolder, RunMeta
    from hwcheck.run import Event, fan_out
    from hwcheck.wire import Request

    names = ("__init__.py", "node/__init__.py")
    files = {f"hwcheck/{name}": (PACKAGE / name).read_bytes() for name in names}
    files |= {"hwcheck/node/main.py": NODE_MAIN.encode(), "ballast": _ballast(payload_bytes)}
    arguments = ("-o", f"UserKnownHostsFile={target.folder / 'known_hosts'}")
    key = str(target.folder / "key")
    inventory = [
        Host(name, name, target.port, "root", private_key_file=key, ssh_args=arguments)
        for name in target.addresses
    ]
    connector = Connector(Deadlines(), threading.Event())
    connector.prepare(inventory)
    checks = tuple(f"check{number}" for number in range(CHECKS))
    plan = tuple(HostPlan(host.name, host.address) for host in inventory)
    folder = RunFolder.create(target.folder / "runs", RunMeta("", "", checks, plan))
    good = []

    def note(event: Event) -> None:
        if event.state == "reported":
            good.append(event.host)
        elif event.state:
            print(f"{event.host}: {event.state}: {event.text}", file=sys.stderr)

    requests = {host.name: Request("", checks) for host in inventory}
    payload = Payload.of(zip_files(files))
    fan_out(inventory, requests, payload, folder, connector, forks=FORKS, progress=note)
    return len(good)


def visit_with_asyncssh(target: Target, payload_bytes: int) -> int:
    """Use one event loop."""
    import asyncssh

    command, data = _bare_command(payload_bytes), _ballast(payload_bytes)
    known = asyncssh.read_known_hosts(str(target.folder / "known_hosts"))
    lean = {
        "client_keys": [asyncssh.read_private_key(str(target.folder / "key"))],
        "known_hosts": known,
        "agent_path": None,
        "config": None,
        "compression_algs": ["none"],
        "kex_algs": ["curve25519-sha256"],
        "encryption_algs": ["aes128-gcm@openssh.com"],
    }

    async def visit(address: str, gate: asyncio.Semaphore) -> bool:
        async with (
            gate,
            asyncssh.connect(address, target.port, username="root", **lean) as connection,
        ):
            done = await connection.run(command, input=data, encoding=None)
        return _store(target, address, done.stdout)

    async def visit_all() -> int:
        gate = asyncio.Semaphore(FORKS)
        return sum(await asyncio.gather(*(visit(a, gate) for a in target.addresses)))

    return asyncio.run(visit_all())


def visit_with_parallel_ssh(target: Target, payload_bytes: int) -> int:
    """Use gevent and libssh2, which does not verify host keys."""
    from pssh.clients import ParallelSSHClient

    data = _ballast(payload_bytes)
    client = ParallelSSHClient(
        target.addresses,
        user="root",
        port=target.port,
        pkey=str(target.folder / "key"),
        pool_size=FORKS,
        allow_agent=False,
        timeout=60,
    )
    outputs = client.run_command(_bare_command(payload_bytes), read_timeout=60)
    if data:
        for output in outputs:
            output.stdin.write(data)
            output.stdin.flush()
    return sum(_store(target, output.host, "".join(output.stdout)) for output in outputs)


MODULES = {"hwcheck": "hwcheck.run", "asyncssh": "asyncssh", "parallel-ssh": "pssh.clients"}
ENGINES: dict[str, Callable[[Target, int], int]] = {
    "hwcheck": visit_with_hwcheck,
    "asyncssh": visit_with_asyncssh,
    "parallel-ssh": visit_with_parallel_ssh,
}
