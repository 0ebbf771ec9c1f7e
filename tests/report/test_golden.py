"""The words of each kind of report are those of its golden page."""

from __future__ import annotations

import pytest

from tests.report import golden_run

PAGES = golden_run.pages()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_report_reads_as_its_golden_page(name: str) -> None:
    golden = (golden_run.FOLDER / name).read_text("utf-8")
    assert PAGES[name] == golden, "if that is meant: python -m tests.report.golden_run"


def test_there_is_one_golden_page_for_each_kind() -> None:
    assert {path.name for path in golden_run.FOLDER.iterdir()} == set(PAGES)


def test_the_run_has_one_of_each_outcome() -> None:
    verdicts = {verdict.outcome for verdict in golden_run.assessment().judgement.hosts}
    assert verdicts == {"pass", "warn", "fail", "inconclusive"}
