"""A run that has one of each outcome, in each kind of report, as the golden pages have it.

``python -m tests.report.golden_run`` writes them: they hold the words of reports, and no other test
need do so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

from rich.console import Console

from hwcheck import __version__
from hwcheck.advise.assessment import Assessment, assess
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import Reason
from hwcheck.report.html import html
from hwcheck.report.junit import junit
from hwcheck.report.markdown import markdown
from hwcheck.report.summary import summary
from hwcheck.report.terminal import terminal
from hwcheck.results.multi_host import MultiHostRecord, fabric_between
from hwcheck.results.run_folder import HostRecord
from tests import factories
from tests.factories import gpu_host, hung, leg

FOLDER = Path(__file__).parent / "golden"
COLUMNS = 100
SILENT = ("style", "script", "svg")
"""Elements of a page whose content is nothing to read."""
WITHIN = ("a", "abbr", "b", "code", "span", "strong", "td", "th", "small", "em", "button")
"""Elements that stand within a line."""
BREAK = "\0"
UNMEASURED = {
    "persistence_mode": Reason("not_measured", "gpu0: persistence mode: Unknown Error"),
    "power_cap": Reason("no_permission", "gpu0: power limit: Insufficient Permissions"),
    "all_reduce": Reason("at_work", "gpu0 is in use by process 4711"),
}
"""Why checks of one host could not be measured, by check."""


def kept_from(host: HostRecord, reasons: Mapping[str, Reason]) -> HostRecord:
    """Return a host that could not measure these checks."""
    assert host.report is not None
    results = [
        replace(
            result,
            state="busy" if reasons[result.check].code == "at_work" else "could_not_measure",
            reason=reasons[result.check],
            samples=(),
            legs=(),
        )
        if result.check in reasons
        else result
        for result in host.report.results
    ]
    return replace(host, report=replace(host.report, results=tuple(results)))


def assessment() -> Assessment:
    """A host that passes, one that is warned of, two that fail, one unproven, one unreachable."""
    late = Reason("visit_ended", "no answer from 10.0.0.6:22 within 10 s")
    run = factories.run(
        gpu_host("node01"),
        gpu_host("node02", persistence_mode=(3, False)),
        gpu_host("node03", power_limit_w=(3, 400.0)),
        gpu_host("node04", [hung(), leg("p2p_off", 21.0), leg("net", 9.0)]),
        kept_from(gpu_host("node05"), UNMEASURED),
        replace(factories.record("node06", None, phase="connect", reason=""), reason=late),
    )
    between = MultiHostRecord(
        scopes=("all",),
        hosts=("node01", "node02", "node03", "node04"),
        backend="nccl",
        absent={"node04": Reason("no_torch", "no torch under /usr/bin/python3")},
        unresolved=(fabric_between((("node01",), ("node02", "node03")), "slow"),),
        finished=True,
    )
    return assess(run, shipped(), between)


class _Words(HTMLParser):
    """What a page has to read, a line for each of its blocks."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._silent = 0

    @property
    def text(self) -> str:
        rows = (" ".join(row.split()) for row in "".join(self._parts).split(BREAK))
        return "\n".join(filter(None, rows))

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._silent += tag in SILENT
        self._parts.append(" " if tag in WITHIN else BREAK)

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in SILENT
        self._parts.append(" " if tag in WITHIN else BREAK)

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._parts.append(data)


def pages() -> dict[str, str]:
    """Return each kind of report by the name of its golden page, without the version of hwcheck."""
    result = assessment()
    page = _Words()
    page.feed(html(result))
    screen = StringIO()
    Console(file=screen, width=COLUMNS, no_color=True, highlight=False).print(terminal(result))
    told = {
        "terminal.txt": "\n".join(row.rstrip() for row in screen.getvalue().splitlines()),
        "html.txt": page.text,
        "report.md": markdown(result),
        "junit.xml": junit(result).replace("><", ">\n<"),
        "summary.json": json.dumps(summary(result), indent=1),
    }
    return {
        name: text.replace(__version__, "VERSION").rstrip("\n") + "\n"
        for name, text in told.items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, "utf-8")
