"""A rollout over real hosts: what fails stops it before the next host is touched."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator

import pytest

from hwcheck.results.run_folder import read_run
from tests.lab.lab import Lab
from tests.lab.provisioned import BIN, Site, conf, logins
from tests.lab.scenarios_on_nodes import prepare
from tests.lab.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.timeout(300)]

OTHER = {"nccl_conf_settings": {"NCCL_DEBUG": "TRACE"}}
ROLL_OUT = ("rollout", "--playbook", "play.yml", "--only", "gpu_count,gpu_lost,serials")


@pytest.fixture(scope="module")
def site(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two simulated hosts; the first has lost a GPU."""
    with Lab(("gpu1", "gpu2"), prepare=prepare("h100x8", {"gpu1": "gpu_lost"})) as lab:
        yield Site(lab, tmp_path_factory.mktemp("site"))


def test_a_canary_that_fails_validation_stops_it_and_the_other_host_is_untouched(
    site: Site,
) -> None:
    canary, other = site.lab.nodes.values()
    done = site.run(*ROLL_OUT)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "canary: stopped: gpu1 (exit codes: provision 0, state 0, validate 1)" in done.stdout
    assert "batch1: untouched: gpu2\n" in done.stdout
    assert "NCCL_DEBUG=WARN" in conf(canary)
    assert conf(other) == ""
    assert (logins(canary) > 0, logins(other)) == (True, 0)
    folder = site.newest()
    assert [path.name for path in folder.iterdir() if path.is_dir()] == ["canary"]
    (validated,) = (folder / "canary" / "validate").glob("2*")
    assert [host.name for host in read_run(validated).meta.hosts] == ["gpu1"]


def test_a_canary_that_passes_lets_the_others_follow(site: Site) -> None:
    done = site.run(*ROLL_OUT, "--canary", "gpu2", "-e", json.dumps(OTHER), "-e", "unheard=of")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "canary: done: gpu2 (exit codes: provision 0, state 0, validate 0)" in done.stdout
    assert "batch1: stopped: gpu1 (exit codes: provision 0, state 0, validate 1)" in done.stdout
    assert all("NCCL_DEBUG=TRACE" in conf(node) for node in site.lab.nodes.values())
    batches = site.record("rollout.json")["batches"]
    assert [(each["name"], each["outcome"]) for each in batches] == [
        ("canary", "done"),
        ("batch1", "stopped"),
    ]


SLOW = """\
- hosts: all
  gather_facts: false
  tasks:
    - name: Take long
      ansible.builtin.command: sleep 4711
"""
AT_WORK = "pgrep -xf 'sleep 4711' || true"


@pytest.mark.parametrize(
    ("command", "how"),
    [
        ("rollout", signal.SIGINT),
        pytest.param("provision", signal.SIGKILL, marks=pytest.mark.wide),
        pytest.param("provision", signal.SIGINT, marks=pytest.mark.wide),
        pytest.param("rollout", signal.SIGKILL, marks=pytest.mark.wide),
    ],
)
def test_a_command_that_is_ended_leaves_no_task_on_the_node_and_no_ansible_here(
    site: Site, real_ansible: None, how: signal.Signals, command: str
) -> None:
    canary = next(iter(site.lab.nodes.values()))
    (site.folder / "slow.yml").write_text(SLOW)
    words = [BIN / "hwcheck", command, "--hosts", "cluster.yml", "--playbook", "slow.yml"]
    before = _of_ansible()
    with subprocess.Popen(
        words, cwd=site.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        wait_until(lambda: canary.ask(["sh", "-c", AT_WORK]) != "", 60)
        process.send_signal(how)
    assert process.returncode == (-how if how == signal.SIGKILL else 130)
    wait_until(lambda: canary.ask(["sh", "-c", AT_WORK]) == "", 20)
    wait_until(lambda: _of_ansible() <= before, 20)
    if command == "rollout":
        batches = site.record("rollout.json")["batches"]
        wanted = "under way" if how == signal.SIGKILL else "stopped"
        assert [each["outcome"] for each in batches] == [wanted, "untouched"]


def _of_ansible() -> set[str]:
    """Return the processes of ansible-playbook, its guard and its ssh, as far as they run."""
    listed = subprocess.run(
        ["pgrep", "-f", "ansible-playbook|inventory.guard|ControlPath=/tmp/hw-"],
        capture_output=True,
        text=True,
    )
    return set(listed.stdout.split())
