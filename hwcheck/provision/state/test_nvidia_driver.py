"""nvidia_driver: the packages, the module that runs, nouveau, the persistence daemon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwcheck.provision.state.asserts import ask, asserts
from hwcheck.provision.state.next_boot import initramfs_problem, module_option, never_loaded
from hwcheck.provision.state.node import daemon, need_gpu, read
from hwcheck.provision.state.packages import begins, hold_problem, is_debian, named, problem

LICENSES = {"open": "Dual MIT/GPL", "proprietary": "NVIDIA"}
"""What the modules say of themselves."""

DPKG = "dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\\n'"
RPM = "rpm -qa --qf 'installed %%{NAME} %%{VERSION}-%%{RELEASE}\\n'"

Role = Mapping[str, Any]


def applies(host: Any, role: Role) -> None:
    """Skip the assertions where the role does nothing."""
    need_gpu(host, when=bool(role["nvidia_driver_only_with_gpu"]))


def packages(role: Role) -> list[str]:
    """Return the packages that the role installs."""
    is_open = role["nvidia_driver_kernel_modules"] == "open"
    return named(role, "nvidia_driver_packages", ["nvidia-open" if is_open else "cuda-drivers"])


def following(host: Any, role: Role) -> list[str]:
    """Return the installed packages that follow the version of the driver."""
    listing = RPM if not is_debian(host) else DPKG
    patterns = [str(pattern) for pattern in role["nvidia_driver_pinned"]]
    # dpkg-query ends with 1 where a pattern meets no package.
    lines = str(host.run(listing + " %s" * len(patterns), *patterns).stdout).splitlines()
    installed = [line.split()[1:] for line in lines if line.startswith("installed ")]
    version = str(role["nvidia_driver_version"])
    return [name for name, is_ in installed if begins(is_.rpartition(":")[2], version)]


@asserts("nvidia_driver_version")
def test_package(host: Any, wanted: str, role: Role) -> None:
    """The packages are installed in this version."""
    wrong = problem(host, packages(role), str(wanted))
    assert not wrong, wrong


@asserts("nvidia_driver_version", when=lambda role: bool(role["nvidia_driver_require_modules"]))
def test_loaded(host: Any, wanted: str) -> None:
    """The driver that runs is of this version: an upgrade counts only after a reboot."""
    actual = read(host, "/sys/module/nvidia/version")
    assert actual is not None, "the nvidia module is not loaded"
    assert begins(actual, str(wanted)), f"driver {actual} runs, not {wanted}"


@asserts("nvidia_driver_version", when=lambda role: bool(role["nvidia_driver_require_modules"]))
def test_loaded_at_boot(host: Any) -> None:
    """Modprobe would load it the next time."""
    line = never_loaded(host, "nvidia")
    assert not line, f"modprobe does not load nvidia from the next boot on: {line}"


@asserts(
    "nvidia_driver_kernel_modules", when=lambda role: bool(role["nvidia_driver_require_modules"])
)
def test_kernel_modules(host: Any, wanted: str) -> None:
    """The modules of the running kernel are the open ones, or the proprietary ones."""
    license_ = ask(host, "modinfo -F license nvidia")
    assert license_ == LICENSES[wanted], f"the nvidia module's license is {license_}: not {wanted}"


@asserts("nvidia_driver_hold", when=lambda role: bool(role["nvidia_driver_hold"]))
def test_hold(host: Any, role: Role) -> None:
    """An ordinary upgrade leaves each part of the driver alone."""
    wrong = hold_problem(host, sorted({*packages(role), *following(host, role)}))
    assert not wrong, wrong


@asserts("nvidia_driver_nouveau_off", when=lambda role: bool(role["nvidia_driver_nouveau_off"]))
def test_nouveau(host: Any) -> None:
    """The kernel's own driver is not loaded, and modprobe would not load it."""
    assert read(host, "/sys/module/nouveau/initstate") is None, "nouveau is loaded"
    configured = ask(host, "modprobe --showconfig").splitlines()
    assert "blacklist nouveau" in configured, "modprobe may load nouveau"


@asserts("nvidia_driver_nouveau_off", when=lambda role: bool(role["nvidia_driver_nouveau_off"]))
def test_nouveau_in_the_initramfs(host: Any) -> None:
    """The initramfs, which may load drivers first, has been made since modprobe was told so."""
    wrong = initramfs_problem(host, "hwcheck-n*.conf")
    assert not wrong, wrong


@asserts("nvidia_driver_module_options", each=True)
def test_module_option(host: Any, wanted: tuple[str, Any]) -> None:
    """The loaded module has the option."""
    name, value = wanted
    parameters = read(host, "/proc/driver/nvidia/params")
    assert parameters is not None, "the nvidia module is not loaded"
    actual = dict(line.split(": ", 1) for line in parameters.splitlines() if ": " in line)
    option = actual.get(name.removeprefix("NVreg_"), "not known to the module").strip('"')
    assert option == str(value), f"{name} is {option}, not {value}"


@asserts("nvidia_driver_module_options", each=True)
def test_module_option_at_boot(host: Any, wanted: tuple[str, Any]) -> None:
    """The module gets the option when it is loaded the next time."""
    name, value = wanted
    actual = module_option(host, "nvidia", name)
    assert actual == str(value), f"{name} is {actual} from the next load on, not {value}"


@asserts(
    "nvidia_driver_persistence_daemon",
    when=lambda role: bool(role["nvidia_driver_persistence_daemon"]),
)
def test_persistence_daemon(host: Any) -> None:
    """The daemon keeps the driver loaded, now and after a boot."""
    # Its packages start it by udev or by systemd, so it need not be enabled.
    wrong = daemon(host, "nvidia-persistenced", on=True)
    assert not wrong, wrong
