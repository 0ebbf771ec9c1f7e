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

from hwcheck import checks as registry
from hwcheck.cli.command import option
from hwcheck.cli.output import say
from hwcheck.contract.check import Check
from hwcheck.errors import UsageError
from hwcheck.results.run_folder import SITE, RunMeta
from hwcheck.site import folder
from hwcheck.text import count

if TYPE_CHECKING:
    from hwcheck.advise.catalogue import Catalogue
    from hwcheck.site.additions import Additions

ADDITIONS = "additions"
"""What a command is handed beside its flags."""


def site_flag(
    help: str = "folder of this site's checks, models, rules and templates, whose code is run "  # noqa: A002 - click's name
    "(default: hwcheck/ beside the inventory that --hosts names)",
) -> Callable[..., Any]:
    """Return ``--site``, for a command that runs ``with_site``."""
    return option("--site", type=click.Path(), metavar="FOLDER", help=help)


def with_site(body: Callable[..., None]) -> Callable[..., None]:
    """Hand a command what the site adds, as ``additions``: None where there is no site.

    It has the flag ``--site``, maybe ``--hosts``.
    """

    @functools.wraps(body)
    def with_additions(**flags: Any) -> None:
        site = site_of(flags["site"], flags.get("hosts") or "")
        if site is None:
            body(**flags, additions=None)
            return
        from hwcheck.site.additions import faults_of, load  # not above: few have a site

        additions = load(site)
        say(f"hwcheck: {site.path}: {amounts(additions)}")
        with faults_of(site):
            body(**flags, additions=additions)

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


def catalogue_of(additions: Additions | None) -> Catalogue:
    """Return what a command works by: what hwcheck brings, and what a site adds."""
    from hwcheck.advise.catalogue import shipped  # not above: its rules take 0.15 s

    return additions.catalogue if additions else shipped()


def all_checks(additions: Additions | None) -> Mapping[str, Check]:
    """Return the checks of the catalogue alone, for what neither judges nor explains."""
    return additions.catalogue.checks if additions else registry.load()


def payload_files(additions: Additions | None) -> tuple[tuple[str, bytes], ...]:
    """Return the site's checks as they are pushed."""
    return tuple(additions.payload_files.items()) if additions else ()


def site_files(additions: Additions | None) -> Mapping[str, bytes]:
    """Return the files of the site by name, ``checks/fans.py``."""
    return additions.site.files if additions else {}


def refuse_without_site(additions: Additions | None, run: Path, meta: RunMeta) -> None:
    """Refuse to judge a run without the site's files that it was measured with.

    With others it is judged, and said. Raises UsageError.
    """
    if meta.site and additions is None:
        raise UsageError(
            f"{run}: it was measured with a site's checks, models, rules or templates; "
            f"add --site {run / SITE} to run what it keeps of them, where you trust it"
        )
    if additions is not None and additions.site.hashes != meta.site:
        say(f"hwcheck: {run} was measured with other files than {additions.site.path} holds")


def amounts(additions: Additions) -> str:
    """Say how many checks, models, rules and templates a site adds."""
    amounts = {
        "check": len(additions.checks),
        "model": len(additions.models),
        "rule": len(additions.rules),
        "template": len(additions.templates),
    }
    return ", ".join(count(amount, what) for what, amount in amounts.items() if amount) or "nothing"
