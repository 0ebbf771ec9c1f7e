"""Values that a file or a command would take for something else: refused by name, by every role."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.roles.machine import PYTHON

ROLES = Path(__file__).resolve().parents[2] / "roles"
OF_NO_VALUES = {"node_hardware", "node_service", "refusals"}
NOT_WRITTEN = {
    "dcgm_exporter_collectors": "a file of the machine that runs Ansible",
    "nccl_conf_file": "a file of the machine that runs Ansible",
    "nccl_tests_source": "a file of the machine that runs Ansible",
    "validation_env_wheels": "a folder of the machine that runs Ansible",
    "hwcheck_controller_files": "a folder of the machine that runs Ansible",
    "hwcheck_controller_wheels": "a folder of the machine that runs Ansible",
    "node_reboot_drained_command": "the words of a command, run without a shell",
}
"""Texts that no file or shell of a node gets."""

# By variable and part: texts that are taken, and texts that are not.
TAKEN: Mapping[tuple[str, str], list[object]] = {
    ("system_tuning_cpu_governor", ""): ["performance", ""],
    ("system_tuning_sysctls", "names"): [
        *("vm.swappiness", "-kernel.numa_balancing", "net/ipv4/conf/eth0.100/rp_filter"),
        "net.ipv4.conf.eth0/100.rp_filter",
    ],
    ("system_tuning_sysctls", ""): ["4096 87380 16777216", 1, "|/usr/lib/core %p"],
    ("system_tuning_limits", "domain"): ["*", "@hpc", "%hpc", "root", "1000:2000"],
    ("system_tuning_limits", "item"): ["nofile", "rtprio"],
    ("system_tuning_limits", "value"): ["-20", 1048576, "unlimited"],
    ("system_tuning_dev_shm_size", ""): ["64g", "50%", "67108864", ""],
    ("rdma_packages", ""): ["rdma-core", "libibverbs1:amd64", "perftest=24.1~rc1-1"],
    ("rdma_roce_interfaces", ""): ["ens1np0", "eth0.100"],
    ("rdma_memlock_kib", ""): ["4096", "unlimited", "unmanaged"],
    ("rdma_memlock_services", ""): ["slurmd", "user@1000", "k3s-agent"],
    ("pcie_p2p_kernel_parameters", ""): [
        *("pci=realloc=off", "memmap=4G$16G", "isolcpus=1-3,5", "iommu.passthrough=1"),
    ],
    ("gpu_settings_application_clocks", ""): ["2619,1980", "reset", ""],
    ("gpu_settings_locked_clocks", ""): ["1980", "1200,1980", "reset", ""],
    ("gpu_settings_locked_memory_clocks", ""): ["2619", "reset", ""],
    ("gpu_settings_mig", "names"): ["all", 0, "15"],
    ("gpu_settings_mig", ""): [
        *("disabled", "enabled", "1g.10gb", "3g.40gb,3g.40gb", "1g.10gb+me", "1g.24gb-me"),
        "1g.24gb+me.all,2g.48gb+gfx",
    ],
    ("nccl_version", ""): ["2.26.2-1+cuda12.8", ""],
    ("nccl_packages", ""): ["libnccl2"],
    ("nccl_conf_settings", "names"): ["NCCL_IB_HCA"],
    ("nccl_conf_settings", ""): ["=mlx5_0,mlx5_1", 1],
    ("nccl_conf_path", ""): ["/etc/nccl.conf"],
    ("nccl_tests_path", ""): ["/opt/nccl-tests"],
    ("nccl_tests_cuda", ""): ["/usr/local/cuda"],
    ("nccl_tests_mpi", ""): ["/opt/mpi", ""],
    ("nccl_tests_make", ""): ["NVCC_GENCODE=-arch=sm_90"],
    ("nvidia_driver_version", ""): ["580", "580.95.05", "580.95.05-1"],
    ("nvidia_driver_packages", ""): ["nvidia-headless-580-server-open"],
    ("nvidia_driver_pinned", ""): ["*nvidia*", "libcuda1"],
    ("nvidia_driver_module_stream", ""): ["580-open", "none", ""],
    ("nvidia_driver_module_options", "names"): ["NVreg_RestrictProfilingToAdminUsers"],
    ("nvidia_driver_module_options", ""): [0, "0x1", "a=1;b=2", '"a=1 b=2"'],
    ("nvidia_repository_url", ""): [
        *("https://mirror.example.com/cuda/debian12/x86_64/", "file:/srv/nvidia", ""),
        "http://[2001:db8::1]:8080/x",
    ],
    ("nvidia_repository_key", ""): ["files/nvidia.asc", "https://example.com/key.pub", ""],
    ("nvidia_repository_key_fingerprint", ""): ["0123456789abcdefABCDEF012345678901234567", ""],
    ("nvidia_repository_suite", ""): ["/", "./", "stable"],
    ("nvidia_repository_components", ""): ["main"],
    ("nvidia_fabricmanager_version", ""): ["580.95.05", ""],
    ("nvidia_fabricmanager_packages", ""): ["nvidia-fabricmanager-580", "nvlsm"],
    ("nvidia_fabricmanager_nvlsm_packages", ""): ["nvlsm"],
    ("nvidia_fabricmanager_config", "names"): ["FABRIC_MODE_RESTART"],
    ("nvidia_fabricmanager_config", ""): [0, "/var/log/fabricmanager.log", ""],
    ("nvidia_fabricmanager_config_path", ""): ["/usr/share/nvidia/nvswitch/fabricmanager.cfg"],
    ("nvidia_fabricmanager_service", ""): ["nvidia-fabricmanager"],
    ("nvidia_imex_addresses", ""): ["10.0.0.1", "2001:db8::1", "::1"],
    ("nvidia_imex_gpus", ""): ["0x2941"],
    ("nvidia_imex_version", ""): ["580.95.05", ""],
    ("nvidia_imex_packages", ""): ["nvidia-imex-580"],
    ("nvidia_imex_config", "names"): ["SERVER_PORT"],
    ("nvidia_imex_config", ""): [50000, "/var/log/nvidia-imex.log", ""],
    ("cuda_toolkit_version", ""): ["12.8"],
    ("cuda_toolkit_release", ""): ["12.8.1-1", ""],
    ("cuda_toolkit_packages", ""): ["cuda-nvcc-12-8"],
    ("cuda_toolkit_link", ""): ["/usr/local/cuda", ""],
    ("cuda_toolkit_driver_minimum", ""): ["525.60.13", "none", ""],
    ("container_toolkit_version", ""): ["1.17", ""],
    ("container_toolkit_packages", ""): ["nvidia-container-toolkit-base"],
    ("dcgm_version", ""): ["1:4.4", "4.4.1-1", ""],
    ("dcgm_packages", ""): ["datacenter-gpu-manager-4-cuda12"],
    ("dcgm_service", ""): ["nvidia-dcgm"],
    ("dcgm_exporter_version", ""): ["4.5", "4.5.2-1", ""],
    ("dcgm_exporter_packages", ""): ["datacenter-gpu-manager-exporter"],
    ("dcgm_exporter_address", ""): [":9400", "10.0.0.5:9400", "[fd00::5]:9400", "gpu01.example:1"],
    ("dcgm_exporter_hostengine", ""): ["localhost:5555", ""],
    ("doca_ofed_version", ""): ["3.1.0", ""],
    ("doca_ofed_url", ""): ["https://mirror.example.com/doca/VERSION/", "file:/srv/doca"],
    ("doca_ofed_key", ""): ["files/doca.asc", ""],
    ("doca_ofed_packages", ""): ["doca-roce"],
    ("gdrcopy_version", ""): ["2.5", "2.5.1-1", ""],
    ("gdrcopy_packages", ""): ["gdrdrv-dkms"],
    ("time_sync_ntp_servers", "hostname"): ["ntp1.example.com", "10.0.0.1", "fd00::1"],
    ("node_reboot_folder", ""): ["/run/hwcheck/reboot"],
    ("node_reboot_message", ""): ["Reboot by hwcheck's roles", ""],
    ("hwcheck_controller_user", ""): ["hwcheck", "_sweeps-2"],
    ("hwcheck_controller_home", ""): ["/srv/hw check"],
    ("hwcheck_controller_path", ""): ["/opt/hwcheck/controller"],
    ("hwcheck_controller_python", ""): ["python3", "/opt/python/bin/python3.11", ""],
    ("hwcheck_controller_requirements", ""): ["hwcheck[kubernetes]==0.1.0"],
    ("hwcheck_controller_wheelhouse", ""): ["/opt/wheels of ours", ""],
    ("hwcheck_controller_config", ""): ["/etc/hwcheck"],
    ("hwcheck_controller_inventory", ""): ["/etc/hwcheck/my cluster.yml"],
    ("hwcheck_controller_runs", ""): ["/var/lib/hwcheck/runs"],
    ("hwcheck_controller_at", ""): ["02:30", "23:59"],
    ("hwcheck_controller_randomize", ""): ["30m", "2h"],
    ("hwcheck_controller_options", ""): ["--budget", "2h", "all:!gpu01", "10%"],
    ("hwcheck_controller_minutes_options", ""): ["--notify"],
    ("validation_env_path", ""): ["/opt/hwcheck/venv"],
    ("validation_env_python", ""): ["python3", "/opt/python/bin/python3.11"],
    ("validation_env_requirements", ""): ["torch==2.13.0", "torch @ https://example.com/t.whl"],
    ("validation_env_wheelhouse", ""): ["/opt/wheels of ours", ""],
}
EVERYWHERE: list[object] = ["1\n", "1\n2", "\x1b[2J", "é", True]
"""A line end is what every file reads as the next line, and a boolean is written as `True`."""
REFUSED: Mapping[tuple[str, str], list[object]] = {
    ("system_tuning_cpu_governor", ""): ["perf ormance", "../x"],
    ("system_tuning_sysctls", "names"): ["vm", "vm swappiness", "vm..x", "#vm.x", "../x.y", "vm.*"],
    ("system_tuning_sysctls", ""): [" 1", "1 ", ""],
    ("system_tuning_limits", "domain"): ["a b", "#a", ""],
    ("system_tuning_limits", "item"): ["nofiles", "no file", ""],
    ("system_tuning_limits", "value"): ["64G", "1 2", ""],
    ("system_tuning_dev_shm_size", ""): ["lots", "64 g", "64g,mode=777", "-1"],
    ("rdma_packages", ""): ["-o", "--reinstall", "a b", ""],
    ("rdma_roce_interfaces", ""): ["-x", "a b", "a/b", "a$b", "a" * 16, ""],
    ("rdma_memlock_kib", ""): ["64G", "-1", ""],
    ("rdma_memlock_services", ""): ["../x", "slurmd.service", "a b", "-a", ""],
    ("pcie_p2p_kernel_parameters", ""): [
        *('a="b"', "a'b", "a`id`", "a\\b", "a b", "a;b", "a|b", "a&b", "$(id)", "-x", ""),
    ],
    ("gpu_settings_application_clocks", ""): ["fast", "2619", "2619, 1980", "-rac"],
    ("gpu_settings_locked_clocks", ""): ["fast", "1200,1980,1", "1200, 1980", "-rgc"],
    ("gpu_settings_locked_memory_clocks", ""): ["1200;reboot"],
    ("gpu_settings_mig", "names"): ["first", "-1", "0,1", "GPU-1", ""],
    ("gpu_settings_mig", ""): [
        "on",
        "9,9",
        "1g.10gb,",
        "1g.10gb 2g.20gb",
        "1g.10gb;id",
        "-dci",
        "",
    ],
    ("nccl_version", ""): ["newest", "2 6"],
    ("nccl_packages", ""): ["-o", ""],
    ("nccl_conf_settings", "names"): ["LD_PRELOAD", "NCCL_a", "NCCL_A=1"],
    ("nccl_conf_settings", ""): ["a b", ""],
    ("nccl_conf_path", ""): ["etc/nccl.conf", ""],
    ("nccl_tests_make", ""): [""],
    ("nvidia_driver_version", ""): ["newest", "580.", "580*", ""],
    ("nvidia_driver_packages", ""): ["-y", ""],
    ("nvidia_driver_pinned", ""): ["a b", ""],
    ("nvidia_driver_module_stream", ""): ["-y", "580 open"],
    ("nvidia_driver_module_options", "names"): ["NVreg x", "NVreg-x", "x=1"],
    ("nvidia_driver_module_options", ""): ["1 install=/bin/sh", "a\\", 'a"b', "a'b", ""],
    ("nvidia_repository_url", ""): ["mirror", "https://a b", "ftp://a", 'http://a"', "-x"],
    ("nvidia_repository_key_fingerprint", ""): ["D42D0685", "610C 7B14"],
    ("nvidia_repository_suite", ""): ["a b", ""],
    ("nvidia_repository_components", ""): ["a b", ""],
    ("nvidia_fabricmanager_version", ""): ["newest"],
    ("nvidia_fabricmanager_nvlsm_packages", ""): ["-y", ""],
    ("nvidia_fabricmanager_config", "names"): ["A B", "A=B", ""],
    ("nvidia_imex_addresses", ""): ["gpu01", "10.0.0", "10.0.0.1 10.0.0.2", "", "10.0.0.1;id"],
    ("nvidia_imex_gpus", ""): ["2941", "0x2941,0x31c2", ""],
    ("nvidia_imex_version", ""): ["newest"],
    ("nvidia_imex_packages", ""): ["-y", ""],
    ("nvidia_imex_config", "names"): ["A B", "A=B", ""],
    ("nvidia_fabricmanager_config_path", ""): ["x"],
    ("nvidia_fabricmanager_service", ""): ["-x", "a/b", ""],
    ("cuda_toolkit_version", ""): ["12", "12.8.1", "../x"],
    ("cuda_toolkit_link", ""): ["/usr/$(id)", "/a b", "cuda"],
    ("cuda_toolkit_driver_minimum", ""): ["new"],
    ("dcgm_service", ""): ["-x", ""],
    ("dcgm_exporter_version", ""): ["newest"],
    ("dcgm_exporter_packages", ""): ["-o", ""],
    ("dcgm_exporter_address", ""): ["9400", "a b:1", ":9400 -k", "$HOST:1", "%H:1", ""],
    ("dcgm_exporter_hostengine", ""): [":5555", "a", "a b:1"],
    ("doca_ofed_version", ""): ["3.1", "latest", "../3.1.0", "3.1.0 x"],
    ("doca_ofed_url", ""): ["mirror", "https://a b", "ftp://a", ""],
    ("doca_ofed_packages", ""): ["-o", ""],
    ("gdrcopy_version", ""): ["newest"],
    ("gdrcopy_packages", ""): ["-o", ""],
    ("time_sync_ntp_servers", "hostname"): ["a b", "a iburst", "#a", "-x", ""],
    ("node_reboot_folder", ""): ["run", ""],
    ("hwcheck_controller_user", ""): ["-x", "a b", "Root", "a" * 32, ""],
    ("hwcheck_controller_home", ""): ["home", ""],
    ("hwcheck_controller_path", ""): ["venv", "/opt/a b", ""],
    ("hwcheck_controller_python", ""): ["-c", "python3 -c x"],
    ("hwcheck_controller_requirements", ""): ["--index-url=http://a", "-r x", ""],
    ("hwcheck_controller_wheelhouse", ""): ["wheels"],
    ("hwcheck_controller_config", ""): ["etc", ""],
    ("hwcheck_controller_inventory", ""): ["cluster.yml", ""],
    ("hwcheck_controller_runs", ""): ["runs", ""],
    ("hwcheck_controller_at", ""): ["2:30", "24:00", "noon", ""],
    ("hwcheck_controller_randomize", ""): ["30", "0s", "soon", "1d", ""],
    ("hwcheck_controller_options", ""): [""],
    ("hwcheck_controller_minutes_options", ""): [""],
    ("validation_env_path", ""): ["venv", ""],
    ("validation_env_python", ""): ["-c", "python3 -c x", ""],
    ("validation_env_requirements", ""): ["--index-url=http://a", "-r x", ""],
    ("validation_env_wheelhouse", ""): ["wheels"],
}
pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Row:
    """A row of a role's table: where it stands, and what it is about."""

    role: str
    number: int
    variable: str
    part: str

    @property
    def key(self) -> tuple[str, str]:
        return self.variable, self.part


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) if path.exists() else {}


def rows() -> Iterator[Row]:
    for file in sorted(ROLES.glob("*/vars/main.yml")):
        role = file.parent.parent.name
        for number, row in enumerate(read(file).get(f"{role}_values", ())):
            yield Row(role, number, row["variable"], row.get("part", ""))


def within(part: str, text: object, kind: str) -> object:
    """Return a value of the variable's type that holds the text where the row looks for it."""
    if part == "names":
        return {text: "1"}
    if part:
        return [{part: text}]
    return {"dict": {"x": text}, "list": [text]}.get(kind, text)


def kind(row: Row) -> str:
    spec = read(ROLES / row.role / "meta/argument_specs.yml")
    return str(spec["argument_specs"]["main"]["options"][row.variable]["type"])


def numbers(row: Row) -> list[object]:
    """Return what YAML makes of a version without quotes."""
    return [580, 2.1] if row.variable.endswith(("_version", "_release")) else []


def play(
    plays: list[Any], folder: Path, hosts: str = "localhost,"
) -> subprocess.CompletedProcess[str]:
    """Run plays on this machine, of which only what refuses is reached."""
    (folder / "play.yml").write_text(yaml.safe_dump(plays))
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    command = [PYTHON, "-m", "ansible", "playbook", "-i", hosts, str(folder / "play.yml")]
    fixed = {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_ROLES_PATH": str(ROLES)}
    return subprocess.run(
        [*command, "-e", json.dumps(local)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | fixed,
    )


def refused(values: Mapping[str, object], of: Mapping[str, Row], folder: Path) -> list[str]:
    """Let the role refuse these values, each by the row of its name; return what it says."""
    table = [
        {
            "variable": name,
            "part": row.part,
            **{k: f"{{{{ {row.role}_values[{row.number}].{k} }}}}" for k in ("form", "what")},
            "quoted": f"{{{{ {row.role}_values[{row.number}].quoted | default(false) }}}}",
        }
        for name, row in of.items()
    ]
    entry = {
        "hosts": "localhost",
        "gather_subset": ["!all"],
        "vars_files": sorted(str(file) for file in ROLES.glob("*/vars/main.yml")),
        "vars": {"refusals_values": table, **values},
        "roles": ["refusals"],
    }
    done = play([entry], folder)
    assert "Refuse values that would be read as something else" in done.stdout, done.stderr
    message = re.search(r'"msg": "(.*)"}$', done.stdout, re.M)
    return json.loads(f'"{message[1]}"').split("; ") if message else []


def test_every_text_of_a_role_is_held_against_a_form() -> None:
    has = {row.variable for row in rows()}
    for role in sorted({path.name for path in ROLES.iterdir()} - OF_NO_VALUES):
        spec = read(ROLES / role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
        for name, option in spec.items():
            is_text = option["type"] in ("str", "path", "list", "dict") and "choices" not in option
            assert (name in has) == (is_text and name not in NOT_WRITTEN), name
        meta = read(ROLES / role / "meta/main.yml")["dependencies"][0]
        assert meta == {"role": "refusals", "refusals_values": f"{{{{ {role}_values }}}}"}, role


def test_every_row_has_texts_that_are_taken() -> None:
    assert {row.key for row in rows()} == set(TAKEN)
    assert set(REFUSED) <= set(TAKEN)


def test_hostile_texts_are_refused_by_name_and_others_are_taken(tmp_path: Path) -> None:
    values: dict[str, object] = {}
    of: dict[str, Row] = {}
    for row in rows():
        for way, texts in (
            ("taken", TAKEN[row.key]),
            ("refused", [*REFUSED.get(row.key, []), *EVERYWHERE, *numbers(row)]),
        ):
            for number, text in enumerate(texts):
                name = f"{way}_{row.variable}_{row.part}_{number}"
                values[name], of[name] = within(row.part, text, kind(row)), row
    found = refused(values, of, tmp_path)
    names = [text.partition(": ")[0] for text in found]
    wrong = [name for name in values if name.startswith("refused_")]
    assert [name for name in names if name not in wrong] == []
    assert [name for name in wrong if name not in names] == []
    assert all(" is no " in text for text in found)


def test_good_values_alone_are_refused_by_nothing(tmp_path: Path) -> None:
    row = next(row for row in rows() if TAKEN[row.key])
    good = within(row.part, TAKEN[row.key][0], kind(row))
    assert refused({"good": good}, {"good": row}, tmp_path) == []


def test_a_distribution_that_the_roles_do_not_know_is_refused_in_one_line(tmp_path: Path) -> None:
    sles = {"ansible_os_family": "Suse", "ansible_distribution": "SLES", "cacheable": True}
    roles = sorted({path.name for path in ROLES.iterdir()} - OF_NO_VALUES)
    # Each on a host of its name.
    tasks = [
        {"ansible.builtin.set_fact": sles},
        {"ansible.builtin.include_role": {"name": "{{ inventory_hostname }}"}},
    ]
    entry = {"hosts": "all", "gather_facts": False, "tasks": tasks}
    done = play([entry], tmp_path, ",".join([*roles, ""]))
    assert done.returncode != 0
    for role in roles:
        (line,) = re.findall(rf"^fatal: \[{role}\]: FAILED! => .*", done.stdout, re.M)
        assert "SLES: these roles know the Debian and the RHEL family" in line
        (counts,) = re.findall(rf"^{role} +: ok=\d+ +(.*)", done.stdout, re.M)
        assert counts.startswith("changed=0 ")
