"""How far a playbook is: a live line on a terminal, and what changed or failed as lines."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.text import Text

from hwcheck.provision.events import Happening
from hwcheck.tasks.progress import LiveLine

QUIET = {"ok", "skipped"}
NO_HOST = {"play", "task"}


class PlayProgress(LiveLine):
    """Shows what Ansible does; use it as a context manager and call it with each happening."""

    def __init__(self, *, verbose: bool = False, console: Console | None = None) -> None:
        super().__init__(console)
        self._verbose = verbose
        self._at = "starting"
        self._counts: Counter[str] = Counter()

    def __call__(self, found: Happening) -> None:
        """Take one happening."""
        where = f"{found.role}: {found.task}" if found.role else found.task
        if found.kind in NO_HOST:
            self._at = where or found.play
            return
        self._counts[found.kind] += 1
        if found.kind == "diff":
            self._print(found.text)
        elif self._verbose or found.kind not in QUIET:
            item = f" ({found.item})" if found.item else ""
            why = f": {found.text}" if found.text else ""
            self._print(f"{found.host}: {found.kind}: {where}{item}{why}")

    def _line(self) -> Text:
        counts = ", ".join(
            f"{self._counts[kind]} {kind}"
            for kind in ("changed", "failed", "unreachable")
            if self._counts[kind]
        )
        text = "; ".join(part for part in (self._at, counts) if part)
        return Text(text, overflow="ellipsis", no_wrap=True)
