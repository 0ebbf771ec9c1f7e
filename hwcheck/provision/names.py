"""What a person writes for roles: tags, variables and their values; what is wrong is refused.

Ansible takes any name of a variable, a tag that nothing has does nothing, and it looks at the
variables of a role when the roles before it have changed the node.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path

from hwcheck import shipped
from hwcheck.errors import UsageError
from hwcheck.inventory import ansible
from hwcheck.inventory.inventory import Cluster
from hwcheck.provision.request import PlaybookRequest, roles_path
from hwcheck.provision.role_vars import defaults, read_role_vars, refuse_wrong

SPECIAL_TAGS = ("all", "always", "never", "tagged", "untagged")
"""Ansible documentation, Tags, Special tags."""
LIKE = 0.85
"""Variables that are so alike are one and its misspelling (``nccl_verson``)."""
VERY_LIKE = 0.95
"""So alike are they where the role's name itself is misspelt (``ncl_version``)."""

_TAGS = re.compile(r"TASK TAGS: \[(.*)\]")
_TASK_OF_ROLE = re.compile(r"^ +(\w+) : .*TAGS: \[", re.MULTILINE)


def nearest(name: str, names: Iterable[str]) -> str:
    """Return what to say of a name that is none of these."""
    choices = sorted(names)
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(choices)}"


def refuse_misspelt(request: PlaybookRequest) -> None:
    """Raise UsageError for a misspelt tag, and with a playbook of ours for a variable of a role."""
    if _is_ours(request.playbook):
        refuse_misspelt_variables(request.cluster)
    if request.tags:
        _refuse_tags(request.playbook, request.tags, request.cluster.source)


def refuse_wrong_types(request: PlaybookRequest) -> None:
    """Raise UsageError for a variable of a wrong type, with a playbook of ours.

    Any other playbook may set variables itself: there Ansible looks, at the begin of each role.
    """
    if not _is_ours(request.playbook):
        return
    listed = _TASK_OF_ROLE.findall(_list("tasks", request.playbook, request.cluster.source))
    roles = [role for role in _roles() if role in listed]
    role_vars = read_role_vars(
        request.cluster, roles, request.forks, accept_new_host_keys=request.accept_new_host_keys
    )
    refuse_wrong(request.cluster, role_vars)


def _is_ours(playbook: Path) -> bool:
    return any(playbook.is_relative_to(root.resolve()) for root in shipped.ROOTS)


def _list(what: str, playbook: Path, inventory: str) -> str:
    """Return the ``tasks`` or ``tags`` of a playbook; empty where Ansible refuses it."""
    words = ["playbook", f"--list-{what}", f"--inventory={inventory}", str(playbook)]
    done = ansible.run(words, environment={"ANSIBLE_ROLES_PATH": roles_path()})
    return done.stdout if done.returncode == 0 else ""  # it says why, when it is to run it


def _refuse_tags(playbook: Path, tags: str, inventory: str) -> None:
    """Raise UsageError for a tag that no task of a playbook has."""
    listing = _list("tags", playbook, inventory)
    if not listing:
        return
    listed = {tag for each in _TAGS.findall(listing) for tag in each.split(", ")} - {""}
    for tag in filter(None, (each.strip() for each in tags.split(","))):
        if tag not in listed and tag not in SPECIAL_TAGS:
            hint = nearest(tag, listed - set(SPECIAL_TAGS))
            raise UsageError(f"--tags {tag}: no task of {playbook.name} has this tag; {hint}")


def refuse_misspelt_variables(cluster: Cluster) -> None:
    """Raise UsageError for a variable that is named nearly as one of a role, and is none.

    A variable that another one refers to is the site's.
    """
    roles = _roles()
    of_roles = sorted(name for role in roles for name in defaults(role))
    meant: dict[str, list[str]] = {}
    for host in cluster.hosts:
        for name in host.variables:
            if name not in meant:
                like = LIKE if name.startswith(roles) else VERY_LIKE
                near = difflib.get_close_matches(name, of_roles, n=1, cutoff=like)
                meant[name] = [] if name in of_roles else near
            others = (str(value) for other, value in host.variables.items() if other != name)
            if meant[name] and not any(name in text for text in others):
                raise UsageError(
                    f"{cluster.source}: {host.name}: {name}: no role has this variable; did you "
                    f"mean {meant[name][0]}?"
                )


def _roles() -> tuple[str, ...]:
    folders = (root / "roles" for root in shipped.ROOTS)
    files = (file for folder in folders for file in folder.glob("*/defaults/main.yml"))
    return tuple(sorted({file.parent.parent.name for file in files}))
