"""Which checks a command runs."""

import pytest

from hwcheck.errors import UsageError
from hwcheck.node.wire import COLLECTIVES
from hwcheck.tasks.selection import ON_DEMAND, select

KNOWN = ["all_reduce", "driver", "gpu_count"]
ALL = ["all_gather", "all_reduce", "alltoall", "driver", "sendrecv"]


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
    ("only", "skip", "collectives", "chosen"),
    [
        (None, None, None, ("all_reduce", "alltoall", "driver")),
        (None, None, "sendrecv, all_gather", ("all_gather", "driver", "sendrecv")),
        (None, None, "all", tuple(ALL)),
        ("driver", None, None, ("driver",)),
        ("driver", None, "sendrecv", ("driver", "sendrecv")),
        ("sendrecv", None, None, ("sendrecv",)),
        (None, "alltoall", None, ("all_reduce", "driver")),
    ],
)
def test_collectives(
    only: str | None, skip: str | None, collectives: str | None, chosen: tuple[str, ...]
) -> None:
    assert select(ALL, only, skip, collectives) == chosen


def test_what_is_on_demand_runs_where_it_is_asked_for_alone() -> None:
    known = ["driver", "gate_proof"]
    assert select(known, None, None) == ("driver",)
    assert select(known, "gate_proof", None) == ("gate_proof",)
    assert select(known, None, None, also=ON_DEMAND) == ("driver", "gate_proof")
    assert select(known, "driver", None, also=ON_DEMAND) == ("driver", "gate_proof")
    with pytest.raises(UsageError, match="--skip gate_proof: another flag asks for it"):
        select(known, None, "gate_proof", also=ON_DEMAND)


def test_a_longer_profile_times_all() -> None:
    assert select(ALL, None, None, usual=COLLECTIVES) == tuple(ALL)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("allreduce", "--collectives allreduce: no such collective; did you mean all_reduce?"),
        ("", "--collectives '' names no collective; leave --collectives out to time the usual"),
    ],
)
def test_refused_collectives(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        select(ALL, None, None, text)
    assert str(caught.value) == said


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
