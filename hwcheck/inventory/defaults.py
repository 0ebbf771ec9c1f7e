"""What holds for a host of which the inventory says nothing: the command line, then ansible.cfg.

As with Ansible a variable of the inventory comes before a flag of the command line, and that before
``ansible.cfg`` and the environment (``ANSIBLE_REMOTE_USER``).
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hwcheck.errors import UsageError
from hwcheck.inventory import ansible

FLAGS = "the command line"

SETTINGS = {
    "DEFAULT_REMOTE_USER": "ansible_user",
    "DEFAULT_REMOTE_PORT": "ansible_port",
    "DEFAULT_PRIVATE_KEY_FILE": "ansible_ssh_private_key_file",
    "DEFAULT_TRANSPORT": "ansible_connection",
    "INTERPRETER_PYTHON": "ansible_python_interpreter",
    "DEFAULT_BECOME": "ansible_become",
    "DEFAULT_BECOME_METHOD": "ansible_become_method",
    "DEFAULT_BECOME_USER": "ansible_become_user",
    "DEFAULT_BECOME_EXE": "ansible_become_exe",
    "DEFAULT_BECOME_FLAGS": "ansible_become_flags",
}
"""Settings of Ansible that are taken, each with the variable of a host that comes before it."""
SSH_SETTINGS = {
    "ssh_args": "ansible_ssh_args",
    "ssh_common_args": "ansible_ssh_common_args",
    "ssh_extra_args": "ansible_ssh_extra_args",
    "ssh_executable": "ansible_ssh_executable",
}
"""The same of its connection plugin ``ssh``."""
ALIASES = (
    {"ansible_user", "ansible_ssh_user"},
    {"ansible_port", "ansible_ssh_port"},
    {"ansible_ssh_private_key_file", "ansible_private_key_file"},
    {"ansible_password", "ansible_ssh_pass", "ansible_ssh_password"},
    {"ansible_become_user", "ansible_sudo_user"},
    {"ansible_become_exe", "ansible_sudo_exe"},
    {"ansible_become_flags", "ansible_sudo_flags"},
    {"ansible_become_password", "ansible_become_pass", "ansible_sudo_pass"},
)
"""Variables that are one: where the inventory sets any of them, no default counts."""
INSTEAD = {
    "HOST_KEY_CHECKING": "host keys are verified; --accept-new-host-keys takes those of hosts that "
    "were never met",
    "DEFAULT_ASK_PASS": "say -k",
    "DEFAULT_BECOME_ASK_PASS": "say -K",
}
"""Settings of Ansible that are not taken, with what to do instead."""
FILES = ("ansible.cfg", "~/.ansible.cfg", "/etc/ansible/ansible.cfg")
"""Where Ansible looks for its configuration unless ANSIBLE_CONFIG names it."""
THAT_COUNT = re.compile(
    "inventory|remote_(?:user|port)|private_key_file|transport|python|become|ask_pass"
    "|host_key_checking|ssh_",
    re.IGNORECASE,
)
"""In the name of each setting that is read here: a file without any is not worth a question."""
UNVERIFIED = re.compile(
    r"(?:stricthostkeychecking[\s=]+\"?(?:no|off)|userknownhostsfile[\s=]+\"?/dev/null)\"?\Z",
    re.IGNORECASE,
)
"""Options of ssh under which no host key is verified."""


@dataclass(frozen=True)
class ConnectionFlags:
    """What ``-u -k -b --become-user -K`` say of every host; empty and None say nothing."""

    user: str = ""
    password: str | None = field(default=None, repr=False)
    become: bool = False
    become_user: str = ""
    become_password: str | None = field(default=None, repr=False)

    def variables(self) -> Iterator[tuple[str, Any]]:
        """Yield what they say as variables of a host."""
        by_name = {
            "ansible_user": self.user or None,
            "ansible_password": self.password,
            "ansible_become": self.become or None,
            "ansible_become_user": self.become_user or None,
            "ansible_become_password": self.become_password,
        }
        yield from ((name, value) for name, value in by_name.items() if value is not None)


NO_FLAGS = ConnectionFlags()


@dataclass(frozen=True)
class Defaults:
    """Variables that count where a host has none of its own, and where each comes from.

    ``inventory`` is the one that ``ansible.cfg`` names, empty where it names none; ``warnings`` say
    what of it is not taken.
    """

    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    origins: Mapping[str, str] = field(default_factory=dict)
    inventory: str = ""
    warnings: tuple[str, ...] = ()

    def under(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return those that count for a host with these variables."""
        names = set(variables)
        taken = names.union(*(group for group in ALIASES if group & names))
        return {name: value for name, value in self.values.items() if name not in taken}


def read_defaults(flags: ConnectionFlags) -> Defaults:
    """Ask Ansible for its configuration, where there is any. Raises UsageError."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    inventory, warnings = "", []
    for name, value, origin in _configured() if _may_count() else ():
        if name in INSTEAD and value is not (name != "HOST_KEY_CHECKING"):
            continue
        if name in INSTEAD:
            warnings.append(f"{origin}: {name.lower()} is not taken: {INSTEAD[name]}")
        elif name == "DEFAULT_HOST_LIST":
            inventory = _one_inventory(value, origin)
        elif name in SSH_SETTINGS:
            text, dropped = _verified(str(value), origin)
            values[SSH_SETTINGS[name]], origins[SSH_SETTINGS[name]] = text, origin
            instead = INSTEAD["HOST_KEY_CHECKING"]
            warnings += [f"{origin}: {name}: {each} is not taken: {instead}" for each in dropped]
        elif name in SETTINGS:
            values[SETTINGS[name]], origins[SETTINGS[name]] = value, origin
    for name, value in flags.variables():
        values[name], origins[name] = value, FLAGS
    # Texts are meant as they are: a password may have braces.
    plain = {
        name: {"__ansible_unsafe": value} if isinstance(value, str) else value
        for name, value in values.items()
    }
    return Defaults(plain, origins, inventory, tuple(warnings))


def _may_count() -> bool:
    """Whether Ansible is configured in anything that is read here."""
    if any(name.startswith("ANSIBLE_") and THAT_COUNT.search(name) for name in os.environ):
        return True
    named = os.environ.get("ANSIBLE_CONFIG")
    for file in [Path(named), Path(named, "ansible.cfg")] if named else map(Path, FILES):
        try:
            if THAT_COUNT.search(file.expanduser().read_text("utf-8", "replace")):
                return True
        except OSError:  # not there, or not for us: Ansible does not read it either
            continue
    return False


def _configured() -> Iterator[tuple[str, Any, str]]:
    """Yield the settings that are not Ansible's own defaults: name, value and origin."""
    done = ansible.run(["config", "dump", "--only-changed", "--type=all", "--format=json"])
    try:
        entries = json.loads(done.stdout) if done.returncode == 0 else None
    except (ValueError, RecursionError):
        entries = None
    if not isinstance(entries, list):
        problem = (done.stderr.strip().splitlines() or ["it printed no JSON"])[-1]
        raise UsageError(f"ansible-config: {' '.join(problem.split())[:300]}; see ansible.cfg")
    for entry in entries:
        of_ssh = [each["ssh"] for each in entry.get("CONNECTION_PLUGINS", ()) if "ssh" in each]
        for setting in [entry] if "name" in entry else [each for one in of_ssh for each in one]:
            yield setting["name"], setting["value"], str(setting["origin"]).removeprefix("env: ")


def _one_inventory(value: Any, origin: str) -> str:
    names = [str(each) for each in value] if isinstance(value, list) else [str(value)]
    if len(names) != 1:
        raise UsageError(f"{origin}: it names {len(names)} inventories; name one with --hosts")
    return names[0]


def _verified(text: str, origin: str) -> tuple[str, list[str]]:
    """Return arguments of ssh without those under which no host key is verified, and these."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{origin}: {text[:80]}: {error}") from None
    kept: list[str] = []
    dropped: list[str] = []
    while words:
        word = words.pop(0)
        option = words.pop(0) if word == "-o" and words else word.removeprefix("-o")
        if word.startswith("-o") and UNVERIFIED.match(option.strip()):
            dropped.append(option)
        else:
            kept += [word, option] if word == "-o" else [word]
    return shlex.join(kept), dropped
