"""What an inventory may declare of a host: the ``hwcheck_`` variables."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hwcheck.inventory.power_connectors import supply_w
from hwcheck.inventory.variables import Variables

TEXT_CHARACTERS = 500
"""As many as the run folder takes of one value."""
NEEDS = dict.fromkeys(
    ("hwcheck_psu_derate", "hwcheck_power_budget_w", "hwcheck_host_power_w"), "hwcheck_psu_watts"
)
"""Variables that mean nothing without another."""


@dataclass(frozen=True)
class Variable:
    """One ``hwcheck_`` variable of the inventory."""

    meaning: str
    parse: Callable[[Variables, str], Any]


def _count(variables: Variables, key: str) -> int:
    number = variables.number(key)
    if number is None or not 0 <= number <= 1024:
        raise variables.error(key, f"{number} is not a count of 0 to 1024")
    return number


def _watts(variables: Variables, key: str) -> float:
    return _figure(variables, key, 10_000, "a power in W")


def _node_watts(variables: Variables, key: str) -> float:
    return _figure(variables, key, 200_000, "a power in W")


def _share(variables: Variables, key: str) -> float:
    return _figure(variables, key, 1, "a share above 0, up to 1")


def _figure(variables: Variables, key: str, most: float, kind: str) -> float:
    text = variables.text(key) or ""
    try:
        figure = float(text)
    except ValueError:
        figure = 0.0
    if not 0 < figure <= most:
        raise variables.error(key, f"{text!r} is not {kind}")
    return figure


def _connectors(variables: Variables, key: str) -> float:
    try:
        return supply_w(variables.text(key) or "")
    except ValueError as error:
        raise variables.error(key, str(error)) from None


def _word(variables: Variables, key: str) -> str:
    text = variables.word(key) or ""
    if not text.strip():
        raise variables.error(key, "is empty; leave it out where nothing is declared")
    return text


def _cuda_version(variables: Variables, key: str) -> str:
    text = variables.word(key) or ""
    if not re.fullmatch(r"\d+\.\d+", text):
        raise variables.error(key, f'{text!r} is not a CUDA version; write it in quotes: "12.8"')
    return text


def _vbios(variables: Variables, key: str) -> str:
    text = variables.word(key) or ""
    if not re.fullmatch(r"[0-9A-Fa-f]{2}(\.[0-9A-Fa-f]{2}){4}", text):
        raise variables.error(key, f"{text!r} is not a VBIOS version such as 96.00.99.00.01")
    return text.upper()


def _version(variables: Variables, key: str) -> str:
    text = variables.word(key) or ""
    if not re.fullmatch(r"\d+(\.\d+)+[\w.+-]*", text, re.ASCII):
        raise variables.error(key, f"{text!r} is not a version such as 2.26.2")
    return text


def _truth(variables: Variables, key: str) -> bool:
    return variables.flag(key)


def _interface(variables: Variables, key: str) -> str:
    text = variables.word(key) or ""
    if not re.fullmatch(r"[A-Za-z0-9_][\w.:@-]{0,14}", text, re.ASCII):
        raise variables.error(key, f"{text!r} is not a network interface such as eth0 or bond0.100")
    return text


def _path(variables: Variables, key: str) -> str:
    text = variables.text(key) or ""
    if not text.startswith("/"):
        raise variables.error(key, f"{text!r} is not an absolute path on the node")
    return text


VARIABLES: Mapping[str, Variable] = {
    "hwcheck_gpus": Variable("GPUs that the node must have; 0 means none", _count),
    "hwcheck_driver_version": Variable("NVIDIA driver that must be loaded (570.86.15)", _word),
    "hwcheck_cuda_driver_version": Variable(
        "newest CUDA version that the driver must run (12.8)", _cuda_version
    ),
    "hwcheck_gpu_model": Variable("model that every GPU must be (NVIDIA H200)", _word),
    "hwcheck_vbios": Variable("VBIOS that every GPU must have (96.00.99.00.01)", _vbios),
    "hwcheck_power_limit_w": Variable("power limit that every GPU must have, in W", _watts),
    "hwcheck_gpu_power_connectors": Variable(
        "power connectors of every GPU, each on a cable of its own (8-pin, 8-pin), or none",
        _connectors,
    ),
    "hwcheck_psu_watts": Variable("what the power supplies deliver together, in W", _node_watts),
    "hwcheck_psu_derate": Variable("share of hwcheck_psu_watts to plan with (0.9)", _share),
    "hwcheck_power_budget_w": Variable(
        "power to plan with, in W; unless set, hwcheck_psu_watts x hwcheck_psu_derate", _node_watts
    ),
    "hwcheck_host_power_w": Variable("power of all but the GPUs, in W", _node_watts),
    "hwcheck_kernel": Variable("Linux release that must run (6.8.0-60-generic)", _word),
    "hwcheck_hypervisor": Variable("hypervisor that the node runs under (KVM), or none", _word),
    "hwcheck_rdma_ports": Variable("RDMA ports that the node must have", _count),
    "hwcheck_torch_version": Variable("torch that must be installed (2.8.0)", _version),
    "hwcheck_nccl_version": Variable("NCCL that torch must come with (2.26.2)", _version),
    "hwcheck_torch_python": Variable("interpreter on the node that has torch", _path),
    "hwcheck_nccl_tests_dir": Variable(
        "folder on the node that has all_reduce_perf, for validate --engine nccl-tests", _path
    ),
    "hwcheck_interface": Variable(
        "network interface that leads to the other hosts (eth0); unless set, that of the route",
        _interface,
    ),
    "hwcheck_golden": Variable("this host is what hosts like it are held against", _truth),
    "hwcheck_host_root": Variable("folder whose /proc and /sys are read (simulation)", _path),
}
"""Every variable of our own that an inventory may set."""


def expectations(variables: Variables) -> dict[str, Any]:
    """Return the ``hwcheck_`` variables without their prefix; one that is null is not declared.

    What the node is planned with is worked out here, so that no node is held against its own
    figure. Raises UsageError for one that is not known, with the nearest that is, and for one that
    means nothing without another.
    """
    found = {}
    for key, value in variables.raw.items():
        if not key.startswith("hwcheck_"):
            continue
        if key not in VARIABLES:
            near = difflib.get_close_matches(key, VARIABLES, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else "known: " + ", ".join(VARIABLES)
            raise variables.error(key, f"unknown variable; {hint}")
        if value is not None:
            found[key] = _bounded(variables, key)
    for key, needed in NEEDS.items():
        if key in found and needed not in found:
            raise variables.error(key, f"means nothing without {needed}; declare that too")
    if "hwcheck_psu_derate" in found:
        budget_w = found["hwcheck_psu_watts"] * found["hwcheck_psu_derate"]
        found.setdefault("hwcheck_power_budget_w", budget_w)
    return {key.removeprefix("hwcheck_"): value for key, value in found.items()}


def _bounded(variables: Variables, key: str) -> Any:
    value = VARIABLES[key].parse(variables, key)
    if isinstance(value, str) and len(value) > TEXT_CHARACTERS:
        problem = f"{len(value)} characters; at most {TEXT_CHARACTERS}"
        raise variables.error(key, problem)
    return value
