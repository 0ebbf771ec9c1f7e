"""Members of a group as processes of this machine, spoken to as the controller does."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hwcheck.contract.wire import Deframer, Request, to_dict

ROOT = Path(__file__).parents[3]
CODE = """
import json, os, sys
from hwcheck.node import load_lock
load_lock.NAME = load_lock.NAME + sys.argv[2]  # several "nodes" in one network namespace
from hwcheck import checks
from hwcheck.node.main import main
code = main(json.loads(sys.argv[1]), sys.argv[3], checks.load)
sys.stderr.flush()
os._exit(code)
"""
TOKEN = "feed5678"


class LocalMember:
    """One member; use it as a context manager. ``environment`` is added to its own."""

    def __init__(
        self,
        scratch: Path,
        name: str = "a",
        *,
        environment: dict[str, str] | None = None,
        **request: Any,
    ) -> None:
        modules = scratch / "modules"
        if not modules.exists():
            import pynvml  # here: the tests are collected where it is not installed

            modules.mkdir(parents=True)
            shutil.copy(pynvml.__file__, modules / "pynvml.py")
            (modules / "hwcheck").symlink_to(ROOT / "hwcheck")
        root = scratch / "root"
        root.mkdir(exist_ok=True)
        (root / "proc").mkdir(exist_ok=True)
        (root / "proc" / "meminfo").write_text("MemAvailable: 4000000 kB\n")
        session = {"interface": "", "toward": "127.0.0.1", **request.pop("session", {})}
        asked = Request(token=TOKEN, checks=(), host_root=str(root), **request)
        data = {**to_dict(asked), "session": session}
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE, json.dumps(data), name, str(modules)],
            env={**os.environ, "PYTHONPATH": str(modules), **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._deframer = Deframer(TOKEN)
        self._frames: list[dict[str, Any]] = []

    def tell(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n" + json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, kind: str, seconds: float = 60.0) -> dict[str, Any]:
        """Return the next frame of a kind; heartbeats go by."""
        assert self.process.stdout is not None
        end = time.monotonic() + seconds
        while True:
            while self._frames:
                frame = self._frames.pop(0)
                if frame["kind"] != "alive":
                    assert frame["kind"] == kind, frame
                    return frame
            fd = self.process.stdout.fileno()
            assert select.select([fd], [], [], max(0.0, end - time.monotonic()))[0], "silent"
            data = os.read(fd, 65536)
            assert data, self.process.stderr.read().decode() if self.process.stderr else ""
            self._frames += self._deframer.feed(data)[0]

    def __enter__(self) -> LocalMember:
        return self

    def __exit__(self, *exc: object) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        self.process.kill()
        self.process.wait()


def order(number: int, rank0: int, ready: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return an order of two hosts that meet at the one that said ``ready``."""
    return {
        "id": number,
        "collective": "all_reduce",
        "rank0": rank0,
        "world": 2,
        "devices": [0],
        "store": [ready["address"], ready["port"]],
        "sizes": [1 << 20],
        "deadline_s": 20.0,
        **changes,
    }
