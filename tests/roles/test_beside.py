"""Software beside the driver, applied for real to a machine with systemd."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.scenario import load
from tests.roles.machine import DEVICES, PACKAGES, Machine, Played
from tests.roles.nvidia_packages import doca, exporter, gdrcopy, other
from tests.roles.packages import UNIT, Package, chrony
from tests.roles.stated import Stated, state

ROLES = ["doca_ofed", "rdma", "gdrcopy", "dcgm", "dcgm_exporter", "time_sync"]
COUNTERS = "DCGM_FI_DEV_POWER_USAGE, gauge, power in W\n"
METRICS = "curl -s http://localhost:9409/metrics"
EXPORTER_SETTINGS = "/etc/systemd/system/nvidia-dcgm-exporter.service.d/hwcheck.conf"
WANTED: dict[str, object] = {
    "nvidia_repository_url": f"file:{PACKAGES}/nvidia",
    "nvidia_repository_suite": "./",
    "nvidia_repository_trusted": True,
    "dcgm_enabled": True,
    "dcgm_version": "4.4",
    "dcgm_exporter_enabled": True,
    "dcgm_exporter_version": "4.5",
    "dcgm_exporter_address": ":9409",
    "dcgm_exporter_collectors": "counters.csv",
    "doca_ofed_version": "3.1.0",
    "doca_ofed_url": "http://127.0.0.1:8080/doca-VERSION",
    "doca_ofed_trusted": True,
    "doca_ofed_restart": True,
    "rdma_stack": "ofed",
    "rdma_gpu_memory": "none",
    "rdma_memlock_kib": "unmanaged",
    "rdma_roce_traffic_class": 106,
    "gdrcopy_enabled": True,
    "gdrcopy_version": "2.5.1",
    "time_sync_ntp_servers": [
        {"hostname": "ntp1.example.com", "iburst": True},
        {"hostname": "pool.example.com", "pool": True, "minpoll": 4},
    ],
    "time_sync_step_threshold": 0.5,
    "time_sync_wait_s": 3,
}
RESTARTED = "node_service : Restart the service where it has not read its files"
# apt tells repositories apart by where they are.
MIRROR = f"""\
[Service]
WorkingDirectory={PACKAGES}
ExecStart=/usr/bin/python3 -m http.server 8080 --bind 127.0.0.1
[Install]
WantedBy=multi-user.target
"""
# The distribution's driver of the card, of which one port is Ethernet.
CARD = """
mkdir -p /sys/module/mlx5_core /sys/class/infiniband/mlx5_0/device/net/ens1np0
echo INBOX >/sys/module/mlx5_core/srcversion
echo Ethernet >/sys/class/infiniband/mlx5_0/ports/1/link_layer
"""
# They stand on what is not installed yet.
NOT_PREDICTED = {
    "dcgm : Run it",
    "node_service : Run the service, now and at boot",
    "nvidia_repository : Install the packages",
    "gdrcopy : Load the module now",
    "doca_ofed : Load its modules at boot",
    "doca_ofed : Restart openibd",
    "rdma : Let it set that at boot, or no more",
}
# By the task that must mend it.
DRIFT = {
    "nvidia_repository : Say which repository comes first": "rm /etc/apt/preferences.d/"
    "hwcheck-doca-repository.pref",
    "doca_ofed : Load its modules at boot": "systemctl -q disable openibd",
    "rdma : Set RoCE's traffic class and its priority now": "dcb pfc set dev ens1np0 prio-pfc 0:on",
    "rdma : Let it set that at boot, or no more": "systemctl -q disable hwcheck-roce-qos",
    "nvidia_repository : Hold the packages, or let go of them": "apt-mark unhold gdrdrv-dkms",
    "gdrcopy : Load the module at boot": "rm /etc/modules-load.d/hwcheck-gdrdrv.conf",
    "gdrcopy : Load the module now": "rm -r /sys/module/gdrdrv",
    "dcgm_exporter : Say where it answers, and whom it asks": f"sed -i s/9409/9400/ "
    f"{EXPORTER_SETTINGS}; systemctl daemon-reload; systemctl restart nvidia-dcgm-exporter",
    "node_service : Run the service, now and at boot": "systemctl -q disable nvidia-dcgm-exporter",
    RESTARTED: "true",
    "time_sync : Say whom it asks": "echo server other >>/etc/chrony/chrony.conf",
    "time_sync : Stop other NTP services": "systemctl -q enable --now ntpsec",
}
DRIFTED = {
    *("doca_ofed_version", "rdma_roce_traffic_class"),
    *("gdrcopy_hold", "gdrcopy_enabled"),
    *("dcgm_exporter_address", "dcgm_exporter_enabled"),
    "time_sync_ntp_servers",
}
MORE_WRONG: list[tuple[str, dict[str, object], str]] = [
    ("rdma", {"rdma_roce_traffic_class": 256}, "rdma_roce_traffic_class is 0 to 255"),
    (
        "rdma",
        {"rdma_roce_interfaces": ["ens1np0", "ens2np0"]},
        "ens2np0 is no network interface of a RoCE device; there is: mlx5_0 ens1np0",
    ),
    ("dcgm_exporter", {"dcgm_enabled": False}, "set dcgm_enabled: true too"),
    ("dcgm_exporter", {"dcgm_exporter_address": "9400"}, "is no address"),
    ("time_sync", {"time_sync_ntp_servers": [{"hostname": "a b"}]}, "is no name or address"),
    (
        "time_sync",
        {"time_sync_ntp_servers": [{"hostname": "a", "iburst": "maybe"}]},
        "not a valid boolean",
    ),
]
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def machine(namespaces: None) -> Iterator[Machine]:
    with Machine(
        copy.deepcopy(dict(load("h100x8").host)), [chrony(), Package("rdma-core", "9999-1")]
    ) as machine:
        packages = [*other(), exporter("4.8.0"), *gdrcopy("2.5.1"), *gdrcopy("2.6.0")]
        machine.add_repository("nvidia", packages)
        for version in ("3.1.0", "3.2.0"):
            machine.add_repository(f"doca-{version}", doca(version))
        machine.write("/usr/sbin/dcb", Path(__file__).with_name("dcb.py").read_text(), 0o755)
        machine.write("/etc/systemd/system/mirror.service", MIRROR)
        machine.ask(CARD + DEVICES)
        machine.beside_playbook("counters.csv").write_text(COUNTERS)
        for unit in ("ntpsec", "phc2sys@eth0"):
            machine.write(f"/etc/systemd/system/{unit}.service", UNIT)
        machine.ask("systemctl daemon-reload; systemctl -q enable --now ntpsec mirror")
        yield machine


def inventory(machine: Machine) -> dict[str, object]:
    """Return the variables with the file's whole path, as the state needs it."""
    return WANTED | {"dcgm_exporter_collectors": str(machine.beside_playbook("counters.csv"))}


@pytest.fixture(scope="module")
def predicted(machine: Machine) -> Played:
    return machine.play(ROLES, "--check", **WANTED)


@pytest.fixture(scope="module")
def before(machine: Machine, predicted: Played) -> Stated:
    return state(machine, ROLES, **inventory(machine))


@pytest.fixture(scope="module")
def first(machine: Machine, before: Stated) -> Played:
    ours = "/etc/chrony /etc/dcgm-exporter /etc/*/hwcheck-* /etc/*/*/hwcheck-* /usr/local/sbin/*"
    assert machine.ask(f"ls -d {ours} 2>/dev/null || true") == ""
    return machine.play(ROLES, **WANTED)


def test_check_mode_predicts_the_changes_and_the_second_run_has_none(
    machine: Machine, predicted: Played, first: Played
) -> None:
    assert predicted.code == 0, predicted.text
    assert first.code == 0, first.text
    assert set(first.changed) - set(predicted.changed) <= NOT_PREDICTED
    second = machine.play(ROLES, **WANTED)
    assert (second.code, second.changes) == (0, 0), second.text


def test_it_does_what_the_roles_say(machine: Machine, first: Played) -> None:
    assert machine.ask(METRICS) == 'DCGM_FI_DEV_POWER_USAGE{gpu="0"} 1'
    assert machine.ask("cat /etc/chrony/chrony.conf").splitlines()[1:5] == [
        "server ntp1.example.com iburst",
        "pool pool.example.com minpoll 4",
        "makestep 0.5 3",
        "minsources 1",
    ]
    assert machine.ask("systemctl is-active chrony ntpsec || true").split() == [
        "active",
        "inactive",
    ]
    assert machine.ask("cat /sys/module/gdrdrv/version") == "2.5.1"
    assert machine.ask("cat /sys/module/mlx5_core/srcversion") == "OFED3.1.0"
    assert machine.ask("dpkg-query -W -f '${Version}' rdma-core") == "2507mlnx58-1"
    assert machine.ask("ls /run/hwcheck/reboot 2>/dev/null || true") == ""
    card = {"dcbx": ["host", "ieee"], "dscp": ["26:3"], "pfc": [3]}
    assert json.loads(machine.ask("cat /run/hwlab/dcb.json")) == {"ens1np0": card}
    # As at a boot, which the card forgets it with.
    again = "rm /run/hwlab/dcb.json; systemctl start hwcheck-roce-qos; cat /run/hwlab/dcb.json"
    assert json.loads(machine.ask(again)) == {"ens1np0": card}
    installed = machine.ask("dpkg-query -W 'datacenter-gpu-manager*'").splitlines()
    assert [line.split()[1] for line in installed] == ["4.4.1-1", "4.5.2-1"]


def test_the_state_fails_before_and_holds_after(
    machine: Machine, before: Stated, first: Played
) -> None:
    assert before.roles("fail") == set(ROLES), before.text
    holds = state(machine, ROLES, **inventory(machine))
    assert holds.code == 0, holds.text
    assert holds.variables("pass") >= before.variables("fail")


@pytest.mark.wide
def test_drift_is_found_and_mended_and_nothing_else_is_touched(
    machine: Machine, first: Played
) -> None:
    machine.ask("; ".join(DRIFT.values()))
    found = state(machine, ROLES, **inventory(machine))
    assert found.variables("fail") == DRIFTED, found.text
    mended = machine.play(ROLES, **WANTED)
    assert mended.code == 0, mended.text
    assert mended.changed == [
        *DRIFT,
        "node_service : Restart the service where it has not read its files",
    ]
    assert machine.ask(METRICS).startswith("DCGM_FI_DEV_POWER_USAGE")


@pytest.mark.parametrize(
    ("role", "wrong", "says"),
    [
        (
            "doca_ofed",
            {"doca_ofed_version": "3.2.0"},
            "3.2.0 is wanted and doca-ofed 3.1.0-091000 is",
        ),
        ("rdma", {"rdma_stack": "inbox"}, "and doca-ofed is installed; set rdma_stack: ofed"),
        *(pytest.param(*each, marks=pytest.mark.wide) for each in MORE_WRONG),
    ],
)
def test_what_cannot_work_is_refused(
    machine: Machine, first: Played, role: str, wrong: dict[str, object], says: str
) -> None:
    refused = machine.play([role], **WANTED | wrong)
    assert refused.code != 0
    assert says in refused.text
    assert refused.changes == 0


def test_a_clock_that_ptp_sets_is_left_to_it(machine: Machine, first: Played) -> None:
    machine.ask("systemctl start phc2sys@eth0")
    refused = machine.play(["time_sync"], **WANTED)
    found = state(machine, ["time_sync"], **inventory(machine))
    machine.ask("systemctl stop phc2sys@eth0")
    assert refused.code != 0
    assert "phc2sys@eth0.service sets this node's clock from PTP" in refused.text
    assert refused.changes == 0
    assert "phc2sys@eth0.service runs beside chronyd" in found.text


@pytest.mark.wide
def test_servers_that_do_not_answer_are_told(machine: Machine, first: Played) -> None:
    silent = {**WANTED, "time_sync_ntp_servers": [{"hostname": "silent.example.com"}]}
    refused = machine.play(["time_sync"], **silent)
    assert refused.code != 0
    assert "can the node reach silent.example.com (UDP port 123)?" in refused.text
    assert machine.play(["time_sync"], **WANTED).code == 0


@pytest.mark.wide
def test_another_version_of_gdrcopy_waits_for_a_reboot(machine: Machine, first: Played) -> None:
    newer = {**WANTED, "gdrcopy_version": "2.6.0"}
    raised = machine.play(["gdrcopy"], **newer)
    assert raised.code == 0, raised.text
    reason = "gdrdrv 2.5.1 is loaded, 2.6.0 is installed"
    assert machine.ask("cat /run/hwcheck/reboot/gdrcopy") == reason
    waits = state(machine, ["gdrcopy"], **newer)
    assert "gdrdrv 2.5.1 runs, not 2.6.0" in waits.text
    assert machine.play(["gdrcopy"], **WANTED).code == 0
    assert machine.ask("ls /run/hwcheck/reboot") == ""


@pytest.mark.wide
def test_openibd_is_restarted_on_a_drained_node_alone(machine: Machine, first: Played) -> None:
    role = ["doca_ofed"]
    machine.ask("echo INBOX >/sys/module/mlx5_core/srcversion")
    busy = machine.play(role, **WANTED, node_reboot_drained_command=["false"])
    assert busy.code != 0
    assert "needs a restart of openibd and is not drained" in busy.text
    noted = machine.play(role, **WANTED | {"doca_ofed_restart": False})
    assert noted.code == 0, noted.text
    reason = "mlx5_core INBOX is loaded, OFED3.1.0 is installed"
    assert machine.ask("cat /run/hwcheck/reboot/doca_ofed") == reason
    assert reason in state(machine, role, **inventory(machine)).text
    drained = machine.play(role, **WANTED)
    assert "doca_ofed : Restart openibd" in drained.changed
    assert machine.ask("ls /run/hwcheck/reboot") == ""
