"""What NVLink needs of a node: NVLSM beside Fabric Manager (HGX B200), IMEX (trays of a rack)."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from tests.lab.scenario import load
from tests.roles.machine import INITRAMFS, KERNEL, PACKAGES, Machine, Played
from tests.roles.nvidia_packages import IMEX, OLD, driver
from tests.roles.packages import Package
from tests.roles.stated import Stated, state

ROLES = ["nvidia_fabricmanager", "nvidia_imex"]
BESIDE_DRIVER = ["nvidia_driver", *ROLES]
"""It holds IMEX too."""
WANTED: dict[str, object] = {
    "nvidia_repository_url": f"file:{PACKAGES}/nvidia",
    "nvidia_repository_suite": "./",
    "nvidia_repository_trusted": True,
    "nvidia_driver_version": OLD,
    "nvidia_imex_addresses": "{{ groups['all'] | map('extract', hostvars, 'ansible_host') }}",
    "nvidia_imex_gpus": ["0x2901"],  # this one board has both
    "nvidia_imex_config": {"LOG_LEVEL": 3},
}
NODES = "/etc/nvidia-imex/nodes_config.cfg"
CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
HELD = "nvidia-driver-cuda nvidia-fabricmanager-580 nvidia-imex nvidia-kernel-open-dkms "
HELD += "nvidia-open nvidia-persistenced nvlsm"
DRIFT = (
    "apt-mark unhold nvidia-imex nvlsm",
    "rm -r /sys/module/ib_umad /etc/modules-load.d/hwcheck-nvlsm.conf",
    f"rm {CHANNEL}; echo 10.9.9.9 >{NODES}; sed -i s/LOG_LEVEL=3/LOG_LEVEL=4/ {IMEX}",
    "systemctl -q disable nvidia-imex",
)
DRIFTED = {
    "nvidia_driver_hold",
    "nvidia_fabricmanager_nvlsm_packages",
    "nvidia_imex_addresses",
    "nvidia_imex_channel0",
    "nvidia_imex_config",
    "nvidia_imex_hold",
    "nvidia_imex_service_enabled",
}
MENDED = [
    "nvidia_repository : Hold the packages, or let go of them",
    "nvidia_fabricmanager : Load ib_umad at boot",
    "nvidia_fabricmanager : Load ib_umad now",
    "nvidia_imex : Make channel 0 now",
    "nvidia_imex : Name the hosts of the domain",
    "nvidia_imex : Configure it",
    "nvidia_imex : Run it",
    "nvidia_imex : Restart IMEX where it has not read its configuration",
]
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def machine(namespaces: None) -> Iterator[Machine]:
    host = copy.deepcopy(dict(load("b200x8").host)) | {"driver": None}
    host["kernel"]["modules"] = []
    names = (f"linux-headers-{KERNEL}", "libibumad3", "infiniband-diags")
    with Machine(host, [Package(name, "44.0-2") for name in names]) as machine:
        machine.add_repository("nvidia", [*driver(OLD), Package("nvlsm", "2025.03.1-1")])
        # The driver registers the devices of the channels.
        machine.write(
            "/var/lib/hwlab/devices", "Character devices:\n240 nvidia-caps-imex-channels\n"
        )
        machine.ask("mount --bind /var/lib/hwlab/devices /proc/devices")
        driver_is_there = machine.play(["nvidia_driver"], **WANTED)
        assert driver_is_there.code == 0, driver_is_there.text
        yield machine


@pytest.fixture(scope="module")
def predicted(machine: Machine) -> Played:
    return machine.play(ROLES, "--check", **WANTED)


@pytest.fixture(scope="module")
def before(machine: Machine, predicted: Played) -> Stated:
    return state(machine, ROLES, **WANTED)


@pytest.fixture(scope="module")
def first(machine: Machine, before: Stated) -> Played:
    return machine.play(ROLES, **WANTED)


@pytest.fixture(scope="module")
def second(machine: Machine, first: Played) -> Played:
    """The same once more, on a node that is at work."""
    return machine.play(ROLES, **WANTED, node_reboot_drained_command=["false"])


def test_check_mode_changes_nothing(predicted: Played, before: Stated, first: Played) -> None:
    assert predicted.code == 0, predicted.text
    assert before.code == 1, before.text
    assert {"nvidia_fabricmanager : Load ib_umad at boot"} <= set(predicted.changed)
    assert first.code == 0, first.text


def test_a_board_behind_a_bridge_has_the_subnet_manager(machine: Machine, first: Played) -> None:
    assert machine.ask("apt-mark showhold").split() == HELD.split()
    assert machine.ask("dpkg-query -W -f '${db:Status-Abbrev}' libibumad3").strip() == "ii"
    machine.ask("test -d /sys/module/ib_umad")
    assert "ib_umad" in machine.ask("cat /etc/modules-load.d/hwcheck-nvlsm.conf").splitlines()
    assert machine.ask("systemctl is-active nvidia-fabricmanager") == "active"


def test_imex_knows_the_hosts_of_its_fabric_and_has_a_channel(
    machine: Machine, second: Played
) -> None:
    assert machine.ask(f"cat {NODES}") == machine.node.address
    assert machine.ask(f"cat {IMEX}").splitlines() == ["SERVER_PORT=50000", "LOG_LEVEL=3"]
    assert machine.ask(f"stat -c '%A %t %T' {CHANNEL}") == "crw-rw-rw- f0 0"
    assert "NVreg_CreateImexChannel0=1" in machine.ask(f"cat {INITRAMFS}")
    services = machine.ask("systemctl is-active nvidia-imex; systemctl is-enabled nvidia-imex")
    assert services.split() == ["active", "enabled"]
    assert (second.code, second.changes) == (0, 0), second.text
    holds = state(machine, BESIDE_DRIVER, **WANTED)
    assert holds.code == 0, holds.text


@pytest.mark.wide
def test_drift_is_found_and_mended_but_imex_is_not_restarted_under_jobs(
    machine: Machine, second: Played
) -> None:
    machine.ask("; ".join(DRIFT))
    found = state(machine, BESIDE_DRIVER, **WANTED)
    assert found.variables("fail") == DRIFTED, found.text
    refused = machine.play(BESIDE_DRIVER, **WANTED, node_reboot_drained_command=["false"])
    assert refused.code != 0
    assert "needs a restart of nvidia-imex and is not drained" in refused.text
    assert refused.changed == MENDED[:-1]
    mended = machine.play(BESIDE_DRIVER, **WANTED)
    assert mended.changed == MENDED[-1:], mended.text
    assert "LOG_LEVEL=3" in machine.ask("cat /run/hwlab/config.cfg")  # what it was started with
    assert state(machine, BESIDE_DRIVER, **WANTED).code == 0


@pytest.mark.wide
def test_where_jobs_start_imex_the_service_is_left_alone(machine: Machine, second: Played) -> None:
    machine.ask(f"systemctl -q disable --now nvidia-imex; echo 10.9.9.9 >{NODES}")
    per_job = {"nvidia_imex_service_enabled": False, "nvidia_imex_channel0": False}
    applied = machine.play(["nvidia_imex"], **WANTED | per_job)
    assert applied.code == 0, applied.text
    assert machine.ask(f"cat {NODES}; systemctl is-enabled nvidia-imex || true").split() == [
        *("10.9.9.9", "disabled")
    ]
    assert "Imex" not in machine.ask("cat /etc/modprobe.d/hwcheck-nvidia-imex.conf")
    assert state(machine, ["nvidia_imex"], **WANTED | per_job).code == 0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"nvidia_imex_gpus": ["0x2941"]}, "this host has no GPU whose NVLink fabric spans"),
        ({"nvidia_imex_addresses": ["10.9.9.9"]}, "lists none of this host's addresses"),
        pytest.param(
            {"nvidia_imex_version": "570"},
            f"IMEX 570 does not start with driver {OLD}",
            marks=pytest.mark.wide,
        ),
    ],
)
def test_what_cannot_work_is_refused(
    machine: Machine, second: Played, wrong: dict[str, object], says: str
) -> None:
    refused = machine.play(["nvidia_imex"], **WANTED | wrong)
    assert refused.code != 0
    assert says in " ".join(refused.text.split())
    assert refused.changed == []
