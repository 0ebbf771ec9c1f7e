"""``python -m tests.lab up`` and ``down``: a lab that stays, and goes entirely."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.lab.lab import Lab, listens, wait_until
from tests.lab.leftovers import left_of
from tests.lab.network import LAST, STANDING, Network, Slot, remove_leftovers
from tests.lab.standing import BusyError, down, up
from tests.lab.test_network import CRASH

pytestmark = pytest.mark.usefixtures("namespaces")

HWCHECK = Path(sys.executable).parent / "hwcheck"
MODULE = [sys.executable, "-m", "tests.lab"]
GUARDS = 1000


@pytest.fixture
def slot(namespaces: None) -> Iterator[int]:
    """A slot for standing labs that is nobody's: not that of a person, nor of other tests."""
    for number in range(LAST, STANDING, -1):
        guard = Slot.try_take(GUARDS + number)
        if guard is not None and not left_of(number):
            break
    else:
        pytest.fail("a lab stands in every slot")
    try:
        yield number
    finally:
        down(number)
        guard.release()


def command(*arguments: str, slot: int) -> subprocess.CompletedProcess[str]:
    line = [*MODULE, *arguments, "--slot", str(slot)]
    return subprocess.run(line, capture_output=True, text=True)


def addresses(inventory: str) -> dict[str, str]:
    hosts = yaml.safe_load(Path(inventory).read_text())["all"]["hosts"]
    return {name: host["ansible_host"] for name, host in hosts.items()}


def test_it_outlives_its_command_and_the_removal_of_leftovers(slot: int) -> None:
    done = command("up", "--nodes", "2", slot=slot)
    assert done.returncode == 0, done.stderr
    inventory = done.stdout.strip()
    assert "\n" not in inventory
    assert list(addresses(inventory)) == ["node01", "node02"]
    assert f"hwcheck validate --hosts {inventory}\n" in done.stderr
    crashed = subprocess.run([sys.executable, "-c", CRASH], capture_output=True, text=True)
    number = int(crashed.stdout.split(".")[2])
    assert left_of(number), "the control: there is something to remove"
    remove_leftovers()
    assert not left_of(number)
    assert all(map(listens, addresses(inventory).values()))
    assert command("down", slot=slot).returncode == 0
    assert not left_of(slot)


def test_the_second_replaces_the_first(slot: int) -> None:
    first = command("up", "--nodes", "3", slot=slot).stdout.strip()
    second = command("up", "--nodes", "1", slot=slot)
    assert "a lab that stood before is gone" in second.stderr
    assert not Path(first).exists()
    assert list(addresses(second.stdout.strip())) == ["node01"]
    assert sum(name.startswith("netns ") for name in left_of(slot)) == 1


def test_down_removes_what_a_killed_up_left_and_can_be_repeated(slot: int) -> None:
    line = [*MODULE, "up", "--nodes", "30", "--slot", str(slot)]
    network = Network(Slot(slot, None))  # type: ignore[arg-type]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as half:
        wait_until(lambda: network.processes(1), 30)
        half.kill()
        assert half.communicate()[0] == b"", "it was killed half way"
    assert left_of(slot), "the control: it left something"
    for _ in range(2):
        done = command("down", slot=slot)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert not left_of(slot)


def test_a_build_that_fails_leaves_nothing(slot: int) -> None:
    done = command("up", "--rate", "node02=quick", slot=slot)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'illegal value for "rate"' in done.stderr
    assert done.stderr.count("\n") == 1
    assert not left_of(slot)


def test_two_at_once_do_not_meet(slot: int) -> None:
    taken = Slot.try_take(slot)
    assert taken is not None
    with pytest.raises(BusyError, match="another `up` or `down` is at work"):
        up(Lab(["n1"]), slot)
    with pytest.raises(BusyError):
        down(slot)
    taken.release()
    down(slot)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--nodes", "0"], "'0' is not a number from 1 to 200"),
        (["--rate", "node02"], "'node02' is not NODE=VALUE"),
        (["--rate", "node07=1mbit"], "no node node07; the nodes are node01 to node02"),
        (["--fault", "node01=gpu_lost"], "a --fault lies over a --scenario; name one"),
        (["--scenario", "nosuch"], "nosuch: No such file or directory"),
        (["--scenario", "h100x8", "--fault", "node01=nosuch"], "no fault 'nosuch'; known: "),
    ],
)
def test_a_command_that_cannot_be_meant(slot: int, arguments: list[str], reason: str) -> None:
    done = command("up", *arguments, slot=slot)
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert not left_of(slot)


@pytest.mark.wide
def test_hwcheck_validates_the_hosts_of_a_scenario_and_finds_the_fault(
    slot: int, tmp_path: Path
) -> None:
    arguments = ["--nodes", "3", "--scenario", "h100x8", "--fault", "node02=gpu_lost"]
    inventory = command("up", *arguments, slot=slot).stdout.strip()
    outcomes = {}
    for limit in ("all", "all:!node02"):
        line = [str(HWCHECK), "validate", "--hosts", inventory, "--limit", limit]
        line += ["--only", "gpu_count,gpu_lost,serials", "--out", str(tmp_path), "--json"]
        done = subprocess.run(line, capture_output=True, text=True)
        outcomes[limit] = (done.returncode, json.loads(done.stdout)["outcome"])
    assert outcomes == {"all": (1, "fail"), "all:!node02": (0, "pass")}
