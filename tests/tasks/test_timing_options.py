from __future__ import annotations

import pytest

from hwcheck.errors import UsageError
from hwcheck.node.wire import Timing
from hwcheck.tasks.timing_options import size, timing

MIB = 1 << 20
UNSAID = dict.fromkeys(
    ("minbytes", "maxbytes", "stepfactor", "iters", "warmup_iters", "datatype"), ""
)


def said(legs: str | None = None, **flags: str) -> Timing:
    return timing(legs=legs, **{**UNSAID, **flags})


def test_nothing_said_is_the_default() -> None:
    assert said() == Timing()


def test_every_flag_is_carried() -> None:
    flags = {"minbytes": "8M", "maxbytes": "64M", "stepfactor": "4", "iters": "30"}
    found = said("net,default", **flags, warmup_iters="0", datatype="bfloat16")
    assert found == Timing(("default", "net"), 8 * MIB, 64 * MIB, 4, 30, 0, "bfloat16")


@pytest.mark.parametrize(
    ("flags", "least", "most"),
    [
        ({"minbytes": "2G"}, 2048 * MIB, 2048 * MIB),
        ({"minbytes": "64M"}, 64 * MIB, 1024 * MIB),
        ({"maxbytes": "64K"}, 65536, 65536),
        ({"maxbytes": "4g"}, MIB, 4096 * MIB),
    ],
)
def test_one_border_moves_the_other_where_it_must(
    flags: dict[str, str], least: int, most: int
) -> None:
    assert (said(**flags).min_bytes, said(**flags).max_bytes) == (least, most)


@pytest.mark.parametrize(
    ("text", "count"),
    [("8", 8), ("64k", 65536), ("8MB", 8 * MIB), ("0.5G", 512 * MIB), ("1.5M", 3 * MIB // 2)],
)
def test_sizes_as_nccl_tests_takes_them(text: str, count: int) -> None:
    assert size("-b", text) == count


@pytest.mark.parametrize(
    "text", ["7", "", "1.M", "0.001K", "-1M", "1T", "65G", "M", "9" * 30, "\u0661M"]
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match=r"it takes bytes, or 64K, 8M, 0\.5G, from 8 B to 64 GiB"):
        size("-b", text)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"iters": "200000"}, "--iters 200000: at most 100000"),
        ({"stepfactor": "2000"}, "--stepfactor 2000: at most 1024"),
        ({"minbytes": "2M", "maxbytes": "1M"}, "--minbytes 2M: it is more than --maxbytes 1M"),
    ],
)
def test_refusals(flags: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        said(**flags)


def test_one_iteration_is_taken_and_none_is_not() -> None:
    assert said(iters="1").iterations == 1
    with pytest.raises(UsageError, match="whole number from 1"):
        said(iters="0")
