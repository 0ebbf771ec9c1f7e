"""The container toolkit, with stand-ins for Docker, containerd and the toolkit's own tool."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from tests.lab.scenario import load
from tests.roles.containers import install_runtimes, toolkit
from tests.roles.machine import PACKAGES, Machine, Played
from tests.roles.stated import Stated, state

ROLE = ["container_toolkit"]
WANTED: dict[str, object] = {
    "nvidia_repository_url": f"file:{PACKAGES}/nvidia",
    "nvidia_repository_suite": "./",
    "nvidia_repository_trusted": True,
    "container_toolkit_enabled": True,
    "container_toolkit_version": "1.17",
    "container_toolkit_runtimes": ["docker", "containerd"],
}
# By the task that must mend it.
DRIFT = {
    "nvidia_repository : Hold the packages, or let go of them": "apt-mark unhold "
    "nvidia-container-toolkit",
    "container_toolkit : Tell the runtimes of it": "echo '{}' >/etc/docker/daemon.json",
    "container_toolkit : Describe the GPUs of the running driver": "sed -i s/so[.].*/so.1/ "
    "/etc/cdi/nvidia.yaml",
}
DRIFTED = {"container_toolkit_hold", "container_toolkit_runtimes", "container_toolkit_cdi"}
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def machine(namespaces: None) -> Iterator[Machine]:
    with Machine(copy.deepcopy(dict(load("h100x8").host)), []) as machine:
        machine.add_repository("nvidia", toolkit("1.17.8", "1.18.0"))
        install_runtimes(machine)
        yield machine


@pytest.fixture(scope="module")
def predicted(machine: Machine) -> Played:
    return machine.play(ROLE, "--check", **WANTED)


@pytest.fixture(scope="module")
def before(machine: Machine, predicted: Played) -> Stated:
    return state(machine, ROLE, **WANTED)


@pytest.fixture(scope="module")
def first(machine: Machine, before: Stated) -> Played:
    assert machine.ask("ls /etc/cdi /etc/docker 2>/dev/null || true") == ""
    return machine.play(ROLE, **WANTED)


def test_check_mode_predicts_what_the_first_run_does_and_the_second_changes_nothing(
    machine: Machine, predicted: Played, first: Played
) -> None:
    assert predicted.code == 0, predicted.text
    assert first.code == 0, first.text
    ours = [task for task in first.changed if task.startswith("container_toolkit : ")]
    assert ours == [task for task in predicted.changed if task.startswith("container_toolkit : ")]
    assert len(ours) == 2
    second = machine.play(ROLE, **WANTED)
    assert (second.code, second.changes) == (0, 0), second.text


def test_the_state_fails_before_and_holds_after(
    machine: Machine, before: Stated, first: Played
) -> None:
    assert before.variables("fail") == DRIFTED | {"container_toolkit_enabled"}, before.text
    holds = state(machine, ROLE, **WANTED)
    assert holds.code == 0, holds.text


@pytest.mark.wide
def test_drift_is_found_and_mended(machine: Machine, first: Played) -> None:
    machine.ask("; ".join(DRIFT.values()))
    found = state(machine, ROLE, **WANTED)
    assert found.variables("fail") == DRIFTED, found.text
    mended = machine.play(ROLE, **WANTED)
    assert mended.code == 0, mended.text
    assert mended.changed == list(DRIFT)


@pytest.mark.wide
def test_a_runtime_that_was_told_and_not_started_again_is(machine: Machine, first: Played) -> None:
    """As after a run that broke off in between."""
    machine.ask("echo '{\"runtimes\": {}}' >/run/docker.json; touch /etc/containerd/config.toml")
    again = machine.play(ROLE, **WANTED)
    assert again.changed == ["container_toolkit : Tell the runtimes of it"]
    assert "nvidia" in machine.ask("docker info")
    assert machine.play(ROLE, **WANTED).changes == 0


@pytest.mark.wide
def test_it_becomes_the_default_where_that_is_wanted(machine: Machine, first: Played) -> None:
    wanted = {**WANTED, "container_toolkit_default_runtime": True}
    assert state(machine, ROLE, **wanted).variables("fail") == {"container_toolkit_default_runtime"}
    assert machine.play(ROLE, **wanted).code == 0
    assert state(machine, ROLE, **wanted).code == 0
    assert machine.play(ROLE, **wanted).changes == 0


def test_a_runtime_that_is_not_there_is_refused(machine: Machine, first: Played) -> None:
    machine.ask("mv /usr/local/bin/containerd /usr/local/bin/containerd.away")
    refused = machine.play(ROLE, **WANTED)
    machine.ask("mv /usr/local/bin/containerd.away /usr/local/bin/containerd")
    assert refused.code != 0
    assert "containerd is not installed" in refused.text
    assert refused.changes == 0
