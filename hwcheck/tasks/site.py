"""``fab site test``: the cases of what a site adds."""

from __future__ import annotations

from invoke import Context

from hwcheck.errors import UsageError
from hwcheck.site.additions import load
from hwcheck.site.cases import run_cases
from hwcheck.tasks.command import command, end
from hwcheck.tasks.flags import one_of
from hwcheck.tasks.output import emit
from hwcheck.tasks.site_option import SITE_HELP, amounts, site_of
from hwcheck.text import count

ACTIONS = ("test",)


@command(
    positional=["action"],
    help={
        "action": "test: run the site's cases",
        "hosts": "the inventory that the site's folder hwcheck/ lies beside",
        **SITE_HELP,
    },
)
def site(
    ctx: Context,  # noqa: ARG001 - invoke hands every task its context
    action: str,
    site: str | None = None,
    hosts: str = "",
) -> None:
    """Run the cases of a site's checks and rules, and render its templates; no host is visited."""
    one_of("site", action, ACTIONS)
    folder = site_of(site, hosts)
    if folder is None:
        raise UsageError("site test: name the site's folder with --site")
    additions = load(folder)
    tested = run_cases(additions)
    emit("".join(f"{problem}\n" for problem in tested.problems))
    verdict = f"{count(len(tested.problems), 'problem')}" if tested.problems else "all is well"
    emit(f"{folder.path}: {amounts(additions)}, {count(tested.cases, 'case')}: {verdict}\n")
    end(1 if tested.problems else 0)
