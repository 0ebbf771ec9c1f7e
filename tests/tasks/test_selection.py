"""Which checks a command runs."""

import pytest

from hwcheck.errors import UsageError
from hwcheck.tasks.selection import select

KNOWN = ["all_reduce", "driver", "gpu_count"]


@pytest.mark.parametrize(
    ("only", "skip", "chosen"),
    [
        ("", "", ("all_reduce", "driver", "gpu_count")),
        ("gpu_count, driver", "", ("driver", "gpu_count")),
        ("", "all_reduce", ("driver", "gpu_count")),
        ("driver,gpu_count", "driver", ("gpu_count",)),
    ],
)
def test_only_and_skip(only: str, skip: str, chosen: tuple[str, ...]) -> None:
    assert select(KNOWN, only, skip) == chosen


@pytest.mark.parametrize(
    ("only", "skip", "text"),
    [
        ("gpucount", "", "--only gpucount: no such check; did you mean gpu_count?"),
        ("", "zzz", "--skip zzz: no such check; known: all_reduce, driver, gpu_count"),
        ("driver", "driver", "--skip leaves no check to run"),
    ],
)
def test_refusals(only: str, skip: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        select(KNOWN, only, skip)
    assert str(caught.value) == text
