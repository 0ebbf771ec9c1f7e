"""``--site``: the folder with what a site adds, named or beside the inventory that is named.

The files of a site are run. So nothing is taken from beside the default inventory, which is found
relative to the folder where the command happens to be run, and nothing from a run folder that
``report`` is given, which may have come from anywhere: both want ``--site``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwcheck.errors import UsageError
from hwcheck.results.run_folder import SITE, RunMeta
from hwcheck.site import folder
from hwcheck.tasks.command import option
from hwcheck.tasks.output import say
from hwcheck.text import count

if TYPE_CHECKING:
    from hwcheck.site.additions import Additions

_current: Additions | None = None


def site_flag(
    help: str = "folder of this site's checks, models, rules and templates, whose code is run "  # noqa: A002 - click's name
    "(default: hwcheck/ beside the inventory that --hosts names)",
) -> Callable[..., Any]:
    """Return ``--site``, for a command that runs ``with_site``."""
    return option("--site", type=click.Path(), metavar="FOLDER", help=help)


def with_site(body: Callable[..., None]) -> Callable[..., None]:
    """Have a command run with what the site adds: it has the flag ``--site``, maybe ``--hosts``."""

    @functools.wraps(body)
    def with_additions(**flags: Any) -> None:
        global _current
        site = site_of(flags["site"], flags.get("hosts") or "")
        if site is None:
            body(**flags)
            return
        from hwcheck.site.additions import in_use, load  # not above: few have a site

        additions, before = load(site), _current
        say(f"hwcheck: {site.path}: {amounts(additions)}")
        _current = additions
        try:
            with in_use(additions):
                body(**flags)
        finally:
            _current = before

    return with_additions


def site_of(site: str | None, hosts: str) -> folder.Site | None:
    """Return the site's folder that is named, or lies beside the inventory that is named.

    Raises UsageError as ``folder.read`` does.
    """
    if site is not None:
        if not site.strip():
            raise UsageError("--site is empty; name the site's folder, or leave --site out")
        return folder.read(Path(site))
    path = folder.beside(hosts)
    return None if path is None else folder.read(path)


def additions_in_use() -> Additions | None:
    """Return what the site of this command adds; None where there is none."""
    return _current


def payload_files() -> tuple[tuple[str, bytes], ...]:
    """Return the site's checks as they are pushed."""
    return tuple(_current.payload_files.items()) if _current else ()


def site_files() -> Mapping[str, bytes]:
    """Return the files of the site by name, ``checks/fans.py``."""
    return _current.site.files if _current else {}


def refuse_without_site(run: Path, meta: RunMeta) -> None:
    """Refuse to judge a run without the site's files that it was measured with.

    With others it is judged, and said. Raises UsageError.
    """
    if meta.site and _current is None:
        raise UsageError(
            f"{run}: it was measured with a site's checks, models, rules or templates; "
            f"add --site {run / SITE} to run what it keeps of them, where you trust it"
        )
    if _current is not None and _current.site.hashes != meta.site:
        say(f"hwcheck: {run} was measured with other files than {_current.site.path} holds")


def amounts(additions: Additions) -> str:
    """Say how many checks, models, rules and templates a site adds."""
    amounts = {
        "check": len(additions.checks),
        "model": len(additions.models),
        "rule": len(additions.rules),
        "template": len(additions.templates),
    }
    return ", ".join(count(amount, what) for what, amount in amounts.items() if amount) or "nothing"
