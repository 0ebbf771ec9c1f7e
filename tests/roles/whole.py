"""A simulated machine that every role does something on, and variables by which it does."""

from __future__ import annotations

import copy
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.scenario import load
from tests.roles.containers import install_runtimes, toolkit
from tests.roles.controller import STANDS_ON, write_files
from tests.roles.machine import KERNEL, PACKAGES, Machine
from tests.roles.nvidia_packages import OLD, doca, driver, gdrcopy, other
from tests.roles.packages import UNIT, Package, chrony
from tests.roles.signing import SigningKey
from tests.roles.wheels import write_wheel

ROLES = (
    *("nvidia_repository", "nvidia_driver", "nvidia_fabricmanager", "nvidia_imex"),
    *("cuda_toolkit", "dcgm", "dcgm_exporter", "gdrcopy", "time_sync", "doca_ofed"),
    "container_toolkit",
    *("system_tuning", "rdma", "pcie_p2p", "gpu_settings", "nccl", "validation_env", "node_reboot"),
    "hwcheck_controller",
)
PREPARED = {
    "container_toolkit": ("nvidia_driver",),
    "dcgm_exporter": ("dcgm",),
    "gdrcopy": ("nvidia_driver",),
    "nvidia_fabricmanager": ("nvidia_driver",),
    "nvidia_imex": ("nvidia_driver",),
    "rdma": ("nvidia_driver",),
    "node_reboot": ("pcie_p2p",),
}
"""What a role stands on."""

DISTRIBUTION = (
    *("irqbalance", "rdma-core", "ibverbs-providers", "ibverbs-utils", "infiniband-diags"),
    *("perftest", "g++", "make", f"linux-headers-{KERNEL}"),
    *STANDS_ON,
)
MAKEFILE = """\
all:
\tmkdir build
\techo $(CUDA_HOME) >build/all_reduce_perf
"""


@contextmanager
def whole_machine() -> Iterator[tuple[Machine, dict[str, object]]]:
    """Boot it; hand on also the variables."""
    host = copy.deepcopy(dict(load("h100x8").host)) | {"driver": None}
    host["kernel"] |= {"modules": [], "options": "ro quiet"}
    host["kernel"]["settings"] = {"kernel/numa_balancing": "1", "vm/zone_reclaim_mode": "1"}
    host["cpu"] = {**host.get("cpu", {}), "governor": "powersave"}
    host["memory"] = {**host.get("memory", {}), "transparent": "always"}
    host["devices"] = {**host.get("devices", {}), "0000:15:01.0": {"acs": 0x1D}}
    packages = [
        Package(name, "44.0-2", service=name if name == "irqbalance" else "")
        for name in DISTRIBUTION
    ]
    packages.append(chrony())
    with tempfile.TemporaryDirectory() as name, Machine(host, packages) as machine:
        folder = Path(name)
        with SigningKey(folder / "k") as key:
            nvidia = [*driver(OLD), *other("libnccl2", "libnccl-dev"), *gdrcopy("2.5.1")]
            nvidia += toolkit("1.17.8")
            machine.add_repository("nvidia", nvidia, key)
            machine.add_repository("doca-3.1.0", doca("3.1.0"), key)
            machine.beside_playbook("nvidia.asc").write_bytes(key.armored.read_bytes())
        smi = Path(__file__).with_name("nvidia_smi.py").read_text()
        machine.write("/usr/bin/nvidia-smi", smi, 0o755)
        install_runtimes(machine)
        machine.write("/etc/systemd/system/slurmd.service", UNIT)
        machine.ask("systemctl start slurmd")  # so that what it is read with is what it had then
        yield machine, _variables(folder)


def _variables(folder: Path) -> dict[str, object]:
    write_wheel(folder)
    (folder / "Makefile").write_text(MAKEFILE)
    source = folder / "source"
    source.mkdir()
    with tarfile.open(source / "source.tar.gz", "w:gz") as archive:
        archive.add(folder / "Makefile", "nccl-tests/Makefile")
    controller = folder / "controller"
    controller.mkdir()
    wheels = folder / "wheels"
    wheels.mkdir()
    for wheel in folder.glob("*.whl"):
        wheel.rename(wheels / wheel.name)
    return {
        "nvidia_repository_url": f"file:{PACKAGES}/nvidia",
        "nvidia_repository_suite": "./",
        "nvidia_repository_key": "nvidia.asc",
        "nvidia_driver_version": OLD,
        "nvidia_driver_module_options": {"NVreg_RestrictProfilingToAdminUsers": 0},
        "nvidia_fabricmanager_config": {"LOG_LEVEL": 3},
        "nvidia_imex_addresses": "{{ groups['all'] | map('extract', hostvars, 'ansible_host') }}",
        "nvidia_imex_gpus": ["0x2330"],  # as if the H100s of this machine were of a rack
        "nvidia_imex_config": {"LOG_LEVEL": 3},
        "dcgm_enabled": True,
        "dcgm_exporter_enabled": True,
        "gdrcopy_enabled": True,
        "container_toolkit_enabled": True,
        "container_toolkit_runtimes": ["docker", "containerd"],
        "doca_ofed_version": "3.1.0",
        "doca_ofed_url": f"file:{PACKAGES}/doca-VERSION",
        "doca_ofed_key": "nvidia.asc",
        "time_sync_ntp_servers": [{"hostname": "ntp1.example.com", "iburst": True}],
        "system_tuning_hugepages": 16,
        "system_tuning_dev_shm_size": "64m",
        "system_tuning_limits": [{"domain": "*", "type": "-", "item": "nofile", "value": "4000"}],
        "rdma_memlock_kib": "4096",
        "rdma_memlock_services": ["slurmd"],
        "rdma_gpu_memory": "peermem",
        "gpu_settings_power_limit_w": 500,
        "gpu_settings_locked_clocks": "1200,1755",
        "gpu_settings_mig": {"all": "3g.40gb,1g.10gb", 7: "disabled"},
        "nccl_tests": True,
        "nccl_tests_source": str(source / "source.tar.gz"),
        "nccl_conf": "present",
        "nccl_conf_settings": {"NCCL_P2P_DISABLE": "1"},
        "validation_env_requirements": ["demo-pkg==1.0"],
        "validation_env_wheels": str(wheels),
        "validation_env_wheelhouse": "/opt/wheels",
        "node_reboot_allowed": True,
        **write_files(controller),
    }
