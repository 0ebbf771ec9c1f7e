"""The variables of roles for each host: their defaults under what the inventory says.

Ansible itself templates them and holds them against the roles' ``argument_specs``, in a playbook of
no role's tasks. So whatever Ansible takes is taken, and it is known before anything is changed. It
takes a second to start, so it is not asked about values that leave it nothing to decide.
"""

from __future__ import annotations

import base64
import json
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from hwcheck import shipped
from hwcheck.errors import UsageError
from hwcheck.inventory import ansible
from hwcheck.inventory.guard import Lifeline
from hwcheck.inventory.inventory import Cluster, Host
from hwcheck.inventory.variables import TRUE
from hwcheck.provision.request import reaching, roles_path
from hwcheck.text import line

ROLE_TAG = "hwcheck_role"
MARK = "@hwcheck"
ALL = ""
"""Stands for every variable where Ansible does not say which one it could not template."""
ENVIRONMENT = {
    "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
    "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
    "ANSIBLE_DISPLAY_OK_HOSTS": "1",
    "ANSIBLE_STRATEGY": "linear",
    "ANSIBLE_PRIVATE_ROLE_VARS": "0",
    "ANSIBLE_HOST_KEY_CHECKING": "1",
    # Values may be secrets: nothing else that the caller has configured gets to see them.
    "ANSIBLE_CALLBACKS_ENABLED": "ansible.builtin.default",
    "ANSIBLE_LOG_PATH": "/dev/null",
}
"""Where an ansible.cfg has something else, the answers would not come, or go elsewhere too."""

_ANSWER = re.compile(rf"{MARK} ([A-Za-z0-9+/=]+)")
_FACT = re.compile(r"\bansible_\w+")
_TEMPLATE = re.compile(r"\{[{%#]")
_BEYOND_US = re.compile(rf"{_TEMPLATE.pattern}|__ansible_")
"""A template, or what is encrypted or meant as it is (``__ansible_vault``)."""
_TYPES = {
    str: ("str", "path"),
    bool: ("bool",),
    int: ("int",),
    list: ("list",),
    dict: ("dict",),
}
"""What Ansible calls the types of Python."""
_RULES = {"type", "elements", "choices", "options", "required", "default"}
"""What a specification may say for a value to be held against it here."""
_PROSE = re.compile(
    r"^.*(?:resolving value for '\w+': |undefined variable\.*:? +|Task failed: )", re.DOTALL
)
"""What Ansible says of the task before it comes to the template."""


@dataclass(frozen=True)
class RoleVars:
    """The variables of roles for one host, by name, each of the type that its role says.

    ``wrong`` says of a variable why its role's ``argument_specs`` refuse it, ``unresolved`` why its
    template came to nothing; such a variable is not among ``values``. ``no_facts`` is why the host
    told no facts, where a template may want them.
    """

    values: Mapping[str, Any]
    wrong: Mapping[str, str] = field(default_factory=dict)
    unresolved: Mapping[str, str] = field(default_factory=dict)
    no_facts: str = ""

    def under(self, play_vars: Mapping[str, Any]) -> RoleVars:
        """Return these variables under those that the play itself sets."""
        wrong = {name: why for name, why in self.wrong.items() if name not in play_vars}
        unresolved = {name: why for name, why in self.unresolved.items() if name not in play_vars}
        return RoleVars({**self.values, **play_vars}, wrong, unresolved, self.no_facts)

    def problem(self, role: str) -> str:
        """Return what is wrong with a variable of a role; empty where nothing is."""
        problems = {**self.unresolved, **self.wrong}
        for name in (ALL, *defaults(role)):
            if name in problems:
                facts = f"; no facts: {self.no_facts}" if self.no_facts else ""
                return (f"{name}: " if name else "") + problems[name] + facts
        return ""


@cache
def defaults(role: str) -> Mapping[str, Any]:
    """Return a role's defaults, as ``roles/<role>/defaults/main.yml`` has them.

    Raises UsageError where hwcheck brings no such role or the file is broken.
    """
    return _read(f"roles/{role}/defaults/main.yml")


@cache
def options(role: str) -> Mapping[str, Any]:
    """Return the options of a role's ``argument_specs``: type, choices and elements by variable.

    Raises UsageError as ``defaults`` does.
    """
    spec = _read(f"roles/{role}/meta/argument_specs.yml")
    main = (spec.get("argument_specs") or {}).get("main") or {}
    variables = _without_prose(main.get("options") or {})
    assert isinstance(variables, dict)
    return variables


def read_role_vars(
    cluster: Cluster, roles: Sequence[str], forks: int, *, accept_new_host_keys: bool = False
) -> dict[str, RoleVars]:
    """Return the variables of these roles for every host of a cluster, by host.

    Ansible is asked only about variables of which a host has a value that is not plainly right, and
    of hosts whose values are the same and have no templates, about the first. A host is connected
    to only where a template may want its facts. Raises UsageError where ansible-playbook cannot be
    run.
    """
    usual = {name: value for role in roles for name, value in defaults(role).items()}
    specs = {name: spec for role in roles for name, spec in options(role).items()}
    names = [name for name in usual if not _is_settled(name, specs[name], cluster.hosts)]
    settled = {
        host.name: {
            name: value if name in names else host.variables.get(name, value)
            for name, value in usual.items()  # none of them is a template
        }
        for host in cluster.hosts
    }
    if not names:
        return {name: RoleVars(values) for name, values in settled.items()}
    asked = _asked(cluster.hosts, names)
    play = _play(list(dict.fromkeys(asked.values())), roles, names, specs)
    if _wants_facts(cluster.hosts):
        play["tasks"].insert(0, _FACTS)
    words = ["playbook", f"--inventory={cluster.source}", f"--forks={forks}"]
    words += [f"--skip-tags={ROLE_TAG}"]
    words += reaching(cluster, accept_new_host_keys=accept_new_host_keys)
    passwords = {
        "--connection-password-file": cluster.flags.password,
        "--become-password-file": cluster.flags.become_password,
    }
    with tempfile.TemporaryDirectory(prefix="hwcheck-") as private:
        file = Path(private) / "role_vars.json"
        file.write_text(json.dumps([play]))
        variables = Path(private) / "variables"
        _link_variables(variables)
        environment = {
            **ansible.reach_environment(),
            **ENVIRONMENT,
            "ANSIBLE_ROLES_PATH": roles_path(variables),
        }
        with (
            Lifeline(Path(private) / "lifeline") as lifeline,
            _handed_over(passwords, Path(private)) as reading,
        ):
            done = ansible.run(
                [*words, *reading, str(file)], environment=environment, lifeline=lifeline
            )
    answers = dict(json.loads(base64.b64decode(each)) for each in _ANSWER.findall(done.stdout))
    if not answers:
        output = [each for each in (done.stderr + done.stdout).splitlines() if each.strip()]
        error = next((each for each in output if "ERROR" in each), "it printed nothing")
        raise UsageError(f"{cluster.source}: ansible-playbook: {line(error)}")
    missing = {"checked": {"msg": "ansible-playbook told nothing of this host"}}
    return {
        name: _role_vars(answers.get(asked[name], missing), values, specs)
        for name, values in settled.items()
    }


def refuse_wrong(cluster: Cluster, role_vars: Mapping[str, RoleVars]) -> None:
    """Raise UsageError for the first variable that its role's ``argument_specs`` refuse."""
    for host in cluster.hosts:
        for name, problem in role_vars[host.name].wrong.items():
            raise UsageError(f"{cluster.source}: {host.name}: {name}: {problem}")


def refuse_unresolved(cluster: Cluster, role_vars: Mapping[str, RoleVars]) -> None:
    """Raise UsageError for the first template that comes to nothing, and not for want of facts."""
    for host in cluster.hosts:
        of_host = role_vars[host.name]
        for name, problem in of_host.unresolved.items():
            if not of_host.no_facts:
                about = f"{name}: " if name else ""
                raise UsageError(f"{cluster.source}: {host.name}: {about}{problem}")


def _link_variables(folder: Path) -> None:
    """Make a folder of our roles that has only what sets their variables, as links to it.

    To read the tasks of the roles as well would take Ansible twice as long.
    """
    ours = shipped.brought("roles")
    assert ours is not None
    for part in ("defaults", "vars", "meta/main.yml"):
        for source in ours.glob(f"*/{part}"):
            link = folder / source.relative_to(ours)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(source)


def _is_settled(name: str, spec: Mapping[str, Any], hosts: Sequence[Host]) -> bool:
    """Return whether each host that has a value of a variable has one that is plainly right."""
    values = (host.variables[name] for host in hosts if name in host.variables)
    return all(not _BEYOND_US.search(_text(value)) and _is_right(value, spec) for value in values)


def _is_right(value: Any, spec: Mapping[str, Any]) -> bool:
    """Return whether a value is what a specification says, with nothing to convert.

    Where not, Ansible may take it all the same.
    """
    if spec.get("type") not in _TYPES.get(type(value), ()) or not spec.keys() <= _RULES:
        return False
    if "elements" in spec:
        of_each = {**spec, "type": spec["elements"]}
        del of_each["elements"]
        return all(_is_right(each, of_each) for each in value)
    if "choices" in spec and value not in spec["choices"]:
        return False
    parts = spec.get("options")
    return parts is None or (
        value.keys() <= parts.keys()
        and all(
            _is_right(value[name], part) if name in value else not part.get("required")
            for name, part in parts.items()
        )
    )


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


@contextmanager
def _handed_over(passwords: Mapping[str, str | None], folder: Path) -> Iterator[list[str]]:
    """Give the options that have Ansible read passwords, by option, from FIFOs.

    So they stand in no file and no argument, however this process ends.
    """
    waiting = {}
    for option, password in passwords.items():
        if password:
            fifo = folder / option.lstrip("-")
            os.mkfifo(fifo, 0o600)
            waiting[fifo] = threading.Thread(target=fifo.write_text, args=(password, "utf-8"))
            waiting[fifo].start()
    try:
        yield [f"--{fifo.name}={fifo}" for fifo in waiting]
    finally:
        for fifo, writer in waiting.items():
            reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)  # where Ansible never read it
            writer.join()
            os.close(reader)


def _asked(hosts: Sequence[Host], names: Sequence[str]) -> dict[str, str]:
    """Return for each host the one whose answer is its own too: the first with the same values.

    A host with a template among them answers for itself alone.
    """
    first: dict[str, str] = {}
    asked = {}
    for host in hosts:
        values = {name: host.variables[name] for name in names if name in host.variables}
        text = _text(values)
        asked[host.name] = (
            host.name if _TEMPLATE.search(text) else first.setdefault(text, host.name)
        )
    return asked


_FACTS = {
    "name": "Gather facts",
    "ansible.builtin.setup": {},
    "register": "hwcheck_facts",
    "ignore_errors": True,
    "ignore_unreachable": True,
    "tags": ["always"],
}
"""Gathered as the user that the roles run as: root sees more (serial numbers, disks)."""


def _play(
    hosts: list[str], roles: Sequence[str], names: list[str], specs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a play in which the roles' defaults count and none of their tasks runs."""
    check = {
        "argument_spec": "{{ {item: hwcheck_specs[item]} }}",
        "validate_args_context": {"value": "{{ lookup('ansible.builtin.vars', item) }}"},
    }
    answer = "[inventory_hostname, {'checked': hwcheck_checked, 'facts': hwcheck_facts}]"
    return {
        "name": "Read the variables of roles",
        "hosts": hosts,
        "gather_facts": False,
        "vars": {
            "hwcheck_specs": {name: specs[name] for name in names},
            "hwcheck_facts": {},
        },
        "roles": [{"role": role, "tags": [ROLE_TAG]} for role in roles],
        "tasks": [
            {
                "name": "Template each variable and hold it against its role's argument_specs",
                "ansible.builtin.validate_argument_spec": check,
                "loop": names,
                "register": "hwcheck_checked",
                "ignore_errors": True,
                "tags": ["always"],
            },
            {
                "name": "Answer",
                "ansible.builtin.debug": {
                    "msg": f"{MARK} {{{{ {answer} | to_json | b64encode }}}}"
                },
                "tags": ["always"],
            },
        ],
    }


def _wants_facts(hosts: Sequence[Host]) -> bool:
    """Return whether a template may be about what only the host itself tells."""
    for host in hosts:
        for text in map(str, host.variables.values()):
            if _TEMPLATE.search(text):
                names = set(_FACT.findall(text)) - {"ansible_playbook_python"}
                if not names <= host.variables.keys():
                    return True
    return False


def _role_vars(
    answer: Mapping[str, Any], settled: Mapping[str, Any], specs: Mapping[str, Any]
) -> RoleVars:
    facts = answer.get("facts") or {}
    no_facts = (
        line(str(facts.get("msg"))) if facts.get("failed") or facts.get("unreachable") else ""
    )
    checked = answer["checked"]
    values, wrong, unresolved = dict(settled), {}, {}
    # Before 2.19 a template that fails ends the whole task, not its turn of the loop.
    for result in checked.get("results", [{"item": ALL, "failed": True, **checked}]):
        name = result["item"]
        context = result.get("validate_args_context") or {}
        if not result.get("failed"):
            values[name] = _typed(context["value"], specs[name])
            continue
        values.pop(name, None)
        if result.get("argument_errors"):
            wrong[name] = line("; ".join(map(str, result["argument_errors"])))
        else:
            unresolved[name] = line(_PROSE.sub("", str(result.get("msg")).split("\n\n")[0]))
    return RoleVars(values, wrong, unresolved, no_facts)


def _typed(value: Any, spec: Mapping[str, Any]) -> Any:
    """Return a value as the type that Ansible has just found it to be.

    ``"false"`` is a boolean, and a number that nobody quoted is a text.
    """
    kind = spec.get("type")
    if kind == "list" and isinstance(value, list):
        return [_typed(each, {"type": spec.get("elements")}) for each in value]
    if kind == "str" and isinstance(value, (int, float)):
        return str(value)
    if kind == "bool" and not isinstance(value, bool):
        return str(value).lower() in TRUE
    if kind == "int" and not isinstance(value, int):
        return int(value)
    return value


def _without_prose(options_of_role: Any) -> Any:
    if not isinstance(options_of_role, dict):
        return options_of_role
    return {
        name: {key: _without_prose(part) for key, part in option.items() if key != "description"}
        if isinstance(option, dict)
        else option
        for name, option in options_of_role.items()
    }


def _read(name: str) -> Mapping[str, Any]:
    path = shipped.brought(name)
    if path is None:
        raise UsageError(f"no role {name.split('/')[1]}: {name} is missing")
    try:
        content = shipped.parse_yaml(Path(path).read_text("utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: {' '.join(str(error).split())}") from None
    return content if isinstance(content, Mapping) else {}
