"""The variables of one inventory host: templated, decrypted, of the kind that is asked for.

``ansible-inventory`` prints variables as they were written: ``{{ }}`` and inline ``!vault`` values
are left to the reader.
"""

from __future__ import annotations

import difflib
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import jinja2
import jinja2.sandbox

from hwcheck.errors import UsageError
from hwcheck.node.connectors import supply_w

TRUE = {"true", "yes", "on", "1", "y", "t"}
FALSE = {"false", "no", "off", "0", "n", "f", ""}
"""Ansible's own words for a boolean."""


class _NotAWordError(jinja2.TemplateError):
    """A number with a fraction or a boolean stands where a word is asked for."""


def _only_words(value: Any) -> Any:
    # YAML and Python drop the last zero of 570.10: what was written is lost by now.
    if isinstance(value, (bool, float)):
        kind = "a boolean" if isinstance(value, bool) else "a number"
        raise _NotAWordError(f"{value} was read as {kind}; write it in quotes")
    return value


def _jinja(**options: Any) -> jinja2.Environment:
    return jinja2.sandbox.SandboxedEnvironment(
        undefined=jinja2.StrictUndefined, autoescape=False, **options
    )


_JINJA, _JINJA_OF_WORDS = _jinja(), _jinja(finalize=_only_words)


class HostVars:
    """The variables of one host. Every reader returns None where none of the names is set."""

    def __init__(self, host: str, raw: Mapping[str, Any], source: str) -> None:
        self.host = host
        self.source = source
        self.raw = raw
        self._context = {key: _wrap(value) for key, value in raw.items()} | {
            "inventory_hostname": host,
            "inventory_hostname_short": host.partition(".")[0],
            "ansible_playbook_python": sys.executable,
        }

    def error(self, key: str, problem: str) -> UsageError:
        """Return the error that names this host and variable."""
        return UsageError(f"{self.source}: {self.host}: {key}: {problem}")

    def text(self, *names: str) -> str | None:
        """Return the first of these variables that is set, as text."""
        for name in names:
            value = self.raw.get(name)
            if value is not None:
                return self._render(name, value, _JINJA)
        return None

    def word(self, name: str) -> str | None:
        """Return text that must reach us as it was written: a version, a name."""
        value = self.raw.get(name)
        try:
            _only_words(value)
            return None if value is None else self._render(name, value, _JINJA_OF_WORDS)
        except _NotAWordError as error:
            raise self.error(name, str(error)) from None

    def number(self, *names: str) -> int | None:
        """Return a whole number."""
        text = self.text(*names)
        if text is None:
            return None
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
            raise self.error(names[0], f"{text!r} is not a whole number")
        return int(text)

    def port(self, *names: str) -> int | None:
        """Return a TCP port, 1 to 65535."""
        number = self.number(*names)
        if number is not None and not 1 <= number <= 65535:
            raise self.error(names[0], f"{number} is not a port from 1 to 65535")
        return number

    def words(self, name: str) -> tuple[str, ...]:
        """Return text split as a shell would split it; empty where it is not set."""
        try:
            return tuple(shlex.split(self.text(name) or ""))
        except ValueError as error:
            raise self.error(name, str(error)) from None

    def flag(self, name: str) -> bool:
        """Return a boolean; false where the variable is not set."""
        text = (self.text(name) or "").lower()
        if text not in TRUE | FALSE:
            raise self.error(name, f"{text!r} is not true or false")
        return text in TRUE

    def _render(self, name: str, value: Any, jinja: jinja2.Environment) -> str:
        text = str(_wrap(value))
        for _ in range(10):  # a template may lead to another
            if "{{" not in text and "{%" not in text:
                return text
            try:
                text = jinja.from_string(text).render(self._context)
            except _NotAWordError:
                raise
            except jinja2.TemplateError as error:
                problem = f"cannot be templated here: {' '.join(str(error).split())}"
                raise self.error(name, problem) from None
        raise self.error(name, "refers to itself")


class _Vaulted:
    """An inline ``!vault`` value, decrypted when it is used and not before."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return _decrypt(self._text)


def _wrap(value: Any) -> Any:
    if isinstance(value, Mapping) and set(value) == {"__ansible_vault"}:
        return _Vaulted(str(value["__ansible_vault"]))
    return value


@cache
def _decrypt(text: str) -> str:
    command = [sys.executable, "-m", "ansible", "vault", "decrypt", "--output=-", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UsageError(
            "an inventory value is encrypted and ansible-vault cannot read it; "
            "set ANSIBLE_VAULT_PASSWORD_FILE"
        )
    return done.stdout


@dataclass(frozen=True)
class Variable:
    """One ``hwcheck_`` variable of the inventory."""

    meaning: str
    parse: Callable[[HostVars, str], Any]


def _count(variables: HostVars, key: str) -> int:
    number = variables.number(key)
    if number is None or not 0 <= number <= 1024:
        raise variables.error(key, f"{number} is not a count of 0 to 1024")
    return number


def _watts(variables: HostVars, key: str) -> float:
    return _figure(variables, key, 10_000, "a power in W")


def _node_watts(variables: HostVars, key: str) -> float:
    return _figure(variables, key, 200_000, "a power in W")


def _share(variables: HostVars, key: str) -> float:
    return _figure(variables, key, 1, "a share above 0, up to 1")


def _figure(variables: HostVars, key: str, most: float, kind: str) -> float:
    text = variables.text(key) or ""
    try:
        figure = float(text)
    except ValueError:
        figure = 0.0
    if not 0 < figure <= most:
        raise variables.error(key, f"{text!r} is not {kind}")
    return figure


def _connectors(variables: HostVars, key: str) -> str:
    text = variables.text(key) or ""
    try:
        supply_w(text)
    except ValueError as error:
        raise variables.error(key, str(error)) from None
    return text


def _word(variables: HostVars, key: str) -> str:
    return variables.word(key) or ""


def _cuda_version(variables: HostVars, key: str) -> str:
    text = variables.word(key) or ""
    if not re.fullmatch(r"\d+\.\d+", text):
        raise variables.error(key, f'{text!r} is not a CUDA version; write it in quotes: "12.8"')
    return text


def _vbios(variables: HostVars, key: str) -> str:
    text = variables.word(key) or ""
    if not re.fullmatch(r"[0-9A-Fa-f]{2}(\.[0-9A-Fa-f]{2}){4}", text):
        raise variables.error(key, f"{text!r} is not a VBIOS version such as 96.00.99.00.01")
    return text.upper()


def _version(variables: HostVars, key: str) -> str:
    text = variables.word(key) or ""
    if not re.fullmatch(r"\d+(\.\d+)+[\w.+-]*", text, re.ASCII):
        raise variables.error(key, f"{text!r} is not a version such as 2.26.2")
    return text


def _path(variables: HostVars, key: str) -> str:
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
    "hwcheck_host_power_w": Variable("power of all but the GPUs, in W", _node_watts),
    "hwcheck_kernel": Variable("Linux release that must run (6.8.0-60-generic)", _word),
    "hwcheck_hypervisor": Variable("hypervisor that the node runs under (KVM), or none", _word),
    "hwcheck_rdma_ports": Variable("RDMA ports that the node must have", _count),
    "hwcheck_torch_version": Variable("torch that must be installed (2.8.0)", _version),
    "hwcheck_nccl_version": Variable("NCCL that torch must come with (2.26.2)", _version),
    "hwcheck_torch_python": Variable("interpreter on the node that has torch", _path),
    "hwcheck_host_root": Variable("folder whose /proc and /sys are read (simulation)", _path),
}
"""Every variable of our own that an inventory may set."""


def expectations(variables: HostVars) -> dict[str, Any]:
    """Return the ``hwcheck_`` variables without their prefix.

    Raises UsageError for one that is not known, with the nearest that is.
    """
    found = {}
    for key in variables.raw:
        if not key.startswith("hwcheck_"):
            continue
        if key not in VARIABLES:
            near = difflib.get_close_matches(key, VARIABLES, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else "known: " + ", ".join(VARIABLES)
            raise variables.error(key, f"unknown variable; {hint}")
        found[key.removeprefix("hwcheck_")] = VARIABLES[key].parse(variables, key)
    return found
