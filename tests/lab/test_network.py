"""The lab leaves nothing behind, whoever ends it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.lab.lab import Lab
from tests.lab.network import Network, Slot, ip

pytestmark = pytest.mark.usefixtures("namespaces")

CRASH = """\
import os
from tests.lab.lab import Lab
with Lab(["n1", "n2"]) as lab:
    print(lab.nodes["n1"].address, flush=True)
    os._exit(1)
"""


def named(stem: str) -> str:
    lines = [*ip("netns", "list").splitlines(), *ip("-o", "link", "show").splitlines()]
    return "\n".join(line for line in lines if stem in line)


def test_nothing_is_left_after_the_end() -> None:
    with Lab(["n1"]) as lab:
        folder = lab.folder
        stem = lab._network._stem
        assert named(stem), "the control: it is there while it runs"
    assert not named(stem)
    assert not folder.exists()


def test_two_labs_do_not_meet() -> None:
    with Lab(["n1"]) as one, Lab(["n1"]) as two:
        assert one.nodes["n1"].address != two.nodes["n1"].address


def test_what_a_crash_left_is_removed_by_the_next() -> None:
    done = subprocess.run([sys.executable, "-c", CRASH], capture_output=True, text=True)
    number = int(done.stdout.split(".")[2])
    network = Network(Slot(number, None))  # type: ignore[arg-type]
    assert named(network._stem), "the control: the crash left it"
    assert list(Path(tempfile.gettempdir()).glob(f"{network._stem}-*"))
    assert network.processes(1)
    slot = Slot.try_take(number)
    assert slot is not None
    assert Slot.try_take(number) is None
    network.down()
    slot.release()
    assert not named(network._stem)
    assert not list(Path(tempfile.gettempdir()).glob(f"{network._stem}-*"))
