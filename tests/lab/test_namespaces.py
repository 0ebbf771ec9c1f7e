"""What a host changes stays on that host."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.lab.lab import Lab
from tests.lab.namespaces import REPOSITORY, kept, root_home
from tests.lab.visits import visit_all

pytestmark = pytest.mark.usefixtures("namespaces")

Ask = Callable[[Sequence[str]], str]
PLACES = ("/etc", "/tmp", "/var/tmp", "/run", "/dev/shm", "/opt", "/usr/local", "/var", "/home")
IN_AN_OVERLAY = """\
set -e
mount -t tmpfs hwlab-test "$1"
mkdir "$1/upper" "$1/work" "$1/lower" "$1/merged"
mount -t overlay -o "lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work" hwlab-test "$1/merged"
TMPDIR=$1/merged exec "$2" -c "$3"
"""
WRITE_ETC = """\
from tests.lab.lab import Lab
with Lab(["n1"]) as lab:
    node = lab.nodes["n1"]
    node.ask(["sh", "-c", "echo changed >/etc/probe"])
    print(node.ask(["cat", "/etc/probe"]), end="")
    print(node.ask(["cat", "/proc/self/mountinfo"]))
"""


@pytest.fixture(scope="module")
def lab(namespaces: None) -> Iterator[Lab]:
    with Lab(["n1", "n2"]) as lab:
        yield lab


def machine(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def network_only(lab: Lab, number: int) -> Ask:
    """Return what asks a host that has a network namespace and nothing else of its own."""
    name = lab._network.namespace(number)
    return lambda command: machine(["ip", "netns", "exec", name, *command])


def who_reads(folder: str, writer: Ask, others: Mapping[str, Ask]) -> set[str]:
    """Write a file there and return who else reads it."""
    path = f"{folder}/hwlab-probe-{uuid.uuid4()}"
    writer(["sh", "-c", 'echo secret >"$1"', "sh", path])
    read = ["sh", "-c", 'if [ -e "$1" ]; then cat "$1"; fi', "sh", path]
    try:
        assert writer(read) == "secret\n", "the control: it was written"
        return {name for name, ask in others.items() if ask(read)}
    finally:
        writer(["rm", path])


def login(lab: Lab, name: str, command: str) -> str:
    return machine(["ssh", "-F", str(lab.ssh_config()), name, command])


@pytest.mark.parametrize("folder", [*PLACES, "/boot", root_home()])
def test_no_other_host_and_not_the_machine_sees_what_one_writes(lab: Lab, folder: str) -> None:
    n1, n2 = (lab.nodes[name].ask for name in ("n1", "n2"))
    assert who_reads(folder, n1, {"n2": n2, "machine": machine}) == set()


@pytest.mark.parametrize("folder", [*PLACES, root_home()])
def test_without_the_mount_namespace_the_same_probe_finds_it(lab: Lab, folder: str) -> None:
    others = {"n2": network_only(lab, 2), "machine": machine}
    assert who_reads(folder, network_only(lab, 1), others) == {"n2", "machine"}


def test_what_one_login_changes_the_next_sees(lab: Lab) -> None:
    login(lab, "n1", "echo 'export LEFT=1' >/etc/profile.d/left.sh; touch /tmp/left /run/left")
    assert login(lab, "n1", "cat /etc/profile.d/left.sh; ls /tmp/left /run/left").count("left") == 2
    assert lab.nodes["n1"].ask(["cat", "/etc/profile.d/left.sh"]) == "export LEFT=1\n"
    assert (lab.nodes["n1"].root / "etc/profile.d/left.sh").exists()
    assert not Path("/etc/profile.d/left.sh").exists()
    assert login(lab, "n2", "ls /etc/profile.d /tmp /run").count("left") == 0


def test_ansible_changes_one_host_and_finds_it_changed(lab: Lab) -> None:
    path = "etc/security/hwlab.conf"
    command = [sys.executable, "-m", "ansible", "adhoc", "n1", "-i", str(lab.inventory())]
    for changed in ("CHANGED", "SUCCESS"):
        said = machine([*command, "-m", "copy", "-a", f"content=* dest=/{path} mode=0600"])
        assert said.startswith(f"n1 | {changed} => ")
        assert (lab.nodes["n1"].root / path).read_text() == "*"
        assert not (lab.nodes["n2"].root / path).exists()
        assert not (Path("/") / path).exists()


def test_a_host_keeps_what_the_machine_has_in_etc(lab: Lab) -> None:
    lines = lab.nodes["n1"].ask(["cat", "/etc/passwd"])
    assert lines == Path("/etc/passwd").read_text()


def test_a_host_sees_nothing_of_others_folders_and_begins_with_an_empty_home(lab: Lab) -> None:
    with Lab(["n3"]) as other:
        node = other.nodes["n3"]
        assert node.ask(["ls", str(other.folder)]) == "n3\n"
        with pytest.raises(subprocess.CalledProcessError):
            node.ask(["ls", str(lab.folder)])
        places = [Path(path) for path in (*kept(), tempfile.gettempdir())]
        home = [path for path in places if path.is_relative_to(root_home())]
        in_home = {path.relative_to(root_home()).parts[0] for path in home}
        assert set(node.ask(["ls", "-A", root_home()]).split()) == {".ssh"} | in_home


def test_what_the_tests_need_is_in_sight_and_cannot_be_changed(lab: Lab) -> None:
    ask = lab.nodes["n1"].ask
    assert ask([sys.executable, "-c", "print(1)"]) == "1\n"
    assert ask(["ls", str(REPOSITORY)])
    for path in kept():
        with pytest.raises(subprocess.CalledProcessError, match="status 1"):
            ask(["touch", f"{path}/probe"])


def test_each_host_has_its_name_and_knows_the_others(lab: Lab) -> None:
    before = os.uname().nodename
    for name, node in lab.nodes.items():
        assert login(lab, name, "uname -n; cat /etc/hostname") == f"{name}\n{name}\n"
        assert node.ask(["uname", "-n"]) == f"{name}\n"
    assert lab.nodes["n1"].ask(["getent", "hosts", "n2"]).split()[0] == lab.nodes["n2"].address
    assert os.uname().nodename == before
    assert network_only(lab, 1)(["uname", "-n"]) == f"{before}\n", "the control"


def test_a_visit_runs_inside(lab: Lab, tmp_path: Path) -> None:
    records = visit_all(lab.hosts(), tmp_path)
    for name in lab.nodes:
        report = records[name].report
        assert report is not None
        assert report.facts["hostname"] == name
    unpacked = lab.nodes["n1"].home.glob(".cache/hwcheck/*/hwcheck")
    assert list(unpacked), "its cache is in its own home"


def test_no_mount_gets_out(namespaces: None) -> None:
    with Lab(["n1"]) as lab:
        inside = lab.nodes["n1"].ask(["cat", "/proc/self/mountinfo"])
        outside = Path("/proc/self/mountinfo").read_text()
        assert " - overlay hwlab " in inside, "the control"
        assert str(lab.folder) in inside
        assert " hwlab " not in outside
        assert str(lab.folder) not in outside
        stem = lab._network._stem
        assert f"/run/netns/{stem}-n1 " in outside, "the control: what ip makes, and removes"
    assert f"/run/netns/{stem}-n1 " not in Path("/proc/self/mountinfo").read_text()


def changes_in_memory(mountinfo: str) -> bool:
    lines = [line.split() for line in mountinfo.splitlines()]
    return any(words[4].endswith("/changes") and "tmpfs" in words for words in lines)


def test_a_lab_on_an_overlay_keeps_its_changes_in_memory(lab: Lab, tmp_path: Path) -> None:
    command = ["unshare", "--mount", "sh", "-c", IN_AN_OVERLAY, "sh", str(tmp_path), sys.executable]
    first, _, mountinfo = machine([*command, WRITE_ETC]).partition("\n")
    assert first == "changed"
    assert changes_in_memory(mountinfo)
    here = lab.nodes["n1"].ask(["cat", "/proc/self/mountinfo"])
    assert not changes_in_memory(here), "the control: on disk where that is possible"
