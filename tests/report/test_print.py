"""The report on paper: two pages, and an appendix for whom asks for it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hwcheck.advise.assessment import Assessment
from hwcheck.report.html import html
from tests.report.chromium import CHROMIUM, FLAGS
from tests.report.example import troubled_fleet

pytestmark = [
    pytest.mark.wide,
    pytest.mark.skipif(not CHROMIUM, reason="needs Chromium"),
]
LONG = "<p class='note'>" + "a word " * 60 + "</p>"


@pytest.fixture(scope="module")
def troubled() -> str:
    """A thousand hosts, of which none passed, with seven causes."""
    assessment = troubled_fleet(1000)
    assert len(assessment.advice.causes.diagnoses) == 7
    return html(assessment)


def pages(page: str, folder: Path) -> int:
    """Return how many pages it takes as Chromium prints it."""
    copy, printed = folder / "printed.html", folder / "printed.pdf"
    copy.write_text(page, "utf-8")
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", "--no-pdf-header-footer"]
    command += [f"--print-to-pdf={printed}", f"file://{copy}"]
    subprocess.run(command, capture_output=True, check=True, timeout=300)
    return len(re.findall(rb"/Type /Page\b", printed.read_bytes()))


def test_it_is_printed_on_two_pages(sized: str, tmp_path: Path) -> None:
    assert pages(sized, tmp_path) == 2


def test_so_are_many_causes(troubled: str, tmp_path: Path) -> None:
    assert pages(troubled, tmp_path) == 2


@pytest.mark.parametrize("paper", ["letter", "A4; margin: 25mm"])
def test_so_is_more_than_they_have_room_for(troubled: str, paper: str, tmp_path: Path) -> None:
    long = troubled.replace('<ul class="groups">', LONG * 40 + '<ul class="groups">', 1)
    sized = long.replace("@media print {", f"@page {{ size: {paper} }} @media print {{", 1)
    assert pages(sized, tmp_path) == 2


def test_the_control_the_appendix_is_printed_where_it_is_asked_for(
    shown: Assessment, tmp_path: Path
) -> None:
    ticked = html(shown).replace('id="with-appendix"', 'id="with-appendix" checked', 1)
    assert pages(ticked, tmp_path) > 10
