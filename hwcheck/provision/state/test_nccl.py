"""nccl: the library, the settings of all jobs, nccl-tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwcheck.provision.state.asserts import NotMeasuredError, asserts
from hwcheck.provision.state.node import read
from hwcheck.provision.state.packages import hold_problem, is_debian, named, problem

PROGRAMS = ("all_reduce_perf", "alltoall_perf", "all_gather_perf", "reduce_scatter_perf")

Role = Mapping[str, Any]


def packages(host: Any, role: Role) -> list[str]:
    """Return the packages that the role installs."""
    usual = ("libnccl2", "libnccl-dev") if is_debian(host) else ("libnccl", "libnccl-devel")
    return named(role, "nccl_packages", usual)


def settings(text: str) -> dict[str, str]:
    """Return the settings of a text in the format of nccl.conf: NAME=VALUE, # for comments."""
    lines = [line.split("#", 1)[0].strip() for line in text.splitlines()]
    pairs = [line.split("=", 1) for line in lines if "=" in line]
    return {name.strip(): value.strip() for name, value in pairs}


@asserts("nccl_library", when=lambda role: bool(role["nccl_library"]))
def test_package(host: Any, role: Role) -> None:
    """The library is installed in the version."""
    wrong = problem(host, packages(host, role), str(role["nccl_version"]))
    assert not wrong, wrong


@asserts("nccl_hold", when=lambda role: bool(role["nccl_library"] and role["nccl_hold"]))
def test_hold(host: Any, role: Role) -> None:
    """An ordinary upgrade leaves it alone."""
    wrong = hold_problem(host, packages(host, role))
    assert not wrong, wrong


@asserts("nccl_conf")
def test_conf(host: Any, wanted: str, role: Role) -> None:
    """NCCL reads these settings and no others, or finds no file."""
    path = str(role["nccl_conf_path"])
    text = read(host, path)
    if wanted == "absent":
        assert text is None, f"{path} is there"
        return
    assert text is not None, f"{path} is missing"
    actual, expected = settings(text), _expected(role)
    for name in sorted(actual.keys() | expected.keys()):
        assert name in actual, f"{name} is not set in {path}: it should be {expected[name]}"
        there, should = actual[name], expected.get(name, "unset")
        assert there == should, f"{name} is {there} in {path}, not {should}"


@asserts("nccl_tests", when=lambda role: bool(role["nccl_tests"]))
def test_programs(host: Any, role: Role) -> None:
    """The programs of nccl-tests are built."""
    folder = f"{role['nccl_tests_path']}/build"
    missing = [name for name in PROGRAMS if host.run("test -x %s", f"{folder}/{name}").failed]
    assert not missing, f"{', '.join(missing)} not built in {folder}"


def _expected(role: Role) -> dict[str, str]:
    file = role["nccl_conf_file"]
    if not file:
        return {name: str(value) for name, value in role["nccl_conf_settings"].items()}
    try:
        return settings(Path(file).read_text("utf-8"))
    except OSError as error:
        raise NotMeasuredError(f"{file}: {error.strerror} on this machine") from None
