"""Every role that needs no repository of NVIDIA's, applied for real to a machine with systemd."""

from __future__ import annotations

import copy
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.namespaces import REPOSITORY
from tests.lab.scenario import load
from tests.roles.machine import Machine, Played
from tests.roles.nvidia_packages import MODULE
from tests.roles.packages import UNIT, Package
from tests.roles.stated import Stated, state
from tests.roles.wheels import write_wheel

ROLES = [
    "system_tuning",
    "rdma",
    "pcie_p2p",
    "gpu_settings",
    "nccl",
    "validation_env",
    "node_reboot",
]
RDMA = ("rdma-core", "ibverbs-providers", "ibverbs-utils", "infiniband-diags", "perftest")
PACKAGES = [Package("irqbalance", "1.9.2-1", service="irqbalance")]
PACKAGES += [Package(name, "44.0-2") for name in (*RDMA, "g++", "make", "doca-ofed")]
BRIDGE = "/sys/bus/pci/devices/0000:15:01.0/config"
SET_ACS = f"printf '\\035' | dd of={BRIDGE} bs=1 seek=334 conv=notrunc status=none"
GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
HUGE = "/sys/kernel/mm/transparent_hugepage/enabled"
BUILT = "/opt/nccl-tests/build/all_reduce_perf"
MAKEFILE = """\
all:
\tmkdir build
\techo $(CUDA_HOME) $(NVCC_GENCODE) >build/all_reduce_perf
\tchmod +x build/all_reduce_perf
\tfor name in alltoall all_gather reduce_scatter; do \\
\t    cp -p build/all_reduce_perf build/$${name}_perf; done
"""
SMI = "nvidia-smi -i 3 --query-gpu=persistence_mode,power.limit,clocks.applications.graphics"

ASKED = {
    "governor": f"grep -ho ^p[a-z]*e {GOVERNORS} | sort -u",
    "huge": f"cat {HUGE}",
    "balancing": "cat /proc/sys/kernel/numa_balancing",
    "pages": "cat /proc/sys/vm/nr_hugepages",
    "buffers": "cat /proc/sys/net/core/rmem_max",
    "shm": "df --output=size /dev/shm | tail -n 1",
    "irqbalance": "systemctl is-active irqbalance; systemctl is-enabled irqbalance 2>/dev/null",
    "acs": f"od -An -tx2 -j 334 -N 2 {BRIDGE}",
    "gpu": SMI,
    "nccl": "cat /etc/nccl.conf 2>/dev/null | tail -n 1",
    "units": "systemctl is-enabled hwcheck-acs-redirect hwcheck-gpu-settings 2>/dev/null",
    "memlock": "tail -n 1 /etc/security/limits.d/90-hwcheck-rdma.conf 2>/dev/null",
}
AS_IT_COMES = {
    "governor": "powersave",
    "huge": "[always] madvise never",
    "balancing": "1",
    "pages": "0",
    "buffers": "212992",
    "irqbalance": "inactive",
    "acs": "001d",
    "gpu": "Disabled, 700.00, 1980",
    "nccl": "",
    "units": "",
    "memlock": "",
}
TUNED = {
    "governor": "performance",
    "huge": "madvise",
    "balancing": "0",
    "pages": "16",
    "buffers": "16777216",
    "shm": "65536",
    "irqbalance": "active enabled",
    "acs": "0011",
    "gpu": "Enabled, 500.00, 1755",
    "nccl": "NCCL_P2P_DISABLE=1",
    "units": "enabled enabled",
    "memlock": "root - memlock 4096",
}
# They stand on what is not installed yet.
NOT_PREDICTED = {
    "system_tuning : Run it, or stop it",
    "pcie_p2p : Enable the unit, or take it out of the boot",
    "gpu_settings : Enable the unit",
    "validation_env : Install the pinned requirements",
}
FILES = "find /etc /usr/local -printf '%p %m %s %i %T@\\n' | sort | md5sum"
LIMITS = "/etc/security/limits.d/90-hwcheck"
# Below what a container may have: not every one may raise limits.
LOW: dict[str, object] = {
    "rdma_memlock_kib": "4096",
    "system_tuning_limits": [{"domain": "*", "type": "-", "item": "nofile", "value": "4000"}],
}
# By the task that must mend it.
DRIFT = {
    "system_tuning : Set both now": f"echo always >{HUGE}",
    "system_tuning : Set limits of logins": f"sed -i s/4000/2000/ {LIMITS}.conf",
    "system_tuning : Size /dev/shm now": "mount -o remount,size=32m /dev/shm",
    "system_tuning : Run it, or stop it": "systemctl stop irqbalance",
    "rdma : Load nvidia-peermem now": "rm -r /sys/module/nvidia_peermem",
    "rdma : Let logins lock memory": f"rm {LIMITS}-rdma.conf",
    "pcie_p2p : Clear it now": SET_ACS,
    "pcie_p2p : Enable the unit, or take it out of the boot": "systemctl -q disable "
    "hwcheck-acs-redirect",
    "gpu_settings : Set them now": "nvidia-smi -i 3 -rac",
    "nccl : Write the settings": "echo NCCL_DEBUG=INFO >>/etc/nccl.conf",
    "validation_env : Install the pinned requirements": "/opt/hwcheck/venv/bin/pip -q uninstall -y "
    "demo-pkg",
}
OTHERWISE = [
    "rdma : Install the packages",
    "rdma : Load nvidia-peermem at boot, or do not",
    "gpu_settings : Set them now",
    "gpu_settings : Set them at every boot",
    "nccl : Remove the settings",
    "nccl : Build it",
]
# What only the next boot would show, or the next login.
NEXT_BOOT = (
    "rm /etc/sysctl.d/90-hwcheck.conf /etc/default/grub.d/90-hwcheck-pcie-p2p.cfg",
    "sed -i /scaling_governor/d /etc/tmpfiles.d/hwcheck.conf",
    "sed -i /dev.shm/d /etc/fstab",
    "sed -i /nofile/d /etc/security/limits.d/90-hwcheck.conf",
    "sed -i /peermem$/d /etc/modules-load.d/hwcheck-peermem.conf",
    "rm /etc/systemd/system/slurmd.service.d/90-hwcheck-rdma.conf",
    "systemctl -q disable irqbalance hwcheck-gpu-settings",
)
SHOWN_BY_THE_NEXT_BOOT = {
    "system_tuning_cpu_governor",
    "system_tuning_numa_balancing",
    "system_tuning_hugepages",
    "system_tuning_sysctls",
    "system_tuning_dev_shm_size",
    "system_tuning_limits",
    "system_tuning_irqbalance",
    "rdma_gpu_memory",
    "rdma_memlock_services",
    "pcie_p2p_iommu",
    "gpu_settings_power_limit_w",
    "gpu_settings_application_clocks",
    "gpu_settings_persistence_mode",
}
# What the state says of it.
DRIFTED = {
    "system_tuning_transparent_hugepages",
    "system_tuning_limits",
    "system_tuning_dev_shm_size",
    "system_tuning_irqbalance",
    "rdma_gpu_memory",
    "rdma_memlock_kib",
    "pcie_p2p_acs_redirect",
    "gpu_settings_application_clocks",
    "nccl_conf",
    "validation_env_requirements",
}
MORE_WRONG: list[tuple[str, dict[str, object], str]] = [
    ("system_tuning", {"system_tuning_numa_balancing": "off"}, "must be one of"),
    ("system_tuning", {"system_tuning_sysctls": {"vm.no_such": "1"}}, "no such file"),
    ("system_tuning", {"system_tuning_sysctls": {"vm.swappiness": "low"}}, "takes numbers"),
    ("rdma", {"rdma_memlock_kib": "64G"}, "is no number of KiB"),
    ("rdma", {"rdma_memlock_services": ["../../x"]}, "is no name of a service"),
    ("gpu_settings", {"gpu_settings_application_clocks": "fast"}, 'is no pair "memory,graphics"'),
    ("nccl", {"nccl_conf_settings": {"LD_PRELOAD": "x"}}, "is no NCCL setting"),
]
pytestmark = pytest.mark.timeout(600)


def _host() -> dict[str, object]:
    """Return a machine as it comes: nothing is tuned, and access control redirects."""
    host = copy.deepcopy(dict(load("h100x8").host))
    host["cpu"] = {**host.get("cpu", {}), "governor": "powersave"}
    host["memory"] = {**host.get("memory", {}), "transparent": "always"}
    host["kernel"] = {
        **host["kernel"],
        "options": "ro quiet",
        "settings": {"kernel/numa_balancing": "1", "vm/zone_reclaim_mode": "1"}
        | {f"net/core/{way}mem_max": "212992" for way in "rw"},
    }
    host["devices"] = {**host.get("devices", {}), "0000:15:01.0": {"acs": 0x1D}}
    return host


@pytest.fixture(scope="module")
def machine(namespaces: None) -> Iterator[Machine]:
    with Machine(_host(), PACKAGES) as machine:
        smi = Path(__file__).with_name("nvidia_smi.py").read_text()
        machine.write("/usr/bin/nvidia-smi", smi, 0o755)
        machine.write("/etc/systemd/system/slurmd.service", UNIT)
        machine.write(MODULE, "570.124.06\nDual MIT/GPL\n")
        yield machine


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    wheels, source = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("source")
    write_wheel(wheels)
    (source / "Makefile").write_text(MAKEFILE)
    with tarfile.open(source / "source.tar.gz", "w:gz") as archive:
        archive.add(source / "Makefile", "nccl-tests/Makefile")
    return LOW | {
        "system_tuning_hugepages": 16,
        "system_tuning_dev_shm_size": "64m",
        "rdma_memlock_services": ["slurmd"],
        "rdma_gpu_memory": "peermem",
        "gpu_settings_power_limit_w": 500,
        "gpu_settings_application_clocks": "2619,1755",
        "nccl_library": False,
        "nccl_tests": True,
        "nccl_tests_source": str(source / "source.tar.gz"),
        "nccl_conf": "present",
        "nccl_conf_settings": {"NCCL_P2P_DISABLE": "1"},
        "validation_env_requirements": ["demo-pkg==1.0"],
        "validation_env_wheels": str(wheels),
        "validation_env_wheelhouse": "/opt/wheels of ours",
    }


@pytest.fixture(scope="module")
def predicted(machine: Machine, variables: dict[str, object]) -> Played:
    return machine.play(ROLES, "--check", **variables)


@pytest.fixture(scope="module")
def untouched(machine: Machine, predicted: Played) -> dict[str, str]:
    """What the machine says after check mode."""
    return {name: value for name, value in values(machine).items() if name != "shm"}


@pytest.fixture(scope="module")
def before(machine: Machine, untouched: object, variables: dict[str, object]) -> Stated:
    return state(machine, ROLES, **variables)


@pytest.fixture(scope="module")
def first(machine: Machine, before: Stated, variables: dict[str, object]) -> Played:
    return machine.play(ROLES, **variables)


@pytest.fixture(scope="module")
def second(machine: Machine, first: Played, variables: dict[str, object]) -> Played:
    """By the playbook of the whole site."""
    tags = f"--tags={','.join(ROLES)}"
    return machine.play([], tags, playbook=REPOSITORY / "playbooks/site.yml", **variables)


@pytest.fixture(scope="module")
def booted(machine: Machine, second: Played) -> None:
    booted = machine.play(["node_reboot"], node_reboot_allowed=True)
    assert booted.code == 0, booted.text
    # systemd-tmpfiles-setup would also clear what is not this machine's own. What it writes takes
    # no file's old text away and ends no line, which a kernel's file does by itself.
    tmpfiles = "systemd-tmpfiles --create /etc/tmpfiles.d/hwcheck.conf"
    machine.ask(f": >{HUGE}; {tmpfiles}; sed -i '$a\\' {GOVERNORS} {HUGE}")


def values(machine: Machine) -> dict[str, str]:
    """Return what the machine's kernel, files and GPUs say."""
    script = "\n".join(f"echo '{name}:' $({command})" for name, command in ASKED.items())
    lines = machine.ask(script).splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_check_mode_changes_nothing_and_predicts_the_changes(
    predicted: Played, untouched: dict[str, str], first: Played
) -> None:
    assert predicted.code == 0, predicted.text
    assert untouched == AS_IT_COMES
    assert first.code == 0, first.text
    assert set(predicted.changed) <= set(first.changed)
    assert set(first.changed) - set(predicted.changed) == NOT_PREDICTED


def test_the_first_run_does_what_the_roles_say(machine: Machine, first: Played) -> None:
    assert first.code == 0, first.text
    assert values(machine) == TUNED
    assert "iommu=pt" in machine.ask("cat /boot/grub/grub.cfg")
    assert "runs without iommu=pt" in machine.ask("cat /run/hwcheck/reboot/pcie_p2p")
    assert "reboot needed; node_reboot_allowed is false" in first.text
    unit = "/etc/systemd/system/slurmd.service.d/90-hwcheck-rdma.conf"
    assert "LimitMEMLOCK=4096K" in machine.ask(f"cat {unit}")
    machine.ask("/opt/hwcheck/venv/bin/python -c 'import demo_pkg'")
    assert machine.ask(f"cat {BUILT}") == "/usr/local/cuda"


def test_the_second_run_changes_nothing(second: Played) -> None:
    assert second.code == 0, second.text
    assert second.changes == 0, second.changed


def test_the_state_fails_before_and_holds_after_but_for_what_waits_for_a_boot(
    machine: Machine, before: Stated, second: Played, variables: dict[str, object]
) -> None:
    assert before.code == 1, before.text
    assert before.roles("fail") == set(ROLES) - {"node_reboot"}
    assert before.variables("inconclusive") == set()
    after = state(machine, ROLES, **variables)
    assert after.variables("fail") == {"pcie_p2p_iommu"}, after.text
    assert after.variables("inconclusive") == set()
    assert after.variables("pass") >= before.variables("fail") - {"pcie_p2p_iommu"}


def test_a_boot_applies_what_was_set(
    machine: Machine, booted: None, variables: dict[str, object]
) -> None:
    assert values(machine) == TUNED
    holds = state(machine, ROLES, **variables)
    assert holds.code == 0, holds.text


def test_drift_is_found_and_mended_and_nothing_else_is_touched(
    machine: Machine, second: Played, variables: dict[str, object]
) -> None:
    machine.ask("; ".join(DRIFT.values()))
    found = state(machine, ROLES, **variables)
    assert found.variables("fail") - {"pcie_p2p_iommu"} == DRIFTED, found.text
    mended = machine.play(ROLES, **variables)
    assert mended.code == 0, mended.text
    assert mended.changed == list(DRIFT)
    assert values(machine) == TUNED


@pytest.mark.wide
def test_what_only_the_next_boot_would_show_is_found_and_mended(
    machine: Machine, booted: None, variables: dict[str, object]
) -> None:
    machine.ask("; ".join(NEXT_BOOT))
    found = state(machine, ROLES, **variables)
    assert found.variables("fail") == SHOWN_BY_THE_NEXT_BOOT, found.text
    assert machine.play(ROLES, **variables).code == 0
    holds = state(machine, ROLES, **variables)
    assert holds.code == 0, holds.text
    # Another's file is not the role's to change, so the state names it.
    machine.ask("echo vm.zone_reclaim_mode=1 >/etc/sysctl.d/99-site.conf")
    overridden = state(machine, ["system_tuning"], **variables)
    machine.ask("rm /etc/sysctl.d/99-site.conf")
    assert overridden.variables("fail") == {"system_tuning_sysctls"}, overridden.text
    assert "becomes 1 at the next boot (/etc/sysctl.d/99-site.conf), not 0" in overridden.text


@pytest.mark.wide
def test_the_other_choices_are_applied_and_hold(
    machine: Machine, booted: None, variables: dict[str, object]
) -> None:
    wanted = variables | {
        "rdma_stack": "ofed",
        "rdma_gpu_memory": "auto",
        "gpu_settings_application_clocks": "reset",
        "nccl_conf": "absent",
        "nccl_tests_make": ["NVCC_GENCODE=-arch=sm_90"],
    }
    roles = ["rdma", "gpu_settings", "nccl"]
    applied = machine.play(roles, **wanted)
    assert applied.code == 0, applied.text
    assert applied.changed == OTHERWISE
    assert machine.play(roles, **wanted).changes == 0
    assert machine.ask(SMI) == "Enabled, 500.00, 1980"
    assert machine.ask(f"cat {BUILT}") == "/usr/local/cuda -arch=sm_90"
    holds = state(machine, roles, **wanted)
    assert holds.code == 0, holds.text


@pytest.mark.parametrize(
    ("role", "wrong", "says"),
    [
        (
            "system_tuning",
            {"system_tuning_sysctls": {"vm.x\nkernel.y": "1"}},
            "no name of a sysctl",
        ),
        ("pcie_p2p", {"pcie_p2p_kernel_parameters": ["a;reboot"]}, "is no kernel parameter"),
        *(pytest.param(*each, marks=pytest.mark.wide) for each in MORE_WRONG),
    ],
)
def test_a_wrong_value_is_refused(
    machine: Machine, second: Played, role: str, wrong: dict[str, object], says: str
) -> None:
    files = machine.ask(FILES)
    refused = machine.play([role], nccl_library=False, **wrong)
    assert refused.code != 0
    assert says in refused.text.replace('\\"', '"')  # before 2.19 a message is printed as JSON
    assert machine.ask(FILES) == files


def test_a_power_limit_that_a_gpu_does_not_take_is_told(machine: Machine, second: Played) -> None:
    wanted = {"gpu_settings_power_limit_w": 900}
    refused = machine.play(["gpu_settings"], **wanted)
    assert refused.code != 0
    assert "gpu 0: a power limit is 200 to 700 W, 900 W is wanted" in refused.text
    limit, gpus = '"power.min_limit": ', "/run/hwlab/gpus.json"
    machine.ask(f'sed -i \'s|{limit}"200.00"|{limit}"[N/A]"|g\' {gpus}')
    refused = machine.play(["gpu_settings"], **wanted)
    assert refused.code != 0
    assert "Provided power limit 900 W is not a valid power limit" in refused.text
    machine.ask(f'sed -i \'s|{limit}"[[]N/A]"|{limit}"200.00"|g\' {gpus}')


@pytest.mark.wide
def test_a_dollar_reaches_the_kernel_as_it_is(
    machine: Machine, second: Played, variables: dict[str, object]
) -> None:
    wanted = {**variables, "pcie_p2p_kernel_parameters": ["memmap=4G$16G"]}
    assert machine.play(["pcie_p2p"], **wanted).code == 0
    assert "memmap=4G$16G" in machine.ask("cat /var/lib/hwlab/menu").split()
    assert machine.play(["pcie_p2p"], **variables).code == 0


@pytest.mark.wide
def test_a_name_of_an_interface_with_a_dot_is_set(machine: Machine, second: Played) -> None:
    machine.ask("mkdir -p /proc/sys/net/core/eth0.100; echo 0 >/proc/sys/net/core/eth0.100/x")
    for name in ("net/core/eth0.100/x", "net.core.eth0/100.x"):
        machine.ask("echo 0 >/proc/sys/net/core/eth0.100/x")
        wanted = {**LOW, "system_tuning_sysctls": {name: 1}}
        assert machine.play(["system_tuning"], **wanted).code == 0
        assert machine.ask("cat /proc/sys/net/core/eth0.100/x") == "1"


@pytest.mark.wide
def test_a_virtual_machine_is_refused(machine: Machine, second: Played) -> None:
    cpuinfo = machine.folder / "tree/proc/cpuinfo"
    real = cpuinfo.read_text()
    cpuinfo.write_text(real.replace("flags\t\t:", "flags\t\t: hypervisor", 1))
    try:
        refused = machine.play(["pcie_p2p"])
        passed_over = machine.play(["pcie_p2p"], pcie_p2p_refuse_virtual=False)
    finally:
        cpuinfo.write_text(real)
    assert refused.code != 0
    assert "a virtual machine needs the IOMMU" in refused.text
    assert (passed_over.code, passed_over.changes) == (0, 0), passed_over.text
