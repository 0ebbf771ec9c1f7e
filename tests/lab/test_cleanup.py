"""Nothing of ours stays on a node, however the controller or the link ends."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwcheck.connect.payload import LOADER
from hwcheck.run.fan_out import VisitEvent
from tests.lab.lab import Lab, Node, wait_until
from tests.lab.visits import visit_all

pytestmark = pytest.mark.usefixtures("namespaces")

GONE_S = 15.0
HANG = {"first": {"hang": 600}}
CONTROLLER = """\
import sys
from pathlib import Path
from hwcheck.inventory.inventory import read
from tests.lab.visits import visit_all

hosts = read(sys.argv[1]).hosts
expect = {host.name: {"first": {"hang": 600}} for host in hosts}
visit_all(hosts, Path(sys.argv[2]), expect=expect, progress=lambda event: print(event, flush=True))
"""


@pytest.fixture
def lab(namespaces: None) -> Iterator[Lab]:
    with Lab(["n1"]) as lab:
        yield lab


def ours(node: Node) -> list[int]:
    """Return the processes of a node that run our payload."""
    found = []
    for pid in node.visitors():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue  # it has just ended
        if LOADER.encode() in command:
            found.append(pid)
    return found


def test_stop_leaves_nothing_and_keeps_a_record(lab: Lab, tmp_path: Path) -> None:
    stop = threading.Event()
    seen: list[list[int]] = []

    def progress(event: VisitEvent) -> None:
        if event.kind == "progress":
            seen.append(ours(lab.nodes["n1"]))
            stop.set()

    records = visit_all(lab.hosts(), tmp_path, expect={"n1": HANG}, progress=progress, stop=stop)
    assert (records["n1"].state, records["n1"].reason.text) == ("lost", "interrupted")
    assert seen
    assert seen[0], "the control: the payload did run before the stop"
    wait_until(lambda: not ours(lab.nodes["n1"]), GONE_S)


def test_kill_9_of_the_controller_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CONTROLLER, str(lab.inventory()), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as controller:
        assert controller.stdout is not None
        for line in controller.stdout:
            if "progress" in line:
                break
        assert ours(lab.nodes["n1"])
        controller.kill()
    wait_until(lambda: not ours(lab.nodes["n1"]), GONE_S)


def test_a_cut_link_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    node = lab.nodes["n1"]

    def progress(event: VisitEvent) -> None:
        if event.kind == "progress":
            assert ours(node)
            node.cut()

    stop = threading.Event()
    run = threading.Thread(
        target=visit_all,
        args=(lab.hosts(), tmp_path),
        kwargs={"expect": {"n1": HANG}, "progress": progress, "stop": stop, "lifeline_s": 6.0},
    )
    run.start()
    try:
        wait_until(lambda: ours(node), GONE_S)
        wait_until(lambda: not ours(node), GONE_S)
    finally:
        stop.set()
        run.join()
