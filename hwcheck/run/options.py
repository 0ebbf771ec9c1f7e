"""What a run is asked for, whole and typed: from a command's words, into the plan and run.json."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import yaml

from hwcheck.contract.wire import LOAD_DTYPES, Timing
from hwcheck.run.multi_host.orders import MultiHostOptions
from hwcheck.run.training.options import TrainingOptions
from hwcheck.text import length

ENGINES = ("torch", "nccl-tests")
"""What times the collectives."""
LAUNCHERS = ("ssh", "slurm")
"""What reaches the hosts."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
"""The name of a variable, as Ansible has it."""
ALWAYS_SAID = ("profile", "duration_s", "load_dtype", "engine")
"""What ``in_words`` says of every run."""
SAID_BESIDE = (
    *("checks", "inventory", "limit", "variables", "forks", "timeout_s"),
    *("sweep", "acceptance"),
)
"""What ``in_words`` leaves out: a plan says it, as hosts, checks and times."""


@dataclass(frozen=True)
class Options:
    """All that a run is asked for; ``run.json`` has it whole, so it holds no secret.

    ``checks`` are those of each node by itself (``gate_proof`` among them is ``--prove``),
    ``scopes`` what the hosts do together. ``timing`` is how collectives are timed on a node,
    ``over_hosts`` how over several, ``training`` asks for a training benchmark in place of both.
    ``duration_s`` is how long the load lasts, ``timeout_s`` how long a visit may; None: as the
    profile says, which ``make_plan`` fills in. So it does with ``inventory``, ``limit`` and
    ``variables``, the names that ``--extra-vars`` gave a value, and with ``site``, the files of the
    site's folder, each with its SHA-256. ``sweep`` has the ``id`` and the ``level`` of the sweep
    that the run is part of, ``acceptance`` likewise the ``id`` and the ``stage``.
    """

    checks: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    profile: str = "quick"
    duration_s: float | None = None
    load_dtype: str = LOAD_DTYPES[0]
    engine: str = ENGINES[0]
    timing: Timing = field(default_factory=Timing)
    over_hosts: MultiHostOptions = field(default_factory=MultiHostOptions)
    training: TrainingOptions | None = None
    force: bool = False
    forks: int = 32
    timeout_s: float | None = None
    launcher: str = LAUNCHERS[0]
    accept_new_host_keys: bool = False
    require_coverage_percent: float | None = None
    inventory: str = ""
    limit: str = ""
    variables: tuple[str, ...] = ()
    site: Mapping[str, str] = field(default_factory=dict)
    sweep: Mapping[str, str] = field(default_factory=dict)
    acceptance: Mapping[str, str] = field(default_factory=dict)

    def in_words(self) -> list[str]:
        """Return the options that are not the usual ones, and those of ``ALWAYS_SAID``.

        Each is ``name value``; what is ``SAID_BESIDE`` is not among them.
        """
        return [text for name, text in _words(self, Options()) if name not in SAID_BESIDE]


def _words(options: Any, usual: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    for option in fields(options):
        name, value = f"{prefix}{option.name}", getattr(options, option.name)
        default = getattr(usual, option.name)
        if is_dataclass(value) and is_dataclass(default):
            yield from _words(value, default, f"{name}.")
        elif value != default or (name in ALWAYS_SAID and value is not None):
            yield name, f"{name.removesuffix('_s')} {_word(name, value)}"


def _word(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_s"):
        return length(value)
    if isinstance(value, Mapping):
        return ", ".join(map(str, value))
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def variable_names(extra_vars: Iterable[str]) -> tuple[str, ...]:
    """Return the names that ``--extra-vars`` give a value, and the files as ``@FILE``.

    The values stay out: any may be a secret.
    """
    names: list[str] = []
    for text in extra_vars:
        names += [text] if text.startswith("@") else filter(NAME.fullmatch, _keys(text))
    return tuple(names)


def _keys(text: str) -> list[str]:
    """Return the keys of ``key=value`` words, or of a mapping; Ansible has taken it before."""
    try:
        if text.startswith(("{", "[")):
            return [key for key in yaml.safe_load(text) if isinstance(key, str)]
        return [word.partition("=")[0] for word in shlex.split(text) if "=" in word]
    except (yaml.YAMLError, ValueError, TypeError):  # a vaulted value; a quote that Ansible bears
        return []
