"""What the commands that change or assert nodes have in common."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence

from hwcheck.inventory import inventory
from hwcheck.inventory.inventory import Cluster
from hwcheck.provision.request import Become
from hwcheck.provision.state.request import becoming
from hwcheck.tasks.output import say

HELP = {
    "hosts": "Ansible inventory (file, folder or script), or hosts as node1,node2 "
    "(default: inventory/local.yml, this machine)",
    "limit": "Ansible pattern of hosts (h100:!node03)",
    "playbook": "a playbook file, or one that hwcheck brings (default: site.yml)",
    "tags": "comma-separated tags; every role has its own name as one",
    "extra-vars": "variables that come before the inventory's: key=value, YAML or JSON, or @FILE",
    "check": "change nothing, say what would change",
    "diff": "show the differences in files",
    "forks": "hosts at once (default 32)",
    "become": "become another user where the inventory does not say so",
    "become-user": "that user (default: root)",
    "ask-become-pass": "ask for sudo's password; without a terminal it is read from stdin",
    "out": "folder in which the run folder is made (default: runs)",
    "accept-new-host-keys": "take the host key of a host never met (a changed key never)",
    "verbose": "also say what did not change",
}


def read_cluster(hosts: str, limit: str | None, extra_vars: Sequence[str] = ()) -> Cluster:
    """Read the inventory and pass its warnings on. Raises UsageError."""
    cluster = inventory.read(hosts, limit, extra_vars)
    for warning in cluster.warnings:
        say(f"hwcheck: {warning}")
    return cluster


def read_become(wanted: bool, user: str, ask: bool) -> Become:
    """Ask for the password where it is wanted; it stays in memory."""
    password = None
    if ask:
        tty = sys.stdin is not None and sys.stdin.isatty()
        password = (
            getpass.getpass("BECOME password: ") if tty else sys.stdin.readline().rstrip("\n")
        )
    return Become(wanted or ask, user, password)


def as_ansible_becomes(cluster: Cluster, become: Become) -> Cluster:
    """Return the cluster with hosts whose assertions run as the user that the roles ran as."""
    return becoming(cluster, become.password, become.user) if become.wanted else cluster
