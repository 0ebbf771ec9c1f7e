"""What ``ansible-inventory`` lists: the hosts that a pattern chooses, with their variables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwcheck.errors import UsageError
from hwcheck.fold import unfold
from hwcheck.inventory import ansible
from hwcheck.inventory.source import YAML_SUFFIXES, Source

BRACKETS = re.compile(r"\[[^\]]*\]")
FOLDED = re.compile(r"\[[0-9]+[-,][0-9,-]*\]")
"""A range as ClusterShell writes it; Ansible's have a colon."""
WARNING = re.compile(r"^\[WARNING\]: (.*)", re.MULTILINE)
PLUGIN_FAILED = (
    r"^Failed to parse inventory with '(\w+)' plugin\.\s+<<< caused by >>>\s+(.*?)\s*^Origin:"
)


@dataclass(frozen=True)
class Listing:
    """The variables of every host as they were written, in inventory order, and warnings."""

    hosts: Mapping[str, Mapping[str, Any]]
    warnings: tuple[str, ...]


def list_hosts(source: Source, limit: str | None = None, extra_vars: Sequence[str] = ()) -> Listing:
    """List the hosts of an inventory that ``limit``, an Ansible pattern, chooses.

    Raises UsageError for a pattern that names no host, for an inventory that Ansible refuses, and
    where no host is left.
    """
    if limit is not None:
        refuse_empty_pattern(limit)
    # In one word each: a pattern may begin with a dash.
    words = ["inventory", "--list", f"--inventory={source.text}"]
    words += [f"--extra-vars={each}" for each in extra_vars]
    words += [] if limit is None else [f"--limit={limit}"]
    done = ansible.run(words)
    if done.returncode != 0:
        source.refuse_broken_files()
        raise UsageError(f"{source.title}: {_ansible_error(done.stderr, source)}")
    groups = _groups(done.stdout)
    names = list(dict.fromkeys(_names(groups, "all")))
    if not names:
        reason = f"no host matches --limit {limit}" if limit else "the inventory names no host"
        see = f"`ansible-inventory -i {source.title} --graph` lists them"
        raise UsageError(f"{source.title}: {reason}; {see}")
    variables = groups["_meta"]["hostvars"]
    hosts = {name: variables.get(name, {}) for name in names}
    return Listing(hosts, tuple(WARNING.findall(done.stderr)))


def unfolded_limit(limit: str | None) -> str | None:
    """Return a pattern with hosts as hwcheck prints them (``node[02-03,07]``) by name.

    Ansible's own ranges have a colon (``webservers[0:2]``) and are left to it. Raises UsageError.
    """
    if limit is None or "~" in limit or not FOLDED.search(limit):  # ~ begins a regular expression
        return limit
    comma = "," if "," in BRACKETS.sub("", limit) else ":"
    parts = re.split(r"[,:\s](?![^\[]*\])", limit)
    try:
        return comma.join(comma.join(_unfolded_part(part)) for part in parts if part)
    except ValueError as error:
        raise UsageError(f"--limit {limit[:80]}: {error}") from None


def _unfolded_part(part: str) -> list[str]:
    if not FOLDED.search(part):
        return [part]
    names = part.lstrip("!&")
    mark = part[: len(part) - len(names)]
    if mark == "&":  # each of them would be intersected with the one before
        raise ValueError(f"{part}: name a group behind &, or hosts without it")
    return [f"{mark}{name}" for name in unfold(names)]


def refuse_empty_pattern(limit: str) -> None:
    """Refuse a pattern that names no host, or has a part that names none. Raises UsageError.

    Ansible drops what it cannot read of a pattern, and takes a pattern with nothing left for every
    host: all of them would be loaded.
    """
    patterns = _lines(limit) if limit.startswith("@") and "," not in limit else [limit]
    parts = [part for pattern in patterns for part in _parts(limit, pattern)]
    if not parts:  # an unset variable in a script must not visit everything
        raise UsageError(f"--limit {limit!r} names no host; leave --limit out to visit all")
    for part in parts:
        if not part.lstrip("!&").removeprefix("~"):
            raise UsageError(f"--limit {limit}: {part!r} names no host; put a pattern behind it")


def _lines(limit: str) -> list[str]:
    path = Path(limit[1:])
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"--limit {limit}: {path}: {reason}") from None


def _parts(limit: str, pattern: str) -> list[str]:
    whole = BRACKETS.sub("x", pattern)  # a colon in n[1:3] parts nothing
    if "[" in whole or "]" in whole:
        raise UsageError(f"--limit {limit}: a bracket has no other; write node[1:3] or node[12]")
    parts = whole.split(",") if "," in whole else re.split(r"[:\s]", whole)
    return [part.strip() for part in parts if part.strip()]


def _groups(stdout: str) -> dict[str, Any]:
    try:
        groups = json.loads(stdout)
    except (ValueError, RecursionError):
        groups = None
    if not isinstance(groups, dict):
        head = " ".join(stdout.split())[:80]
        raise UsageError(f"ansible-inventory printed no JSON: {head!r}; see its ansible.cfg")
    return groups


def _names(groups: Mapping[str, Any], group: str) -> Iterator[str]:
    content = groups.get(group, {})
    yield from content.get("hosts", [])
    for child in content.get("children", []):
        yield from _names(groups, child)


def _ansible_error(stderr: str, source: Source) -> str:
    """Reduce Ansible's message to one line: the error and where it is.

    Every inventory plugin gives the reason why it cannot read the source. The reason that counts is
    that of the plugin for which the file was written.
    """
    errors = re.findall(r"^\[?ERROR\]?!?:? (.*)", stderr, re.MULTILINE)
    origin = re.search(r"^Origin: (.*:\d+)(?::\d+)?$", stderr, re.MULTILINE)
    causes = re.findall(r"<<< caused by >>>\s+(.*)", stderr)
    by_plugin = dict(re.findall(PLUGIN_FAILED, stderr, re.MULTILINE | re.DOTALL))
    plugins = ("yaml", "ini") if source.text.endswith(YAML_SUFFIXES) else ("ini", "yaml")
    causes = [by_plugin[name] for name in plugins if name in by_plugin] or causes
    parts = [*errors[-1:], *causes[:1]] or stderr.strip().splitlines()[-1:] or ["ansible failed"]
    return " ".join(": ".join(parts).split()) + (f" ({origin.group(1)})" if origin else "")
