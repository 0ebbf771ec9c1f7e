"""A playbook, the hosts it is for, and the command line of ansible-playbook."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hwcheck import shipped
from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Cluster

HIDDEN = "********"
DEFAULT_PLAYBOOK = "site.yml"
ACCEPT_NEW_HOST_KEYS = "-o StrictHostKeyChecking=accept-new"
"""For ansible-playbook's ``--ssh-extra-args``."""


@dataclass(frozen=True)
class PlaybookRequest:
    """A playbook and the hosts it is for; the flags are those of ``ansible-playbook``.

    ``only`` names hosts out of the cluster, all without it.
    """

    playbook: Path
    cluster: Cluster
    only: tuple[str, ...] = ()
    tags: str | None = None
    check: bool = False
    diff: bool = False
    forks: int = 32
    accept_new_host_keys: bool = False

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the names of the hosts, in inventory order."""
        names = tuple(host.name for host in self.cluster.hosts)
        return tuple(name for name in names if name in self.only) if self.only else names

    def arguments(self) -> list[str]:
        """Return what stands on the command line of ``ansible-playbook`` beside the inventory.

        No secret is among it: every user of this machine can read a command line.
        """
        pattern = ",".join(self.only) if self.only else self.cluster.limit
        connection = self.cluster.flags
        flags = {
            "--check": self.check,
            "--diff": self.diff,
            "--ask-pass": connection.password is not None,
            "--ask-become-pass": connection.become_password is not None,
        }
        values = {"--limit": pattern, "--tags": self.tags, "--forks": str(self.forks)}
        # In one word each: a pattern may begin with a dash.
        arguments = [name for name, wanted in flags.items() if wanted]
        arguments += [f"{name}={value}" for name, value in values.items() if value is not None]
        return arguments + reaching(self.cluster, accept_new_host_keys=self.accept_new_host_keys)

    def hide(self, text: str) -> str:
        """Return text without the passwords of this run."""
        for secret in self._secrets():
            text = text.replace(secret, HIDDEN)
        return text

    def _secrets(self) -> Iterator[str]:
        passwords = [self.cluster.flags.password, self.cluster.flags.become_password]
        for host in self.cluster.hosts:
            passwords += [host.become_password, host.password]
        yield from sorted({each for each in passwords if each}, key=len, reverse=True)


def reaching(cluster: Cluster, *, accept_new_host_keys: bool) -> list[str]:
    """Return what the command line of ansible-playbook says of hosts and the way to them.

    Passwords are not among it, nor that they are asked for.
    """
    flags = cluster.flags
    values = {
        "--user": flags.user,
        "--become-user": flags.become_user,
        "--ssh-extra-args": ACCEPT_NEW_HOST_KEYS if accept_new_host_keys else "",
    }
    words = ["--become"] if flags.become else []
    words += [f"{name}={value}" for name, value in values.items() if value]
    return words + [f"--extra-vars={each}" for each in cluster.extra_vars]


def find_playbook(name: str = "") -> Path:
    """Return a playbook: a file, or the name of one that hwcheck brings (``site.yml``).

    Where none is named it is hwcheck's ``site.yml``, never one that lies in the current folder.
    Raises UsageError where there is none.
    """
    path = shipped.find(name) if name else None
    path = path or shipped.brought(f"playbooks/{name or DEFAULT_PLAYBOOK}")
    if path is None or not path.is_file():
        raise UsageError(f"no such playbook: {name}; name a file, or one of {_shipped_playbooks()}")
    return path.resolve()


def _shipped_playbooks() -> str:
    folders = [root / "playbooks" for root in shipped.ROOTS]
    return ", ".join(sorted({path.name for folder in folders for path in folder.glob("*.yml")}))


def roles_path(*before_ours: Path) -> str:
    """Return where Ansible finds roles beside the playbook's: the caller's folders, then ours.

    ``roles/`` of the current folder is none of them: whoever may write there would be root on every
    host.
    """
    folders = [os.environ.get("ANSIBLE_ROLES_PATH", "")]
    folders += [str(each) for each in (*before_ours, *(root / "roles" for root in shipped.ROOTS))]
    return ":".join(folder for folder in folders if folder)
