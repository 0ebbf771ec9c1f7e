"""Runs ansible-core, as a program of its own: it is GPL, and we are not."""

from __future__ import annotations

import json
import locale
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hwcheck.errors import UsageError

PLAIN_OUTPUT = {
    "ANSIBLE_DEBUG": "0",
    "ANSIBLE_VERBOSITY": "0",
    "ANSIBLE_DISPLAY_TRACEBACK": "never",
    "ANSIBLE_DEPRECATION_WARNINGS": "0",
    "ANSIBLE_FORCE_COLOR": "0",
    "ANSIBLE_NOCOLOR": "1",
}
"""What an ansible.cfg or the caller's environment could say otherwise: stdout must be JSON only."""

PLUGIN_FAILED = (
    r"^Failed to parse inventory with '(\w+)' plugin\.\s+<<< caused by >>>\s+(.*?)\s*^Origin:"
)
YAML_SUFFIXES = (".yml", ".yaml")


@dataclass(frozen=True)
class Listing:
    """What ``ansible-inventory --list`` says, and the warnings beside it."""

    groups: Mapping[str, Any]
    warnings: tuple[str, ...]


class AnsibleError(Exception):
    """ansible-inventory refused; the text is its own, in one line."""


def list_inventory(source: str, limit: str | None, extra_vars: Sequence[str] = ()) -> Listing:
    """Read an inventory that ``source`` names. Raises AnsibleError, and UsageError without one."""
    # In one word each: a pattern may begin with a dash.
    words = ["inventory", "--list", f"--inventory={source}"]
    words += [f"--extra-vars={each}" for each in extra_vars]
    done = run([*words, f"--limit={limit}"] if limit is not None else words)
    if done.returncode != 0:
        raise AnsibleError(_error(done.stderr, source))
    try:
        groups = json.loads(done.stdout)
    except (ValueError, RecursionError):
        groups = None
    if not isinstance(groups, dict):
        head = " ".join(done.stdout.split())[:80]
        raise UsageError(f"ansible-inventory printed no JSON: {head!r}; see its ansible.cfg")
    return Listing(groups, tuple(re.findall(r"^\[WARNING\]: (.*)", done.stderr, re.MULTILINE)))


def run(words: list[str], given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``ansible-<first word>``, with ``given`` on stdin. Raises UsageError if it cannot."""
    command = [sys.executable, "-m", "ansible", *words]
    try:
        return subprocess.run(
            command,
            env=os.environ | plain_environment(),
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:  # a list of hosts that is longer than the system's 128 KiB
        raise UsageError(f"cannot run ansible-{words[0]}: {error.strerror}") from None


def plain_environment() -> dict[str, str]:
    """Return the variables that Ansible is run with beside the caller's own."""
    return {**PLAIN_OUTPUT, "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1", **_utf8()}


def _utf8() -> dict[str, str]:
    """Return a locale that Ansible takes, where the current one is not UTF-8 or not installed."""
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, "")
        fits = locale.nl_langinfo(locale.CODESET) == "UTF-8"
    except locale.Error:
        fits = False
    finally:
        locale.setlocale(locale.LC_ALL, before)
    return {} if fits else {"LC_ALL": "C.UTF-8"}


def _error(stderr: str, source: str) -> str:
    """Reduce Ansible's message to one line: the error and where it is.

    Every inventory plugin says why the source is none of its own; the one that it was meant for
    says why it is broken.
    """
    errors = re.findall(r"^\[?ERROR\]?!?:? (.*)", stderr, re.MULTILINE)
    origin = re.search(r"^Origin: (.*:\d+)(?::\d+)?$", stderr, re.MULTILINE)
    causes = re.findall(r"<<< caused by >>>\s+(.*)", stderr)
    by_plugin = dict(re.findall(PLUGIN_FAILED, stderr, re.MULTILINE | re.DOTALL))
    meant = ("yaml", "ini") if source.endswith(YAML_SUFFIXES) else ("ini", "yaml")
    causes = [by_plugin[name] for name in meant if name in by_plugin] or causes
    parts = [*errors[-1:], *causes[:1]] or stderr.strip().splitlines()[-1:] or ["ansible failed"]
    return " ".join(": ".join(parts).split()) + (f" ({origin.group(1)})" if origin else "")
