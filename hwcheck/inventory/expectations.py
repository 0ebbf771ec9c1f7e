"""The ``hwcheck_`` variables of a host: settings (how it is measured) and expectations of it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hwcheck.errors import Complaints
from hwcheck.inventory.limits import LIMITS
from hwcheck.inventory.parts import parts
from hwcheck.inventory.variables import FALSE, TRUE, Variables
from hwcheck.inventory.waivers import WAIVERS

TEXT_CHARACTERS = 500
"""As many as the run folder takes of one value."""
SLOT_W = 75.0
CONNECTORS_W: dict[str, float] = {
    "6-pin": 75.0,
    "8-pin": 150.0,
    "12-pin": 600.0,
    "16-pin": 600.0,
    "12vhpwr": 600.0,
    "12v-2x6": 600.0,
}
"""What each may supply, in W; the sources are with the limit of the check ``power_budget``."""

SCHEDULERS = ("slurm", "kubernetes")
RUNTIMES = ("docker", "podman", "containerd", "enroot", "apptainer")


@dataclass(frozen=True)
class Variable:
    """One ``hwcheck_`` variable; ``parse`` returns its value, or raises UsageError."""

    meaning: str
    parse: Callable[[Variables, str], Any]


@dataclass(frozen=True)
class HostSettings:
    """How a host is to be measured; a text is empty where the inventory leaves it to the node.

    ``torch_python`` is the interpreter that has torch, ``nccl_tests_dir`` the folder with
    all_reduce_perf, ``interface`` the network interface toward the other hosts, ``host_root`` the
    folder whose /proc and /sys are read. ``scheduler`` is what sends jobs to it,
    ``scheduler_node`` its name there where no other name of it is that. ``rack`` and
    ``power_feed`` are where the host stands and what it is fed by.
    """

    torch_python: str = ""
    nccl_tests_dir: str = ""
    interface: str = ""
    host_root: str = "/"
    scheduler: str = ""
    scheduler_node: str = ""
    rack: str = ""
    power_feed: str = ""


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
    """Return what the slot and the power connectors of one board supply together, in W.

    They are names or figures in W with commas between (``8-pin, 8-pin``, ``450 W``), or ``none``.
    """
    text = variables.text(key) or ""
    supply_w = SLOT_W
    for word in [] if text.strip().lower() == "none" else text.split(","):
        name = word.strip().lower()
        figure = name[:-1].strip() if name.endswith("w") else ""
        if name in CONNECTORS_W:
            supply_w += CONNECTORS_W[name]
        elif figure.isdigit() and figure.isascii() and 0 < int(figure) <= 1000:
            supply_w += float(figure)
        else:
            names = ", ".join(CONNECTORS_W)
            problem = f"{word.strip()!r} is not none, {names} or a figure such as 450 W"
            raise variables.error(key, problem)
    return supply_w


def _word(variables: Variables, key: str) -> str:
    text = variables.word(key) or ""
    if not text.strip():
        raise variables.error(key, "is empty; leave it out where nothing is declared")
    return text


def _one_of(*words: str) -> Callable[[Variables, str], str]:
    """Return the reader of a variable that is one of these words."""
    wanted = f"none of {', '.join(words)}" if len(words) > 2 else f"neither {' nor '.join(words)}"

    def read(variables: Variables, key: str) -> str:
        text = variables.word(key) or ""
        if text not in words:
            raise variables.error(key, f"{text!r} is {wanted}")
        return text

    return read


def _cuda_version(variables: Variables, key: str) -> str:
    text = variables.word(key) or ""
    if not re.fullmatch(r"\d+\.\d+", text):
        raise variables.error(key, f'{text!r} is not a CUDA version; write it in quotes: "12.8"')
    return text


def _compute_mode(variables: Variables, key: str) -> str:
    text = variables.word(key) or ""
    if text not in ("default", "exclusive_process", "prohibited"):
        raise variables.error(key, f"{text!r} is not default, exclusive_process or prohibited")
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


def _golden(variables: Variables, key: str) -> bool | str:
    """Return whether this host is one, or the file beside the inventory that has golden hosts."""
    text = variables.text(key) or ""
    if text.lower() in TRUE | FALSE:
        return variables.flag(key)
    file = (variables.folder / text).absolute()
    if not file.is_file():
        raise variables.error(key, f"{text!r} is neither true nor false nor a file: {file}")
    return str(file)


def _interface(variables: Variables, key: str) -> str:
    text = variables.word(key) or ""
    if not re.fullmatch(r"[A-Za-z0-9_][\w.:@-]{0,14}", text, re.ASCII):
        raise variables.error(key, f"{text!r} is not a network interface such as eth0 or bond0.100")
    return text


def _node_name(variables: Variables, key: str) -> str:
    text = variables.word(key) or ""
    if not re.fullmatch(r"[A-Za-z0-9_][\w.-]{0,254}", text, re.ASCII):
        raise variables.error(key, f"{text!r} is not a node's name such as gpu-01")
    return text


def _path(variables: Variables, key: str) -> str:
    text = variables.text(key) or ""
    if not text.startswith("/"):
        raise variables.error(key, f"{text!r} is not an absolute path on the node")
    return text


SETTINGS: Mapping[str, Variable] = {
    "hwcheck_torch_python": Variable("interpreter on the node that has torch", _path),
    "hwcheck_nccl_tests_dir": Variable(
        "folder on the node that has all_reduce_perf, for validate --engine nccl-tests", _path
    ),
    "hwcheck_interface": Variable(
        "network interface that leads to the other hosts (eth0); unless set, that of the route",
        _interface,
    ),
    "hwcheck_host_root": Variable("folder whose /proc and /sys are read (simulation)", _path),
    "hwcheck_scheduler": Variable(
        "what sends jobs to the node: slurm or kubernetes", _one_of(*SCHEDULERS)
    ),
    "hwcheck_scheduler_node": Variable(
        "the node's name in the scheduler; unless set, host name, short name or address",
        _node_name,
    ),
    "hwcheck_rack": Variable(
        "rack that the host stands in: the report's map; a sweep loads hosts of several", _word
    ),
    "hwcheck_power_feed": Variable(
        "power feed of the host (A3); a sweep loads hosts on several", _word
    ),
}
"""How a host is measured: the fields of HostSettings."""

EXPECTATIONS: Mapping[str, Variable] = {
    "hwcheck_gpus": Variable("GPUs that the node must have; 0 means none", _count),
    "hwcheck_driver_version": Variable("NVIDIA driver that must be loaded (570.86.15)", _word),
    "hwcheck_cuda_driver_version": Variable(
        "newest CUDA version that the driver must run (12.8)", _cuda_version
    ),
    "hwcheck_gpu_model": Variable("model that every GPU must be (NVIDIA H200)", _word),
    "hwcheck_vbios": Variable("VBIOS that every GPU must have (96.00.99.00.01)", _vbios),
    "hwcheck_compute_mode": Variable(
        "compute mode that every GPU must be in (exclusive_process)", _compute_mode
    ),
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
    "hwcheck_nvlink_domain": Variable(
        "name of the NVLink domain (the NVL72 rack, or the part of it) that the node is in", _word
    ),
    "hwcheck_imex": Variable(
        "what starts NVIDIA IMEX: its service, or each job (per_job)", _one_of("service", "per_job")
    ),
    "hwcheck_kernel": Variable("Linux release that must run (6.8.0-60-generic)", _word),
    "hwcheck_hypervisor": Variable("hypervisor that the node runs under (KVM), or none", _word),
    "hwcheck_rdma_ports": Variable("RDMA ports that the node must have", _count),
    "hwcheck_nvme": Variable("NVMe drives that the node must have on its PCIe bus", _count),
    "hwcheck_parts": Variable(
        "parts that were ordered: a list, or a CSV file beside the inventory", parts
    ),
    "hwcheck_container": Variable("runtime of the jobs' containers (docker)", _one_of(*RUNTIMES)),
    "hwcheck_torch_version": Variable("torch that must be installed (2.8.0)", _version),
    "hwcheck_nccl_version": Variable("NCCL that torch must come with (2.26.2)", _version),
    "hwcheck_version_floors": Variable(
        "what a driver, firmware or tool below its dated floor gives: warn or fail",
        _one_of("warn", "fail"),
    ),
    "hwcheck_golden": Variable(
        "true: this host is what hosts like it are held against; or the record of an acceptance",
        _golden,
    ),
}
"""What is held against measurements, kept with the run."""

NEEDS = dict.fromkeys(
    ("hwcheck_psu_derate", "hwcheck_power_budget_w", "hwcheck_host_power_w"), "hwcheck_psu_watts"
)
"""Expectations that mean nothing without another."""

SWEEP = "hwcheck_sweep"
"""Of the whole inventory: the levels of its sweeps (``hwcheck.fleet.sweep.levels``)."""

VARIABLES = (*SETTINGS, *EXPECTATIONS, LIMITS, WAIVERS, SWEEP)
"""Every ``hwcheck_`` variable that an inventory may set; another kind gets a table of its own."""

OF_A_ROLE = "hwcheck_controller_"
"""How the variables of the role of that name begin, which are its own to check."""


def refuse_unknown(variables: Variables) -> None:
    """Refuse ``hwcheck_`` variables that are in no table; the UsageError names the nearest."""
    complaints = Complaints()
    for key in variables.raw:
        of_a_role = key.startswith(OF_A_ROLE)
        if key.startswith("hwcheck_") and key not in VARIABLES and not of_a_role:
            near = difflib.get_close_matches(key, VARIABLES, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else "known: " + ", ".join(VARIABLES)
            complaints.errors.append(variables.error(key, f"unknown variable; {hint}"))
    complaints.refuse()


def settings(variables: Variables) -> HostSettings:
    """Return how the host is to be measured. Raises UsageError for a value of the wrong kind."""
    return HostSettings(**_values(variables, SETTINGS))


def expectations(variables: Variables) -> dict[str, Any]:
    """Return what the host is held against, by name without ``hwcheck_``.

    The power to plan with is worked out here, so that no node is held against its own figure.
    Raises UsageError for a value of the wrong kind, and for one that means nothing without another.
    """
    expect: dict[str, Any] = {}
    complaints = Complaints()
    with complaints.noting():
        expect = _values(variables, EXPECTATIONS)
    for key, needed in NEEDS.items():
        if variables.raw.get(key) is not None and variables.raw.get(needed) is None:
            problem = f"means nothing without {needed}; declare that too"
            complaints.errors.append(variables.error(key, problem))
    complaints.refuse()
    if "psu_derate" in expect:
        expect.setdefault("power_budget_w", expect["psu_watts"] * expect["psu_derate"])
    return expect


def _values(variables: Variables, table: Mapping[str, Variable]) -> dict[str, Any]:
    """Return the values of one table's variables by name; one that is null is not declared."""
    values = {}
    complaints = Complaints()
    for key, variable in table.items():
        if variables.raw.get(key) is not None:
            with complaints.noting():
                values[_name(key)] = _value(variables, key, variable)
    complaints.refuse()
    return values


def _value(variables: Variables, key: str, variable: Variable) -> Any:
    value = variable.parse(variables, key)
    if isinstance(value, str) and len(value) > TEXT_CHARACTERS:
        problem = f"{len(value)} characters; at most {TEXT_CHARACTERS}"
        raise variables.error(key, problem)
    return value


def _name(key: str) -> str:
    return key.removeprefix("hwcheck_")
