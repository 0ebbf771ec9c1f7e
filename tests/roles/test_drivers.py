"""Driver, Fabric Manager, CUDA, DCGM and NCCL from small packages of the same names."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.scenario import load
from tests.roles.machine import INITRAMFS, KERNEL, PACKAGES, Machine, Played
from tests.roles.nvidia_packages import FABRIC, NEW, NEXT, OLD, driver, other
from tests.roles.packages import Package
from tests.roles.signing import SigningKey
from tests.roles.stated import HWCHECK, Stated, state

ROLES = ["nvidia_driver", "nvidia_fabricmanager", "cuda_toolkit", "dcgm", "nccl", "node_reboot"]
HELD = "cuda-toolkit-12-8 datacenter-gpu-manager-4-cuda12 libnccl-dev libnccl2 nvidia-driver-cuda "
HELD += "nvidia-fabricmanager-580 nvidia-kernel-open-dkms nvidia-open nvidia-persistenced"
REST = other("libnccl2", "libnccl-dev")
KEY = "nvidia.asc"  # lies beside the playbook
DRIFT = (
    "apt-get -q -y install --allow-change-held-packages libnccl2=2.27.3-1+cuda12.9",
    "rm /etc/apt/sources.list.d/hwcheck-nvidia.sources; apt-get -q update",
    "rm /etc/modprobe.d/hwcheck-nouveau.conf /etc/profile.d/hwcheck-cuda.sh",
    "apt-mark unhold nvidia-open",
    "systemctl stop nvidia-persistenced nvidia-dcgm",
    "systemctl -q disable nvidia-fabricmanager",
    f"sed -i s/LOG_LEVEL=3/LOG_LEVEL=4/ {FABRIC}",
    "ln -sfn /usr/local/cuda-11.8 /usr/local/cuda",
)
DRIFTED = {
    "nvidia_repository_url",
    "nvidia_driver_nouveau_off",
    "nvidia_driver_hold",
    "nvidia_driver_persistence_daemon",
    "nvidia_fabricmanager_config",
    "nvidia_fabricmanager_service",
    "cuda_toolkit_link",
    "cuda_toolkit_profile",
    "dcgm_service",
    "nccl_library",
    "nccl_hold",
}
# The tasks that must mend it, and what they lead to.
MENDED = [
    "nvidia_repository : Name the repository",
    "nvidia_repository : Read the list of its packages",
    "nvidia_driver : Keep nouveau from loading, or let it load",
    "nvidia_repository : Hold the packages, or let go of them",
    "nvidia_driver : Rebuild the initramfs",
    "nvidia_driver : Run the persistence daemon",
    "nvidia_fabricmanager : Configure it",
    "nvidia_fabricmanager : Run it",
    "node_service : Restart the service where it has not read its files",
    "cuda_toolkit : Link to it",
    "cuda_toolkit : Put it on the search path, or take it off",
    "dcgm : Run it",
    "nvidia_repository : Install the packages",
    "nvidia_repository : Hold the packages, or let go of them",
]
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SigningKey]:
    with SigningKey(tmp_path_factory.mktemp("gpg") / "k") as key:
        yield key


@pytest.fixture(scope="module")
def machine(namespaces: None, key: SigningKey) -> Iterator[Machine]:
    host = copy.deepcopy(dict(load("h100x8").host)) | {"driver": None}
    host["kernel"]["modules"] = []
    with Machine(host, [Package(f"linux-headers-{KERNEL}", "6.18-1")]) as machine:
        machine.add_repository("nvidia", [*driver(OLD), *driver(NEW), *driver(NEXT), *REST], key)
        machine.beside_playbook(KEY).write_bytes(key.armored.read_bytes())
        yield machine


def wanted(version: str, **more: object) -> dict[str, object]:
    """Return the variables of the site, with a version of the driver."""
    return {
        "nvidia_repository_url": f"file:{PACKAGES}/nvidia",
        "nvidia_repository_suite": "./",
        "nvidia_repository_key": KEY,
        "nvidia_driver_version": version,
        "nvidia_fabricmanager_config": {"LOG_LEVEL": 3},
        "cuda_toolkit_release": "12.8.0-1",
        "dcgm_enabled": True,
        "nccl_version": "2.26.2-1+cuda12.8",
        **more,
    }


def versions(machine: Machine) -> dict[str, str]:
    """Return the installed packages of the repository with their versions."""
    names = "'nvidia-*' 'libnccl*' 'cuda-toolkit-*' 'datacenter-gpu-manager*'"
    script = (
        f"dpkg-query -W -f '${{db:Status-Abbrev}} ${{Package}} ${{Version}}\\n' {names} || true"
    )
    lines = [line.split() for line in machine.ask(script).splitlines()]
    return {line[1]: line[2] for line in lines if line[0] in ("ii", "hi")}


def with_driver(version: str) -> dict[str, str]:
    """Return what must be installed with a driver, exactly."""
    names = ("open", "kernel-open-dkms", "driver-cuda", "persistenced", "fabricmanager-580")
    return {f"nvidia-{name}": f"{version}-1" for name in names} | {
        "cuda-toolkit-12-8": "12.8.0-1",
        "datacenter-gpu-manager-4-cuda12": "4.4.1-1",
        "libnccl-dev": "2.26.2-1+cuda12.8",
        "libnccl2": "2.26.2-1+cuda12.8",
    }


@pytest.fixture(scope="module")
def orderless(machine: Machine) -> Played:
    """Fabric Manager before there is a driver."""
    return machine.play(["nvidia_fabricmanager"], **wanted(OLD))


@pytest.fixture(scope="module")
def predicted(machine: Machine, orderless: Played) -> Played:
    machine.ask("rm /etc/apt/sources.list.d/*; apt-get -q update")
    return machine.play(ROLES, "--check", **wanted(OLD))


@pytest.fixture(scope="module")
def before(machine: Machine, predicted: Played) -> Stated:
    return state(machine, [*ROLES, "nvidia_repository"], **wanted(OLD))


@pytest.fixture(scope="module")
def first(machine: Machine, before: Stated) -> Played:
    assert versions(machine) == {}
    return machine.play(ROLES, **wanted(OLD))


@pytest.fixture(scope="module")
def second(machine: Machine, first: Played) -> Played:
    """The same once more, on a node that is at work."""
    return machine.play(ROLES, **wanted(OLD), node_reboot_drained_command=["false"])


@pytest.fixture(scope="module")
def refused(machine: Machine, second: Played) -> Played:
    """Another driver for a node that is at work."""
    return machine.play(["nvidia_driver"], **wanted(NEW), node_reboot_drained_command=["false"])


@pytest.fixture(scope="module")
def raised(machine: Machine, refused: Played) -> Played:
    """The newer driver of the branch, where no reboot is allowed."""
    roles = ["nvidia_driver", "nvidia_fabricmanager", "node_reboot"]
    return machine.play(roles, **wanted(NEW))


def test_fabric_manager_waits_for_a_driver(orderless: Played) -> None:
    assert orderless.code != 0
    assert "apply the role nvidia_driver first" in orderless.text


def test_check_mode_predicts_each_role_that_changes(predicted: Played, first: Played) -> None:
    assert predicted.code == 0, predicted.text
    assert first.code == 0, first.text
    assert set(predicted.changed) - set(first.changed) == {
        "nvidia_repository : Predict that the packages change"
    }
    assert {task.partition(" :")[0] for task in predicted.changed} >= {
        task.partition(" :")[0] for task in first.changed
    } - {"nvidia_fabricmanager", "dcgm"}


def test_the_pinned_version_is_installed_held_and_running(machine: Machine, first: Played) -> None:
    assert first.code == 0, first.text
    assert versions(machine) == with_driver(OLD)
    assert machine.ask("apt-mark showhold").split() == HELD.split()
    assert machine.ask("cat /sys/module/nvidia/version") == OLD
    services = "nvidia-persistenced nvidia-fabricmanager nvidia-dcgm"
    assert machine.ask(f"systemctl is-active {services}").split() == ["active"] * 3
    assert machine.ask(f"cat {FABRIC}").splitlines() == ["LOG_LEVEL=3", "DAEMONIZE=1"]
    assert machine.ask("readlink /usr/local/cuda") == "/usr/local/cuda-12.8"
    path = machine.ask(". /etc/profile.d/hwcheck-cuda.sh; echo $PATH").split(":")
    assert "/usr/local/cuda/bin" in path
    assert "blacklist nouveau" in machine.ask(f"cat {INITRAMFS}")


def test_the_second_run_changes_nothing(second: Played) -> None:
    assert second.code == 0, second.text
    assert second.changes == 0, second.changed


def test_the_state_fails_before_and_holds_after(
    machine: Machine, before: Stated, second: Played
) -> None:
    assert before.code == 1, before.text
    assert before.roles("fail") == {*ROLES, "nvidia_repository"} - {"node_reboot"}
    holds = state(machine, [*ROLES, "nvidia_repository"], **wanted(OLD))
    assert holds.code == 0, holds.text
    assert holds.variables("pass") >= DRIFTED | before.variables("fail")


def test_drift_is_found_and_mended_and_nothing_else_is_touched(
    machine: Machine, second: Played
) -> None:
    machine.ask("; ".join(DRIFT))
    found = state(machine, [*ROLES, "nvidia_repository"], **wanted(OLD))
    assert found.variables("fail") == DRIFTED, found.text
    mended = machine.play(ROLES, **wanted(OLD))
    assert mended.code == 0, mended.text
    assert mended.changed == MENDED
    assert versions(machine) == with_driver(OLD)


def test_an_ordinary_upgrade_leaves_all_of_it_alone(machine: Machine, second: Played) -> None:
    machine.ask("apt-get -q -y install nvidia-container-toolkit; apt-get -q -y dist-upgrade")
    apart = {"nvidia-container-toolkit": "1.17.8-1"}
    assert versions(machine) == with_driver(OLD) | apart


def test_a_node_at_work_keeps_its_driver(machine: Machine, refused: Played) -> None:
    assert refused.code != 0
    assert "needs nvidia-open in another version and is not drained: false ended" in refused.text
    assert refused.changes == 0, refused.changed  # no pin that an ordinary upgrade would follow
    assert machine.ask("apt-mark showhold").split() == HELD.split()
    assert with_driver(OLD).items() <= versions(machine).items()


def test_a_newer_version_moves_held_packages_and_waits_for_a_reboot(
    machine: Machine, raised: Played
) -> None:
    assert raised.code == 0, raised.text
    assert with_driver(NEW).items() <= versions(machine).items()
    assert machine.ask("apt-mark showhold").split() == HELD.split()
    assert "nvidia_fabricmanager : Run it" not in raised.changed
    reason = f"driver {OLD} is loaded, {NEW} is installed"
    assert machine.ask("cat /run/hwcheck/reboot/nvidia_driver") == reason
    assert "node_reboot_allowed is false" in raised.text


def test_a_node_at_work_is_not_rebooted(machine: Machine, raised: Played) -> None:
    busy = machine.play(
        ["node_reboot"], node_reboot_allowed=True, node_reboot_drained_command=["false"]
    )
    assert busy.code != 0
    assert "needs a reboot and is not drained" in busy.text
    assert machine.ask("cat /sys/module/nvidia/version") == OLD


@pytest.mark.wide
def test_a_rollout_reboots_a_drained_node_then_asserts_and_validates_it(
    machine: Machine, raised: Played, tmp_path: Path
) -> None:
    waits = state(machine, ["nvidia_driver"], **wanted(NEW))
    assert waits.variables("fail") == {"nvidia_driver_version"}, waits.text
    boot = machine.ask("cat /proc/sys/kernel/random/boot_id")
    inventory = machine.inventory(**wanted(NEW), node_reboot_allowed=True)
    command = [HWCHECK, "rollout", "--hosts", inventory, "--only", "software_versions"]
    done = subprocess.run(
        [*command, "--playbook", machine.playbook(ROLES)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    # No GPU answers on this machine, so there is nothing to validate.
    stages = "exit codes: provision 0, state 0, validate 3"
    assert f"canary: stopped: gpu01 ({stages})" in done.stdout, done.stdout + done.stderr
    (record,) = tmp_path.glob("runs/*/canary/provision.json")
    assert json.loads(record.read_text())["hosts"][0]["counts"]["changed"] == 1
    assert machine.ask("cat /proc/sys/kernel/random/boot_id") != boot
    assert machine.ask("cat /sys/module/nvidia/version") == NEW
    assert machine.ask("ls /run/hwcheck/reboot 2>/dev/null || true") == ""


@pytest.mark.wide
def test_another_branch_and_back_again(machine: Machine, raised: Played) -> None:
    changed = machine.play(["nvidia_driver"], **wanted("590"))
    assert changed.code == 0, changed.text
    assert versions(machine)["nvidia-driver-cuda"] == f"{NEXT}-1"
    back = machine.play(["nvidia_driver"], **wanted(OLD))
    assert back.code == 0, back.text
    names = ("open", "kernel-open-dkms", "driver-cuda", "persistenced")
    there = versions(machine)
    assert {there[f"nvidia-{name}"] for name in names} == {f"{OLD}-1"}, there


@pytest.mark.wide
def test_a_branch_is_held_at_the_version_that_came(machine: Machine, raised: Played) -> None:
    back = machine.play(["nvidia_driver"], **wanted(OLD))
    held = machine.play(["nvidia_driver"], **wanted("580"))
    assert (back.code, held.code) == (0, 0), back.text + held.text
    there = versions(machine)
    machine.ask("apt-get -q -y dist-upgrade")
    assert versions(machine) == there
    machine.ask("apt-mark unhold nvidia-persistenced")
    loose = state(machine, ["nvidia_driver"], **wanted("580"))
    assert "nvidia_driver_hold" in loose.variables("fail"), loose.text
    assert "nvidia-persistenced: not held" in loose.text
    machine.ask("apt-get -q -y dist-upgrade")
    assert versions(machine)["nvidia-persistenced"] == f"{NEW}-1"  # what the hold is for


@pytest.mark.parametrize(
    ("role", "wrong", "says"),
    [
        ("nvidia_fabricmanager", {"nvidia_fabricmanager_version": "570"}, "does not start with"),
        pytest.param(
            "cuda_toolkit",
            {"cuda_toolkit_driver_minimum": "600"},
            "is older than 600",
            marks=pytest.mark.wide,
        ),
        pytest.param(
            "nvidia_driver",
            {"nvidia_driver_version": "newest"},
            "is no version",
            marks=pytest.mark.wide,
        ),
        ("nvidia_driver", {"nvidia_driver_version": "999"}, "999"),
    ],
)
def test_what_cannot_work_is_refused(
    machine: Machine, raised: Played, role: str, wrong: dict[str, object], says: str
) -> None:
    refused = machine.play([role], **wanted(OLD) | wrong)
    assert refused.code != 0
    assert says in refused.text


def test_a_repository_with_another_signature_is_refused(
    machine: Machine, raised: Played, key: SigningKey, tmp_path_factory: pytest.TempPathFactory
) -> None:
    role = ["nvidia_repository"]
    keyless = machine.play(role, **wanted(OLD, nvidia_repository_key=""))
    assert keyless.code != 0
    assert "NO_PUBKEY" in keyless.text
    with SigningKey(tmp_path_factory.mktemp("gpg") / "k") as other:
        machine.beside_playbook("other.asc").write_bytes(other.armored.read_bytes())
    refused = machine.play(role, **wanted(OLD, nvidia_repository_key="other.asc"))
    assert refused.code != 0
    assert "NO_PUBKEY" in refused.text
    machine.beside_playbook("nvidia.gpg").write_bytes(key.binary.read_bytes())
    taken = machine.play(role, **wanted(OLD, nvidia_repository_key="nvidia.gpg"))
    assert taken.code == 0, taken.text
    machine.ask("apt-get -q update -o APT::Update::Error-Mode=any")


@pytest.mark.wide
def test_a_driver_without_a_module_for_this_kernel_is_refused(
    machine: Machine, raised: Played, key: SigningKey
) -> None:
    broken = "580.99.99"
    machine.add_repository("nvidia", [*driver(broken, module=False), *REST], key)
    machine.ask("apt-get -q update")
    refused = machine.play(["nvidia_driver"], **wanted(broken))
    assert refused.code != 0
    assert f"no nvidia module for kernel {KERNEL}" in refused.text
