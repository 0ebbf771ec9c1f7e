"""``fab checks``: every check with its metrics, limits and their sources."""

from __future__ import annotations

from invoke import Context

from hwcheck.node import checks as registry
from hwcheck.render.catalogue import catalogue
from hwcheck.tasks.command import command
from hwcheck.tasks.output import emit, rendered


@command()
def checks(ctx: Context) -> None:  # noqa: ARG001 - invoke hands every task its context
    """List every check with its metrics, limits and their sources."""
    emit(rendered(catalogue(registry.load().values())))
