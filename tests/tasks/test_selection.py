"""Which checks a command runs."""

import pytest

from hwcheck.errors import UsageError
from hwcheck.tasks.selection import select

KNOWN = ["all_reduce", "driver", "gpu_count"]


@pytest.mark.parametrize(
    ("only", "skip", "chosen"),
    [
        (None, None, ("all_reduce", "driver", "gpu_count")),
        ("gpu_count, driver", None, ("driver", "gpu_count")),
        (None, "all_reduce", ("driver", "gpu_count")),
        ("driver,gpu_count", "driver", ("gpu_count",)),
    ],
)
def test_only_and_skip(only: str | None, skip: str | None, chosen: tuple[str, ...]) -> None:
    assert select(KNOWN, only, skip) == chosen


@pytest.mark.parametrize(
    ("only", "skip", "text"),
    [
        ("gpucount", None, "--only gpucount: no such check; did you mean gpu_count?"),
        ("", None, "--only '' names no check; leave --only out to run all"),
        ("driver", " ,", "--skip ' ,' names no check; leave --skip out to run all"),
        (None, "zzz", "--skip zzz: no such check; known: all_reduce, driver, gpu_count"),
        ("driver", "driver", "--skip leaves no check to run"),
    ],
)
def test_refusals(only: str | None, skip: str | None, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        select(KNOWN, only, skip)
    assert str(caught.value) == text
