"""A payload whose ``main`` does what ``expect`` says, for tests of the way there and back."""

from __future__ import annotations

from pathlib import Path

from hwcheck.connect.payload import PACKAGE, Payload, zip_files

MAIN = """\
import os
import subprocess
import sys
import time

from hwcheck.node import lifeline
from hwcheck.contract.wire import CheckResult, Report, Request, Sample, frame, to_dict


def main(data, payload, load):
    request = Request.from_dict(data)
    out = os.dup(1)
    os.dup2(2, 1)

    def send(kind, **body):
        text = frame(request.token, kind, **body).encode()
        while text:
            text = text[os.write(out, text):]

    lifeline.start(0, request.lifeline_s, lambda: send("alive"))
    results = []
    for name in request.checks:
        send("progress", text=name)
        act(request.expect.get(name, {}), send, out)
        results.append(CheckResult(name, "done", samples=(Sample("pid", os.getpid()),)))
        send("result", result=to_dict(results[-1]))
    send("report", report=to_dict(Report({"hostname": os.uname().nodename}, tuple(results))))
    act(request.expect.get("after", {}), send, out)
    return 0


def act(what, send, out):
    if "stderr" in what:
        print(what["stderr"])
    if "write_bytes" in what:
        line = b"x" * 1023 + b"\\\\n"
        for _ in range(what["write_bytes"] // 1024):
            os.write(out, line)
    if "raw" in what:
        os.write(out, what["raw"].encode())
    if "frame" in what:
        send(**what["frame"])
    if "hang" in what:
        time.sleep(what["hang"])
    if "exit" in what:
        os._exit(what["exit"])
    if "crash" in what:
        raise RuntimeError(what["crash"])
""".replace("\\\\n", "\\n")


def payload(main: str = MAIN) -> Payload:
    """Return the stand-in, with the real lifeline and wire."""
    files = {
        f"hwcheck/{name}": (PACKAGE / name).read_bytes()
        for name in (
            "__init__.py",
            "contract/reasons.py",
            "contract/__init__.py",
            "contract/wire.py",
            "node/__init__.py",
            "node/descendants.py",
            "node/lifeline.py",
        )
    }
    own = {"hwcheck/node/main.py": main.encode(), "hwcheck/checks/__init__.py": b"load = None"}
    return Payload.of(zip_files({**files, **own}))


def python36() -> Path | None:
    """Return an interpreter older than 3.8, where this machine has one."""
    places = [*Path.home().glob(".pyenv/versions/3.6*/bin/python"), Path("/usr/bin/python3.6")]
    return next((place for place in places if place.exists()), None)
