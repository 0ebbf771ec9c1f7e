"""A simulated machine for roles: Debian on overlays, systemd, sshd, and kernel files of its own.

It stands on a node of the lab. What roles write to ``/sys`` and ``/proc/sys`` lands in files; its
packages come from repositories of the test's own; it may be rebooted.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from tests.lab.host_tree import write_host
from tests.lab.lab import Lab, listens, wait_until
from tests.lab.namespaces import REPOSITORY
from tests.lab.network import PREFIX
from tests.roles.packages import Package, write_repository
from tests.roles.signing import SigningKey

BOOT_S = 20.0
OLD_S = 60.0
PYTHON = os.environ.get("HWCHECK_TEST_ANSIBLE", sys.executable)
"""Has the ansible-core to apply roles with."""
QUICK = "HWCHECK_TEST_ANSIBLE" not in os.environ
PLAY_S = 240 if QUICK else 2400
INTERPRETER = "/usr/sbin/hwlab-python"
UNIT = "hwlab-modules.service"
MODULES = "modules"
"""A socket in the folder of the machine: what runs Ansible's modules quickly listens there."""
PACKAGES = "/var/lib/hwlab-packages"
KERNEL = platform.release()
INITRAMFS = f"/boot/initrd.img-{KERNEL}"
HERE = Path(__file__).parent
ENTER = HERE / "machine.sh"

# Tools that need a kernel or a boot loader; each does to this machine's files what it would do.
STAND_INS = {
    "modprobe": """
[ "$1" != --showconfig ] || { cat /etc/modprobe.d/*.conf 2>/dev/null || :; exit; }
module=$(echo "$1" | tr - _)
file=/lib/modules/$(uname -r)/updates/dkms/$module.ko
[ -e "$file" ] || file=/lib/modules/$(uname -r)/updates/dkms/nvidia.ko
[ -e "$file" ] || file=/sys/module/nvidia/version
[ -e "$file" ] || { echo "modprobe: FATAL: Module $1 not found" >&2; exit 1; }
mkdir -p "/sys/module/$module"
head -n 1 "$file" >"/sys/module/$module/version"
""",
    "modinfo": """
file=$3
[ -e "$file" ] || file=/lib/modules/$(uname -r)/updates/dkms/$file.ko
case "$2" in
version | srcversion) head -n 1 "$file" ;;
license) tail -n 1 "$file" ;;
*) exit 1 ;;
esac
""",
    "update-initramfs": """
[ "$1 $2" = "-u -k" ]
cat /etc/modprobe.d/hwcheck-*.conf >"/boot/initrd.img-$3"
""",
    "shutdown": "exec systemctl reboot\n",  # its own way goes over a login daemon
    "update-grub": """
GRUB_CMDLINE_LINUX_DEFAULT=quiet
for file in /etc/default/grub.d/*.cfg; do . "$file"; done
entry="linux /vmlinuz root=/dev/vda ro $GRUB_CMDLINE_LINUX_DEFAULT"
mkdir -p /boot/grub
echo "$entry" >/boot/grub/grub.cfg
# GRUB takes a $ that is quoted for one.
echo "$GRUB_CMDLINE_LINUX_DEFAULT" | sed 's/\\\\\\$/$/g' >/var/lib/hwlab/menu
""",
}
DEVICES = """
mkdir -p /run/dev/upper /run/dev/work
mount -t overlay -o lowerdir=/dev,upperdir=/run/dev/upper,workdir=/run/dev/work hwlab /dev
touch /dev/gdrdrv
"""
"""Makes a folder /dev of its own, in which udev has made GDRCopy's device; gone with a boot."""
CHANGED = re.compile(r"(?:TASK|RUNNING HANDLER) \[(.+)\] \*+|changed: \[")
RECAP = re.compile(r"ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)")


@dataclass(frozen=True)
class Played:
    """What came of a play on the one machine."""

    code: int
    text: str

    @property
    def changed(self) -> list[str]:
        """The tasks that changed something, or would, in their order."""
        found, task = [], ""
        for match in CHANGED.finditer(self.text):
            task, was = match[1] or task, match[1] is None
            if was and (not found or found[-1] != task):
                found.append(task)
        return found

    @property
    def changes(self) -> int:
        """Ansible's own count."""
        match = RECAP.search(self.text)
        assert match, self.text
        return int(match[2])


class Machine:
    """A context manager. ``host`` is what its kernel says (``tests/lab/host_tree.py``)."""

    def __init__(self, host: Mapping[str, Any], packages: Sequence[Package]) -> None:
        self._host = host
        self._packages = packages
        self._lab = Lab(["gpu01"])

    def __enter__(self) -> Machine:
        self._lab.__enter__()
        try:
            self._boot()
        except BaseException:
            self._lab.end()
            raise
        return self

    def _boot(self) -> None:
        self.node = self._lab.nodes["gpu01"]
        self.folder = self.node.folder
        self.group = f"{self.folder.parent.name}"
        write_host(self.folder / "tree", self._host)
        for tool, script in STAND_INS.items():
            self.install(tool, script)
        # The kernel as the distribution installed it.
        for path in (f"/usr/lib/modules/{KERNEL}/modules.order", INITRAMFS):
            self.write(path, "")
        self.write("/boot/grub/grub.cfg", "linux /vmlinuz root=/dev/vda ro quiet\n")
        self._install_modules()
        # Nothing that an image of a container says to apt, such as to keep no cache.
        self.node.ask(["sh", "-c", "rm -rf /etc/apt/sources.list* /etc/apt/apt.conf.d/*"])
        self.node.ask(["mkdir", "/etc/apt/sources.list.d"])
        self.add_repository("base", self._packages)
        self.write("/etc/apt/sources.list", f"deb [trusted=yes] file:{PACKAGES}/base ./\n")
        self.node.stop_sshd()
        self.node.run(["sh", str(ENTER), str(self.folder), self.group])
        wait_until(lambda: listens(self.node.address), BOOT_S)
        self.ask("apt-get -q update")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lab.end()
        remove_groups(self.group, self._lab.folder)

    def _install_modules(self) -> None:
        """Put in what runs Ansible's modules quickly (``quick_modules``)."""
        package = importlib.util.find_spec("ansible")
        assert package
        assert package.origin
        client = self.node.root / INTERPRETER.lstrip("/")
        names = {"SERVER": self.folder / MODULES, "PYTHON": "/usr/bin/python3"}
        defined = [f'-D{name}="{value}"' for name, value in names.items()]
        source = HERE / "quick_modules/client.c"
        subprocess.run(["gcc", "-Wall", "-Werror", *defined, source, "-o", client], check=True)
        server = (
            f"{HERE}/quick_modules/server.py {self.folder / MODULES} {Path(package.origin).parent}"
        )
        # Last, for who has reached it takes the machine for booted.
        unit = f"[Unit]\nAfter=hwlab-sshd.service\n[Service]\nExecStart=/usr/bin/python3 {server}\n"
        self.write(f"/etc/systemd/system/{UNIT}", unit)

    def install(self, tool: str, script: str) -> None:
        """Put a program of the test's own onto the search path."""
        self.write(f"/usr/sbin/{tool}", f"#!/bin/sh\nset -eu\n{script}", 0o755)

    def add_repository(
        self, name: str, packages: Sequence[Package], key: SigningKey | None = None
    ) -> None:
        """Make, or make anew, the repository in ``PACKAGES/<name>``."""
        write_repository(self.node.root / PACKAGES.lstrip("/") / name, packages, key)

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file of its file system (not of /proc, /sys or /run)."""
        file = self.node.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)  # it may be a link to another
        file.write_text(text)
        file.chmod(mode)

    def ask(self, script: str) -> str:
        """Run a script by SSH as root and return what it wrote. Raises CalledProcessError."""
        kept = ["-o", "ControlMaster=auto", "-o", "ControlPersist=60s"]
        path = ["-o", f"ControlPath={self._lab.folder}/ask"]
        command = ["ssh", "-F", str(self._lab.ssh_config()), *kept, *path, "gpu01", script]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PLAY_S)
        return done.stdout.strip()

    def keep(self, name: str) -> None:
        """Keep what the machine has on its disk, for ``restore``."""
        current = self.folder / "current"
        if not current.exists():
            current.write_text("changes")
        changes = self.folder / current.read_text().strip()
        self.node.ask(["cp", "-a", str(changes), str(self.folder / name)])

    def restore(self, name: str) -> None:
        """Boot it with what it had on its disk then."""
        request = self.folder / "restore"
        request.write_text(name)
        with contextlib.suppress(subprocess.CalledProcessError):  # the connection ends with it
            self.ask("systemctl reboot -ff")
        wait_until(lambda: not request.exists() and listens(self.node.address), BOOT_S)

    def playbook(self, roles: Sequence[str]) -> Path:
        """Write a playbook with one play and return its path."""
        play = {"hosts": "all", "gather_subset": ["!all"], "roles": list(roles)}
        path = self.beside_playbook("play.yml")
        path.write_text(yaml.safe_dump([play]))
        return path

    def beside_playbook(self, name: str) -> Path:
        """Return the path of a file in the folder of the playbooks."""
        return self._lab.folder / name

    def inventory(self, **variables: object) -> Path:
        """Write an inventory of the machine, with these variables, and return its path."""
        return self._lab.inventory(
            ansible_python_interpreter=INTERPRETER if QUICK else "/usr/bin/python3",
            ansible_pipelining=True,
            ansible_ssh_transfer_method="piped",
            **{"nvidia_repository_url": "", **variables},  # NVIDIA's own is not within reach
        )

    def play(
        self,
        roles: Sequence[str],
        *options: str,
        playbook: Path | None = None,
        environment: Mapping[str, str] | None = None,
        **variables: object,
    ) -> Played:
        """Apply roles in one play, or a playbook; ``environment`` is added to Ansible's."""
        path = playbook or self.playbook(roles)
        command = [PYTHON, "-m", "ansible", "playbook", "-i", str(self.inventory()), str(path)]
        done = subprocess.run(
            [*command, *options, "-e", json.dumps(variables)],
            capture_output=True,
            text=True,
            check=False,
            timeout=PLAY_S,
            cwd=REPOSITORY,
            env=os.environ
            | {
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_ROLES_PATH": str(REPOSITORY / "roles"),
                "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self._lab.folder / "cp"),
                # Without -C: to compress what stays on this machine takes longer than to send it
                "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=60s",
                "HWCHECK_TEST_MODULES": f"{INTERPRETER} {self.folder / MODULES}",
                "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "0",
                # Roles say ansible_facts; to give each task each fact by its name too takes time.
                "ANSIBLE_INJECT_FACT_VARS": "0",
                # What roles ask of the facts stays as it is, and is gathered once.
                "ANSIBLE_GATHERING": "smart",
                "ANSIBLE_CACHE_PLUGIN": "jsonfile",
                "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(self._lab.folder / "facts"),
            }
            | dict(environment or {}),
        )
        return Played(done.returncode, done.stdout + done.stderr)


def remove_groups(name: str, folder: Path) -> None:
    """Remove the control groups of a machine that has ended; its folder may be gone.

    And those that machines of killed runs have left.
    """
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "cgroup2", "hwlab", str(folder)], check=True)
    try:
        wait_until(lambda: _is_empty(folder / name), BOOT_S)  # the kernel ends its processes
        for machine in [folder / name, *filter(_dead, folder.glob(f"{PREFIX}*"))]:
            for group, _, _ in os.walk(machine, topdown=False):
                wait_until(lambda group=group: _removed(group), BOOT_S)  # type: ignore[misc]
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


def _removed(group: str) -> bool:
    """Remove a control group, if another worker has not; its last process may not be gone yet."""
    try:
        os.rmdir(group)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


def _dead(group: Path) -> bool:
    """Whether a machine's control group has had no process for a while; a new one is boot's."""
    try:
        return _is_empty(group) and time.time() - group.stat().st_mtime > OLD_S
    except FileNotFoundError:
        return False


def _is_empty(group: Path) -> bool:
    """Whether no process is left in a control group or below it; another worker may remove it."""
    try:
        return "populated 0" in (group / "cgroup.events").read_text()
    except FileNotFoundError:
        return True
