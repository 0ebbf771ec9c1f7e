"""dcgm_exporter: the packages, the service, and what it was started with, where it is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwcheck.provision.state.asserts import NotMeasuredError, ask, asserts
from hwcheck.provision.state.node import daemon, need_gpu, read
from hwcheck.provision.state.packages import hold_problem, named, problem

SERVICE = "nvidia-dcgm-exporter"
COUNTERS = "/etc/dcgm-exporter/hwcheck-counters.csv"
FETCH = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=10).status)"

Role = Mapping[str, Any]


def applies(host: Any, role: Role) -> None:  # noqa: ARG001
    """Skip the assertions where the role does nothing."""
    need_gpu(host)


def enabled(role: Role) -> bool:
    """Return whether the role does anything on the host."""
    return bool(role["dcgm_exporter_enabled"])


def packages(role: Role) -> list[str]:
    """Return the packages that the role installs."""
    return named(role, "dcgm_exporter_packages", ["datacenter-gpu-manager-exporter"])


@asserts("dcgm_exporter_enabled", when=enabled)
def test_package(host: Any, role: Role) -> None:
    """The packages are installed in the version."""
    wrong = problem(host, packages(role), str(role["dcgm_exporter_version"]))
    assert not wrong, wrong


@asserts("dcgm_exporter_hold", when=lambda role: enabled(role) and bool(role["dcgm_exporter_hold"]))
def test_hold(host: Any, role: Role) -> None:
    """An ordinary upgrade leaves it alone."""
    wrong = hold_problem(host, packages(role))
    assert not wrong, wrong


@asserts("dcgm_exporter_enabled", when=enabled)
def test_service(host: Any) -> None:
    """The service runs now and at the next boot."""
    wrong = daemon(host, SERVICE, on=True)
    assert not wrong, wrong


@asserts("dcgm_exporter_address", when=enabled)
def test_answers(host: Any, wanted: str) -> None:
    """Prometheus gets an answer at the address."""
    place = wanted if wanted.partition(":")[0] else f"localhost{wanted}"
    url = f"http://{place}/metrics"
    done = host.run("python3 -c %s %s", FETCH, url)
    why = done.stderr.strip().splitlines()[-1:]
    assert done.succeeded, f"{url} does not answer: {''.join(why)}"


@asserts("dcgm_exporter_address", when=enabled)
def test_address(host: Any, wanted: str) -> None:
    """It was started with the address, and the next start has it too."""
    _started_with(host, "--address", wanted)


@asserts("dcgm_exporter_hostengine", when=enabled)
def test_hostengine(host: Any, wanted: str) -> None:
    """It was started with the host engine, and the next start has it too."""
    _started_with(host, "-r", wanted)


@asserts("dcgm_exporter_collectors", when=enabled)
def test_collectors(host: Any, wanted: str) -> None:
    """It has the metrics of the file."""
    try:
        expected = Path(wanted).read_text("utf-8").strip()
    except OSError as error:
        raise NotMeasuredError(f"{wanted}: {error.strerror} on this machine") from None
    assert read(host, COUNTERS) == expected, f"{COUNTERS} is not {wanted}"
    _started_with(host, "-f", COUNTERS)


def _started_with(host: Any, option: str, wanted: str) -> None:
    process = ask(host, "systemctl show --property=MainPID --value %s", SERVICE)
    if process == "0":
        raise NotMeasuredError(f"{SERVICE} does not run")
    running = (read(host, f"/proc/{process}/cmdline") or "").split("\0")
    lines = ask(host, "systemctl cat %s", SERVICE).splitlines()
    starts = [line.split() for line in lines if line.startswith("ExecStart=")]
    for when, words in (("runs", running), ("is to be started", starts[-1] if starts else [])):
        given = words[words.index(option) + 1 :][:1] if option in words else []
        assert given == [wanted], f"{SERVICE} {when} with {option} {' '.join(given)}, not {wanted}"
