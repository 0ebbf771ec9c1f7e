"""What differs on the RHEL family: the same machine under another name, with dnf and RPMs."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from jinja2.nativetypes import NativeEnvironment

from hwcheck.inventory import ansible
from tests.lab.conftest import refuse
from tests.lab.namespaces import REPOSITORY
from tests.lab.scenario import load
from tests.roles.controller import write_files
from tests.roles.machine import DEVICES, INTERPRETER, KERNEL, PACKAGES, Machine, Played
from tests.roles.nvidia_packages import NEW, NEXT, OLD, doca, driver, exporter, gdrcopy, other
from tests.roles.packages import Package, chrony
from tests.roles.readme import what_would_change
from tests.roles.rpms import TOOLS, write_rpm_repository
from tests.roles.signing import SigningKey
from tests.roles.stated import Stated, state

ROLES = ["nvidia_driver", "nvidia_fabricmanager", "nccl", "rdma", "pcie_p2p"]
ASSERTED = [*ROLES, "nvidia_repository"]
RELEASE = "Rocky Linux release 9.4 (Blue Onyx)\n"
OS_RELEASE = 'NAME="Rocky Linux"\nID=rocky\nVERSION_ID="9.4"\nPLATFORM_ID="platform:el9"\n'
INITRAMFS = f"/boot/initramfs-{KERNEL}.img"
LOCKS = "/etc/dnf/plugins/versionlock.list"
STREAM = "/etc/dnf/modules.d/nvidia-driver.module"
FABRIC_NAME = "nvidia-fabricmanager"
DISTRIBUTION = [
    Package(f"kernel-devel-{KERNEL}", "1-1"),  # no RPM may have such a version
    *(
        Package(name, "44.0-2")
        for name in (
            *("kernel-headers", "python3-dnf-plugin-versionlock"),
            *("rdma-core", "libibverbs-utils", "infiniband-diags", "perftest"),
        )
    ),
]
OF_OTHER_ROLES = [
    Package("irqbalance", "1.9.2-4"),
    *(Package(name, "3.9-1") for name in ("python3", "python3-pip")),
    *(Package(name, "1-1") for name in ("openssh-clients", "python3.12", "python3.12-pip")),
]
CHRONY = chrony("chronyd", "/etc/chrony.conf")
STAND_INS = {
    "python3.12": 'exec python3 "$@"\n',
    "dracut": """
[ "$1 $2 $3" = "--force /boot/initramfs-$(uname -r).img $(uname -r)" ]
cat /etc/modprobe.d/hwcheck-*.conf >"$2"
""",
    # Two kernels with arguments of their own, as grubby(8) shows and changes them.
    "grubby": """
folder=/var/lib/hwlab/kernels
[ -e $folder ] || { mkdir $folder; echo ro quiet >$folder/0; echo ro iommu=pt >$folder/1; }
case "$1 ${2:-}" in
"--info=ALL ") for file in $folder/*; do echo "args=\\"$(cat "$file")\\""; done ;;
"--update-kernel=ALL --args="*)
    for file in $folder/*; do
        grep -qw -e "${2#--args=}" "$file" || sed -i "s|$| ${2#--args=}|" "$file"
    done ;;
"--update-kernel=ALL --remove-args="*) sed -i "s| ${2#--remove-args=}||" $folder/* ;;
*) exit 1 ;;
esac
""",
}
BASE = f"[base]\nname=base\nbaseurl=file://{PACKAGES}/rpms\ngpgcheck=0\n"
# They stand on what is not installed yet, or are commands of dnf and rpm.
NOT_PREDICTED = {
    "nvidia_repository : Install the key of the repository",
    "nvidia_repository : Install the packages",
    "nvidia_driver : Run the persistence daemon",
    "nvidia_fabricmanager : Run it",
    "pcie_p2p : Enable the unit, or take it out of the boot",
}
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def machine(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        refuse(f"no {', '.join(missing)}", os.environ.get("CI", ""))
    host = copy.deepcopy(dict(load("h100x8").host)) | {"driver": None}
    host["kernel"] |= {"modules": [], "options": "ro quiet"}
    with Machine(host, []) as machine:
        machine.write("/etc/redhat-release", RELEASE)
        machine.write("/etc/os-release", OS_RELEASE)
        machine.ask("rm /usr/bin/dpkg* /usr/bin/apt* /etc/debian_version")
        machine.ask(f"rm -r /boot/initrd.img* /boot/grub; touch {INITRAMFS}")
        machine.ask(DEVICES)
        machine.ask("mkdir -p /etc/pki/rpm-gpg /etc/yum.repos.d")
        for tool, script in STAND_INS.items():
            machine.install(tool, script)
        # dnf is a script, and takes half a second to load all of itself.
        machine.ask(f"sed -i '1s|.*|#!{INTERPRETER}|' $(readlink -f /usr/bin/dnf)")
        # Each step of a transaction waits for the disk.
        machine.ask("mkdir /dev/shm/rpmdb; ln -s /dev/shm/rpmdb /root/.rpmdb")
        with SigningKey(tmp_path_factory.mktemp("gpg") / "k") as key:
            own = [*driver(OLD, fabric=FABRIC_NAME), *driver(NEW, fabric=FABRIC_NAME)]
            next_own = driver(NEXT, fabric=FABRIC_NAME)
            copy_rpms = gdrcopy("2.5.1", "gdrcopy-kmod", "gdrcopy")
            packages = [*own, *next_own, *copy_rpms, *other("libnccl", "libnccl-devel")]
            packages.append(exporter("4.8.0"))
            streams = {"580-open": own, "590-open": next_own}
            place = machine.node.root / PACKAGES.lstrip("/")
            write_rpm_repository(place / "nvidia", packages, key, streams)
            write_rpm_repository(place / "rpms", [*DISTRIBUTION, *OF_OTHER_ROLES, CHRONY], key, {})
            write_rpm_repository(place / "doca-3.1.0", doca("3.1.0"), key, {})
            machine.beside_playbook("nvidia.asc").write_bytes(key.armored.read_bytes())
        machine.write("/etc/yum.repos.d/base.repo", BASE)
        yield machine


def wanted(version: str, **more: object) -> dict[str, object]:
    return {
        "nvidia_repository_url": f"file://{PACKAGES}/nvidia",
        "nvidia_repository_key": "nvidia.asc",
        "nvidia_driver_version": version,
        "nccl_version": "2.26.2-1+cuda12.8",
        "rdma_memlock_kib": "4096",
        "rdma_gpu_memory": "none",
        "gdrcopy_enabled": True,
        "gdrcopy_version": "2.5.1",
        "time_sync_ntp_servers": [{"hostname": "ntp1.example.com"}],
        "validation_env_requirements": [],
        **more,
    }


def versions(machine: Machine) -> dict[str, str]:
    query = "rpm -qa --qf '%{NAME} %{VERSION}-%{RELEASE}\\n'"
    lines = [line.split() for line in machine.ask(query).splitlines()]
    return {name: version for name, version in lines if name != "gpg-pubkey"}


@pytest.fixture(scope="module")
def predicted(machine: Machine) -> Played:
    return machine.play(ROLES, "--check", **wanted(OLD))


@pytest.fixture(scope="module")
def before(machine: Machine, predicted: Played) -> Stated:
    return state(machine, ASSERTED, **wanted(OLD))


@pytest.fixture(scope="module")
def refused(machine: Machine, before: Stated) -> Played:
    other_key = wanted(OLD, nvidia_repository_key_fingerprint="610C" * 10)
    return machine.play(["nvidia_repository"], **other_key)


@pytest.fixture(scope="module")
def first(machine: Machine, refused: Played) -> Played:
    assert versions(machine) == {}
    return machine.play(ROLES, **wanted(OLD))


@pytest.fixture(scope="module")
def second(machine: Machine, first: Played) -> Played:
    return machine.play(ROLES, **wanted(OLD))


@pytest.mark.wide
def test_check_mode_predicts_the_changes(predicted: Played, first: Played) -> None:
    assert predicted.code == 0, predicted.text
    assert first.code == 0, first.text
    assert set(first.changed) - set(predicted.changed) == NOT_PREDICTED


@pytest.mark.wide
def test_a_key_with_another_fingerprint_is_not_imported(refused: Played, first: Played) -> None:
    assert refused.code != 0
    assert "does not match any key fingerprints" in refused.text
    assert refused.changed == ["nvidia_repository : Copy the key of the repository"]
    assert "nvidia_repository : Install the key of the repository" in first.changed


@pytest.mark.wide
def test_the_second_run_changes_nothing(second: Played) -> None:
    assert second.code == 0, second.text
    assert second.changes == 0, second.changed


@pytest.mark.wide
def test_the_state_fails_before_and_holds_after_but_for_what_waits_for_a_boot(
    machine: Machine, before: Stated, second: Played
) -> None:
    assert before.roles("fail") == set(ASSERTED), before.text
    after = state(machine, ASSERTED, **wanted(OLD))
    assert after.variables("fail") == {"pcie_p2p_iommu"}, after.text
    assert after.variables("inconclusive") == set()
    assert after.variables("pass") >= before.variables("fail") - {"pcie_p2p_iommu"}


@pytest.mark.wide
def test_it_is_what_the_family_calls_it(machine: Machine, second: Played) -> None:
    found = versions(machine)
    assert {found[name] for name in found if name.startswith("nvidia-")} == {f"{OLD}-1"}
    assert found["libnccl-devel"] == "2.26.2-1+cuda12.8"
    assert found.keys() >= {each.name for each in DISTRIBUTION}
    kernels = machine.ask("cat /var/lib/hwlab/kernels/*").splitlines()
    assert kernels == ["ro quiet iommu=pt", "ro iommu=pt"]
    assert "blacklist nouveau" in machine.ask(f"cat {INITRAMFS}")
    assert machine.ask("cat /sys/module/nvidia/version") == OLD


@pytest.mark.wide  # make test asks one with apt (test_drivers)
@pytest.mark.parametrize("version", [NEW, "590"])
def test_a_node_at_work_keeps_its_driver_its_locks_and_its_stream(
    machine: Machine, second: Played, version: str
) -> None:
    kept = f"cat {LOCKS} {STREAM}; rpm -qa | sort"
    before = machine.ask(kept)
    assert f"nvidia-open-{OLD}-1" in before
    assert "stream=580-open" in before
    busy = ["false"]
    refused = machine.play(["nvidia_driver"], **wanted(version), node_reboot_drained_command=busy)
    assert refused.code != 0
    assert "needs nvidia-open in another version and is not drained" in refused.text
    assert refused.changes == 0, refused.changed
    assert machine.ask(kept) == before
    same = machine.play(["nvidia_driver"], **wanted(OLD), node_reboot_drained_command=busy)
    assert (same.code, same.changes) == (0, 0), same.text


@pytest.mark.wide
def test_an_ordinary_upgrade_leaves_it_alone_and_the_role_does_not(
    machine: Machine, second: Played
) -> None:
    machine.ask("dnf -q -y install nvidia-container-toolkit; dnf -q -y upgrade")
    assert versions(machine)["nvidia-container-toolkit"] == "1.17.8-1"
    assert versions(machine)["nvidia-driver-cuda"] == f"{OLD}-1"
    raised = machine.play(["nvidia_driver"], **wanted(NEW))
    assert raised.code == 0, raised.text
    assert versions(machine)["nvidia-driver-cuda"] == f"{NEW}-1"
    reason = f"driver {OLD} is loaded, {NEW} is installed"
    assert machine.ask("cat /run/hwcheck/reboot/nvidia_driver") == reason
    back = machine.play(["nvidia_driver"], **wanted(OLD))
    assert back.code == 0, back.text
    found = versions(machine)
    driver_packages = {name: found[name] for name in found if name.startswith("nvidia-")}
    assert set(driver_packages.values()) == {f"{OLD}-1", "1.17.8-1"}, driver_packages
    assert machine.ask("ls /run/hwcheck/reboot") == "pcie_p2p"  # that of the driver is withdrawn


@pytest.mark.wide
def test_what_no_version_is_asked_for_is_held_at_the_one_that_came(
    machine: Machine, second: Played
) -> None:
    machine.ask(f"sed -i /libnccl/d {LOCKS}")
    loose = state(machine, ["nccl"], **wanted(OLD, nccl_version=""))
    assert loose.variables("fail") == {"nccl_hold"}, loose.text
    held = machine.play(["nccl"], **wanted(OLD, nccl_version=""))
    assert held.changed == [
        "nvidia_repository : Hold the packages at their version, or let go of them"
    ]
    machine.ask("dnf -q -y upgrade")
    assert versions(machine)["libnccl"] == "2.26.2-1+cuda12.8"


@pytest.mark.wide
def test_another_branch_is_another_stream_and_leads_back_again(
    machine: Machine, second: Played
) -> None:
    predicted = machine.play(["nvidia_driver"], "--check", **wanted("590"))
    assert "nvidia_driver : Enable the stream of the branch" in predicted.changed
    raised = machine.play(["nvidia_driver"], **wanted("590"))
    assert raised.code == 0, raised.text
    assert versions(machine)["nvidia-driver-cuda"] == f"{NEXT}-1"
    assert machine.play(["nvidia_driver"], **wanted("590")).changes == 0
    back = machine.play(["nvidia_driver"], **wanted(OLD))
    assert back.code == 0, back.text
    assert versions(machine)["nvidia-driver-cuda"] == f"{OLD}-1"


@pytest.mark.wide
def test_kernel_parameters_are_withdrawn_but_for_those_of_others(
    machine: Machine, second: Played
) -> None:
    role, kernels = ["pcie_p2p"], "cat /var/lib/hwlab/kernels/*"
    more = wanted(OLD, pcie_p2p_kernel_parameters=["pci=realloc=off"])
    assert machine.play(role, **more).code == 0
    assert "pci=realloc=off" in machine.ask(kernels)
    assert machine.play(role, **wanted(OLD)).code == 0
    none = wanted(OLD, pcie_p2p_iommu="unmanaged")
    predicted = machine.play(role, "--check", **none)
    assert predicted.changed == [
        "pcie_p2p : Name the parameters to every installed kernel, or withdraw them",
        "node_reboot : Withdraw what is no longer so",
    ]
    assert "iommu=pt" in machine.ask(kernels)
    assert machine.play(role, **none).code == 0
    assert machine.ask(kernels).splitlines() == ["ro quiet", "ro"]
    assert machine.play(role, **none).changes == 0


@pytest.mark.wide
def test_what_is_beside_the_driver_is_called_otherwise(machine: Machine, second: Played) -> None:
    roles = ["gdrcopy", "time_sync", "validation_env"]
    first = machine.play(roles, **wanted(OLD))
    assert first.code == 0, first.text
    assert versions(machine)["gdrcopy-kmod"] == "2.5.1-1"
    assert versions(machine).keys() >= {"python3", "python3-pip"}
    assert "gdrcopy-kmod-2.5.1-1" in machine.ask(f"cat {LOCKS}")
    assert machine.ask("systemctl is-active chronyd") == "active"
    assert machine.ask("sed -n 2p /etc/chrony.conf") == "server ntp1.example.com"
    assert machine.play(roles, **wanted(OLD)).changes == 0
    holds = state(machine, roles, **wanted(OLD))
    assert holds.code == 0, holds.text


@pytest.mark.wide
def test_the_command_of_the_readme_says_what_would_change(machine: Machine, tmp_path: Path) -> None:
    had = versions(machine)
    done = what_would_change(
        machine,
        tmp_path,
        nvidia_repository_url=f"file://{PACKAGES}/nvidia",
        nvidia_repository_key=str(machine.beside_playbook("nvidia.asc")),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed" in done.stdout
    assert versions(machine) == had


@pytest.mark.wide
def test_a_controller_has_the_newer_python_and_dcgm_is_held(
    machine: Machine, tmp_path: Path
) -> None:
    roles = ["dcgm", "dcgm_exporter", "hwcheck_controller"]
    more = wanted(
        OLD,
        **write_files(tmp_path),
        dcgm_enabled=True,
        dcgm_version="4.4",
        dcgm_exporter_enabled=True,
        dcgm_exporter_version="4.8",
    )
    first = machine.play(roles, **more)
    assert first.code == 0, first.text
    installed = versions(machine)
    assert installed["datacenter-gpu-manager-4-cuda12"] == "4.4.1-1"
    assert installed["datacenter-gpu-manager-exporter"] == "4.8.0-1"
    assert installed.keys() >= {"openssh-clients", "python3.12", "python3.12-pip"}
    assert "datacenter-gpu-manager-exporter-4.8.0-1" in machine.ask(f"cat {LOCKS}")
    again = machine.play(roles, **more)
    assert again.changes == 0, again.changed
    holds = state(machine, roles, **more)
    assert holds.code == 0, holds.text


@pytest.mark.parametrize(
    ("release", "package"),
    [
        ("5.14.0-427.el9.x86_64", "kernel-devel-5.14.0-427.el9.x86_64"),
        ("5.14.0-427.el9.aarch64+64k", "kernel-64k-devel-5.14.0-427.el9.aarch64"),
    ],
)
def test_the_headers_are_those_of_the_kind_of_kernel(release: str, package: str) -> None:
    file = REPOSITORY / "roles/nvidia_driver/vars/main.yml"
    facts = {"ansible_facts": {"kernel": release}}
    template = NativeEnvironment().from_string
    texts = yaml.safe_load(file.read_text())
    kernel = template(texts["nvidia_driver_kernel"]).render(facts)
    devel = template(texts["nvidia_driver_kernel_devel"])
    assert devel.render(nvidia_driver_kernel=kernel) == package


@pytest.mark.parametrize(
    ("version", "name"),
    [("2.9.3", "rhel9.6"), ("3.1.0", "rhel9.6"), ("3.2.0", "rhel9"), ("3.10.0", "rhel9")],
)
def test_the_repository_of_doca_is_of_a_minor_release_before_3_2(
    tmp_path: Path, version: str, name: str
) -> None:
    facts = {"os_family": "RedHat", "distribution": "Rocky", "distribution_version": "9.6"}
    facts |= {"distribution_major_version": "9", "architecture": "x86_64", "cacheable": "true"}
    role = REPOSITORY / "roles" / "doca_ofed"
    usual = yaml.safe_load((role / "defaults" / "main.yml").read_text())
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {**usual, "doca_ofed_version": version},
        "vars_files": [str(role / "vars" / "main.yml")],
        "tasks": [
            {"ansible.builtin.set_fact": facts},
            {"ansible.builtin.debug": {"msg": "{{ doca_ofed_address }}"}},
        ],
    }
    (tmp_path / "play.json").write_text(json.dumps([play]))
    done = ansible.run(["playbook", "--inventory=localhost,", str(tmp_path / "play.json")])
    assert f"/repo/doca/{version}/{name}/x86_64/" in done.stdout, done.stdout + done.stderr
