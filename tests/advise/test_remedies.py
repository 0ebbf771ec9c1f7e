from __future__ import annotations

import pytest

from hwcheck.advise.remedies import REMEDY_OF
from hwcheck.contract.reasons import CODES


def test_each_code_has_its_meaning_and_its_remedy() -> None:
    assert sorted(REMEDY_OF) == sorted(CODES)


@pytest.mark.parametrize("code", CODES)
def test_a_remedy_says_something(code: str) -> None:
    remedy = REMEDY_OF[code]
    assert len(remedy.meaning) > 15
    assert not remedy.meaning.endswith(".")
    assert len(remedy.cause) >= len("MIG is on")
    assert remedy.fix.split(";")[0] not in ("mend what the evidence names and run again", "")
