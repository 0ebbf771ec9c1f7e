"""Packages of a node, by apt or by rpm: which version, and whether an upgrade leaves it alone."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hwcheck.provision.state.asserts import NotMeasuredError, ask

DPKG_STATUS = "dpkg-query -W -f '${db:Status-Status} ${Version}' %s"
RPM_VERSION = "rpm -q --qf '%%{VERSION}-%%{RELEASE}\\n' %s"


def is_debian(host: Any) -> bool:
    """Return whether apt keeps the packages. Raises NotMeasuredError where neither it nor rpm."""
    if host.exists("dpkg-query"):
        return True
    if host.exists("rpm"):
        return False
    raise NotMeasuredError("the node has neither dpkg nor rpm")


def version_of(host: Any, package: str) -> str:
    """Return the version of an installed package without its epoch; empty where it is not."""
    if is_debian(host):
        done = host.run(DPKG_STATUS, package)
        status, _, version = str(done.stdout).strip().partition(" ")
        version = version if done.succeeded and status == "installed" else ""
    else:
        done = host.run(RPM_VERSION, package)
        version = str(done.stdout).splitlines()[0].strip() if done.succeeded else ""
    return version.rpartition(":")[2]


def begins(version: str, wanted: str) -> bool:
    """Return whether a version has these leading parts: ``580.95`` is ``580`` and no ``58``."""
    return re.match(re.escape(wanted) + r"(?![0-9A-Za-z])", version) is not None


def problem(host: Any, packages: Iterable[str], wanted: str = "") -> str:
    """Return what is wrong with packages that are to be installed; empty where nothing is."""
    for package in packages:
        version = version_of(host, package)
        if not version:
            return f"{package} is not installed"
        if wanted and not begins(version, wanted):
            return f"{package} is {version}, not {wanted}"
    return ""


def os_release(host: Any) -> tuple[str, str]:
    """Return a node's distribution and its version, as os-release(5) has them (rhel, 9.6)."""
    try:
        words = shlex.split(ask(host, "cat /etc/os-release"), comments=True)
    except ValueError as error:
        raise NotMeasuredError(f"/etc/os-release: {error}") from None
    fields = dict(word.split("=", 1) for word in words if "=" in word)
    return fields.get("ID", ""), fields.get("VERSION_ID", "")


def repository_problem(host: Any, address: str, names: Mapping[str, Callable[[Any], str]]) -> str:
    """Return what is wrong where packages are to come from an address; empty where nothing is.

    ``names`` are words that stand in it for what depends on the node.
    """
    for word, name_on in names.items():
        if word in address:
            address = address.replace(word, name_on(host))
    command = "apt-cache policy" if is_debian(host) else "dnf -q repolist -v"
    # apt writes file:/srv, whatever stands in its sources; a slash at the end means nothing.
    place, sources = (re.sub(r"file:/+", "file:/", text) for text in (address, ask(host, command)))
    pattern = re.escape(place.rstrip("/")) + r"(?![0-9A-Za-z.])"
    is_present = re.search(pattern, sources) is not None
    return "" if is_present else f"{address} is not among the node's repositories"


def hold_problem(host: Any, packages: Iterable[str]) -> str:
    """Return which package an ordinary upgrade would change; empty where none."""
    if is_debian(host):
        held = set(ask(host, "apt-mark showhold").split())
        loose = [package for package in packages if package not in held]
    else:
        locks = ask(host, "dnf -q versionlock list").splitlines()
        loose = [package for package in packages if not any(_locks(one, package) for one in locks)]
    return f"{', '.join(loose)}: not held, an upgrade may change it" if loose else ""


def _locks(lock: str, package: str) -> bool:
    """Return whether a lock of dnf, ``NAME-EPOCH:VERSION-RELEASE``, is on a package."""
    version = r"-(\d+:)?\d[^-]*(-[^-]*)?"
    return re.fullmatch(re.escape(package) + version, lock.strip()) is not None


def named(role: Mapping[str, Any], variable: str, otherwise: Iterable[str]) -> list[str]:
    """Return the packages of a role's variable, or those that the role installs without it."""
    return list(role[variable] or otherwise)
