"""One visit by three engines: log in, run the bootstrap, hand over what it lacks, read its answer.

The node's side is the same for all, to the byte: hwcheck's bootstrap looks a payload up by its
hash, says whether it has it, takes it where it does not, and runs it; the payload answers with
20 kB of JSON in the frames of a real one. Each engine is set up as lean as it goes: one key, no
agent, no compression, 50 hosts at a time.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwcheck.connect.payload import Payload, bootstrap_arguments, zip_files
from hwcheck.connect.remote_command import shell_line
from hwcheck.contract.wire import Deframer, Request, to_dict

FORKS = 50
CHECKS = tuple(f"check{number}" for number in range(5))
TOKEN = "benchmark"
# The node says everything twice: each result at once, and the report that repeats them.
NODE_MAIN = """
import json, sys
def main(data, payload, load):
    samples = [
        {"metric": "temperature_idle", "value": 30.5 + i, "unit": "C", "subject": "gpu%d" % i}
        for i in range(27)
    ]
    one = {"reason": "", "state": "done", "legs": [], "duration_s": 0.25, "samples": samples}
    results = [dict(one, check=name) for name in data["checks"]]
    frames = [{"kind": "result", "result": result} for result in results]
    body = {"facts": {}, "results": results, "duration_s": 1.0, "protocol": 1}
    frames.append({"kind": "report", "report": body})
    mark = "@hwcheck:%s " % data["token"]
    sys.stdout.write("".join(mark + json.dumps(frame) + "\\n" for frame in frames))
    sys.stdout.flush()
    return 0
"""


@dataclass(frozen=True)
class Target:
    """The sshd under test: a folder with ``key`` and ``known_hosts``, a port, the addresses.

    ``sshd_pid`` is 0 where a process only talks to it.
    """

    folder: Path
    port: int
    addresses: tuple[str, ...]
    sshd_pid: int


def payload(ballast_bytes: int) -> Payload:
    """Return a payload whose zip holds this many bytes that do not compress."""
    ballast = random.Random(ballast_bytes).randbytes(ballast_bytes)
    files = {
        "hwcheck/__init__.py": b"",
        "hwcheck/node/__init__.py": b"",
        "hwcheck/checks/__init__.py": b"load = None",
        "hwcheck/node/main.py": NODE_MAIN.encode(),
        "ballast": ballast,
    }
    return Payload.of(zip_files(files))


def _command(built: Payload) -> str:
    return shell_line(["python3", *bootstrap_arguments(built.sha256, TOKEN)])


def _question(data: bytes) -> bytes:
    request = json.dumps(to_dict(Request(TOKEN, CHECKS))).encode()
    return f"hwcheck {TOKEN} {len(data)} {len(request)}\n".encode() + data + request


def _store(target: Target, address: str, output: bytes) -> bool:
    """Keep an answer in a file of its own; return whether it is whole."""
    frames, _ = Deframer(TOKEN).feed(output)
    reports: list[Any] = [frame["report"] for frame in frames if frame["kind"] == "report"]
    (target.folder / f"{address}.json").write_text(json.dumps(reports[0]))
    return len(reports[0]["results"]) == len(CHECKS)


def visit_with_hwcheck(target: Target, built: Payload, pushed: bool) -> int:  # noqa: ARG001
    """Go the whole of hwcheck's way: deadlines, schema check, one file per host."""
    from hwcheck.connect.connector import Connector
    from hwcheck.connect.deadlines import Deadlines
    from hwcheck.inventory.inventory import Host
    from hwcheck.results.run_folder import HostPlan, RunFolder, RunMeta
    from hwcheck.run.fan_out import VisitEvent, fan_out

    arguments = ("-o", f"UserKnownHostsFile={target.folder / 'known_hosts'}")
    key = str(target.folder / "key")
    inventory = [
        Host(name, name, target.port, "root", private_key_file=key, ssh_args=arguments)
        for name in target.addresses
    ]
    connector = Connector(Deadlines(), threading.Event())
    connector.prepare(inventory)
    plan = tuple(HostPlan(host.name, host.address) for host in inventory)
    folder = RunFolder.create(target.folder / "runs", RunMeta("", "", CHECKS, plan))
    good = []

    def note(event: VisitEvent) -> None:
        if event.state == "reported":
            good.append(event.host)
        elif event.state:
            print(f"{event.host}: {event.state}: {event.text}", file=sys.stderr)

    requests = {host.name: Request("", CHECKS) for host in inventory}
    fan_out(inventory, requests, built, folder, connector, forks=FORKS, progress=note)
    return len(good)


def visit_with_asyncssh(target: Target, built: Payload, pushed: bool) -> int:  # noqa: ARG001
    """Use one event loop."""
    import asyncssh

    command = _command(built)
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
            process = await connection.create_process(command, encoding=None)
            frames, _ = Deframer(TOKEN).feed(await process.stdout.readline())
            process.stdin.write(_question(b"" if frames[0]["cached"] else built.data))
            return _store(target, address, await process.stdout.read())

    async def visit_all() -> int:
        gate = asyncio.Semaphore(FORKS)
        return sum(await asyncio.gather(*(visit(a, gate) for a in target.addresses)))

    return asyncio.run(visit_all())


def visit_with_parallel_ssh(target: Target, built: Payload, pushed: bool) -> int:
    """Use gevent and libssh2, which does not verify host keys.

    Its interface has no way to wait for the answer of each host before writing: it is told
    whether the hosts have the payload.
    """
    from pssh.clients import ParallelSSHClient

    client = ParallelSSHClient(
        target.addresses,
        user="root",
        port=target.port,
        pkey=str(target.folder / "key"),
        pool_size=FORKS,
        allow_agent=False,
        timeout=60,
    )
    outputs = client.run_command(_command(built), read_timeout=60)
    question = _question(built.data if pushed else b"")
    for output in outputs:
        output.stdin.write(question)
        output.stdin.flush()
    return sum(
        _store(target, output.host, "\n".join([*output.stdout, ""]).encode()) for output in outputs
    )


MODULES = {"hwcheck": "hwcheck.run.fan_out", "asyncssh": "asyncssh", "parallel-ssh": "pssh.clients"}
ENGINES: dict[str, Callable[[Target, Payload, bool], int]] = {
    "hwcheck": visit_with_hwcheck,
    "asyncssh": visit_with_asyncssh,
    "parallel-ssh": visit_with_parallel_ssh,
}
