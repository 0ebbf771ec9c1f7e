"""system_tuning: CPU, memory, sysctls, limits of logins, /dev/shm, irqbalance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from hwcheck.provision.state.asserts import ask, asserts
from hwcheck.provision.state.next_boot import (
    limit_problem,
    sysctl_path,
    sysctl_problem,
    written_problem,
)
from hwcheck.provision.state.node import daemon, login_limit, read

GOVERNORS = "cat /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor 2>/dev/null"
GOVERNOR_FILES = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
DEV_SHM = "/dev/shm"  # noqa: S108
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@asserts("system_tuning_cpu_governor")
def test_cpu_governor(host: Any, wanted: str) -> None:
    """Every CPU runs under the governor."""
    actual = host.run(GOVERNORS).stdout.split()
    if not actual:
        pytest.skip("the CPUs have no governor here")
    others = sorted(set(actual) - {wanted})
    assert not others, f"CPUs run under {', '.join(others)}, not {wanted}"


@asserts("system_tuning_cpu_governor")
def test_cpu_governor_at_boot(host: Any, wanted: str) -> None:
    """The next boot sets the governor."""
    wrong = written_problem(host, GOVERNOR_FILES, wanted)
    assert not wrong, wrong


@asserts("system_tuning_numa_balancing")
def test_numa_balancing(host: Any, wanted: str) -> None:
    """The kernel moves memory between NUMA nodes, or does not."""
    actual = read(host, "/proc/sys/kernel/numa_balancing")
    if actual is None:
        pytest.skip("this kernel cannot balance NUMA nodes")
    state = "disabled" if actual == "0" else "enabled"
    assert state == wanted, f"NUMA balancing is {state}, not {wanted}"


@asserts("system_tuning_numa_balancing")
def test_numa_balancing_at_boot(host: Any, wanted: str) -> None:
    """The next boot keeps it so."""
    wrong = sysctl_problem(host, "kernel.numa_balancing", "0" if wanted == "disabled" else "1")
    assert not wrong, wrong


@asserts("system_tuning_hugepages")
def test_hugepages(host: Any, wanted: int) -> None:
    """As many huge pages are set aside."""
    actual = ask(host, "cat /proc/sys/vm/nr_hugepages")
    assert int(actual) == int(wanted), f"{actual} huge pages are set aside, not {wanted}"


@asserts("system_tuning_hugepages")
def test_hugepages_at_boot(host: Any, wanted: int) -> None:
    """The next boot sets as many aside."""
    wrong = sysctl_problem(host, "vm.nr_hugepages", str(wanted))
    assert not wrong, wrong


@asserts("system_tuning_transparent_hugepages")
def test_transparent_hugepages(host: Any, wanted: str) -> None:
    """Transparent huge pages are given as wanted."""
    text = read(host, "/sys/kernel/mm/transparent_hugepage/enabled")
    if text is None:
        pytest.skip("this kernel has no transparent huge pages")
    chosen = re.search(r"\[(\w+)\]", text)
    actual = chosen.group(1) if chosen else text
    assert actual == wanted, f"transparent huge pages are {actual}, not {wanted}"


@asserts("system_tuning_transparent_hugepages")
def test_transparent_hugepages_at_boot(host: Any, wanted: str) -> None:
    """The next boot gives them as wanted."""
    wrong = written_problem(host, HUGE_PAGES, wanted)
    assert not wrong, wrong


@asserts("system_tuning_sysctls", each=True)
def test_sysctl(host: Any, wanted: tuple[str, Any]) -> None:
    """The kernel parameter has its value now."""
    name, value = wanted
    words = str(value).split()
    text = read(host, f"/proc/sys/{sysctl_path(name)}")
    assert text is not None, f"this kernel has no {name}"
    assert text.split() == words, f"{name} is {' '.join(text.split())}, not {' '.join(words)}"


@asserts("system_tuning_sysctls", each=True)
def test_sysctl_at_boot(host: Any, wanted: tuple[str, Any]) -> None:
    """The next boot gives it this value, whatever other files say."""
    name, value = wanted
    wrong = sysctl_problem(host, name, str(value))
    assert not wrong, wrong


@asserts("system_tuning_limits", each=True)
def test_limit(host: Any, wanted: Mapping[str, Any]) -> None:
    """A login gets the limit."""
    item, value = str(wanted["item"]), str(wanted["value"])
    for kind in ("soft", "hard") if wanted["type"] == "-" else (wanted["type"],):
        actual = login_limit(host, str(wanted["domain"]), item, kind)
        assert actual == value, f"the {kind} limit {item} of a login is {actual}, not {value}"


@asserts("system_tuning_limits", each=True)
def test_limit_of_the_next_login(host: Any, wanted: Mapping[str, Any]) -> None:
    """The files give it, so that it is not only inherited from what was set by hand."""
    domain, item, value = (str(wanted[name]) for name in ("domain", "item", "value"))
    for kind in ("soft", "hard") if wanted["type"] == "-" else (wanted["type"],):
        wrong = limit_problem(host, domain, item, kind, value)
        assert not wrong, f"{wrong}, not {value}"


@asserts("system_tuning_dev_shm_size")
def test_dev_shm(host: Any, wanted: str) -> None:
    """The shared memory has its size; a percentage is of the memory."""
    blocks, size = map(int, ask(host, "stat -f -c '%b %S' /dev/shm").split())
    size_text = re.fullmatch(r"(\d+)([kmgt%]?)", str(wanted).lower())
    assert size_text is not None, f"{wanted} is no size"
    if size_text.group(2) == "%":
        memory_kib = int(ask(host, "grep -w MemTotal /proc/meminfo").split()[1])
        bytes_wanted = memory_kib * 1024 * int(size_text.group(1)) // 100
    else:
        bytes_wanted = int(size_text.group(1)) * UNITS[size_text.group(2)]
    # The kernel rounds to pages.
    assert abs(blocks * size - bytes_wanted) <= size, (
        f"shared memory has {blocks * size} bytes, not {bytes_wanted} ({wanted})"
    )


@asserts("system_tuning_dev_shm_size")
def test_dev_shm_at_boot(host: Any, wanted: str) -> None:
    """The next boot gives it this size."""
    lines = [line.partition("#")[0].split() for line in ask(host, "cat /etc/fstab").splitlines()]
    options = [words[3].split(",") for words in lines if words[1:2] == [DEV_SHM] and len(words) > 3]
    sizes = [option[5:] for option in (options[-1] if options else []) if option[:5] == "size="]
    assert sizes, "/etc/fstab gives /dev/shm no size"
    assert sizes[-1] == str(wanted), f"/etc/fstab gives /dev/shm {sizes[-1]}, not {wanted}"


@asserts("system_tuning_irqbalance")
def test_irqbalance(host: Any, wanted: str) -> None:
    """The daemon runs now and at the next boot, or neither."""
    problem = daemon(host, "irqbalance", on=wanted == "enabled")
    assert not problem, problem
