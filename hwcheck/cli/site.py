"""``hwcheck site test``: the cases of what a site adds."""

from __future__ import annotations

from hwcheck.cli.command import end, fab_task, group
from hwcheck.cli.flags import hosts_flag
from hwcheck.cli.output import emit
from hwcheck.cli.site_option import amounts, site_flag, site_of
from hwcheck.errors import UsageError
from hwcheck.site.additions import load
from hwcheck.testing.cases import run_cases
from hwcheck.text import count

__getattr__ = fab_task(__name__)


@group("site")
def cli() -> None:
    """Run the cases of a site's checks and rules, and render its templates; no host is visited."""


@cli.command(
    "test",
    examples=(
        "hwcheck site test --site hwcheck",
        "hwcheck site test --hosts cluster.yml",
        "hwcheck site test --site runs/latest/site",
    ),
)
@site_flag()
@hosts_flag("the inventory that the site's folder hwcheck/ lies beside")
def test(*, site: str | None, hosts: str | None) -> None:
    """Run the site's cases."""
    folder = site_of(site, hosts or "")
    if folder is None:
        raise UsageError("site test: name the site's folder with --site")
    additions = load(folder)
    tested = run_cases(additions)
    emit("".join(f"{problem}\n" for problem in tested.problems))
    verdict = f"{count(len(tested.problems), 'problem')}" if tested.problems else "all is well"
    emit(f"{folder.path}: {amounts(additions)}, {count(tested.cases, 'case')}: {verdict}\n")
    end(1 if tested.problems else 0)
