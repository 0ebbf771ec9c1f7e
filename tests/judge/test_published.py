"""The prediction of busbw against what others published, row by row.

The rows are those of ``hwcheck/judge/models``: hardware, number of GPUs, message size, busbw in
GB/s, each with its source. No row was measured for this project; machines that their owners
complain of are held against nothing but that they do not pass.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import median

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.judge.expectation import PASS_FROM, TOO_FAST
from hwcheck.judge.interconnect import Hop, Links
from hwcheck.judge.models import Busbw, Joined
from hwcheck.judge.prediction import ERRORS, Prediction, predict

DATA = Path(__file__).parents[3] / "shared" / "data" / "training"
GIB, MIB = 2**30, 2**20
A100, HOPPER, BLACKWELL = 25.0, 26.5625, 53.125

LIBRARY, WITHOUT_NVLS = "NCCL 2.27.7", "NCCL 2.16.2"
"""Settings are not the prediction's: a library from before NVLS stands for one where it is off."""


def switched(gpus: int, links: int, gbps: float) -> Links:
    """GPUs whose NVLinks all lead to switches."""
    return Links(gpus, _all(gpus, lambda a, b: Hop((a, b), f"NV{links}", links)), True, gbps)


def meshed(gpus: int, gbps: float, *links: tuple[int, int, int]) -> Links:
    """GPUs with NVLinks from one to another; pairs without one are a socket apart."""
    between = {(one, other): amount for one, other, amount in links}

    def hop(one: str, other: str) -> Hop:
        amount = between.get((int(one[3:]), int(other[3:])), 0)
        return Hop((one, other), f"NV{amount}" if amount else "SYS", amount)

    return Links(gpus, _all(gpus, hop), link_gbps=gbps, pcie=_pcie(gpus, 3))


def over_pcie(gpus: int, generation: int, path: str, peer: bool, cpu: str = "") -> Links:
    """GPUs without NVLink, the same way between any two."""
    hops = _all(gpus, lambda a, b: Hop((a, b), path, peer=peer))
    return Links(gpus, hops, pcie=_pcie(gpus, generation), cpu=cpu)


def _all(gpus: int, hop: Callable[[str, str], Hop]) -> dict[tuple[int, int], Hop]:
    return {pair: hop(f"gpu{pair[0]}", f"gpu{pair[1]}") for pair in combinations(range(gpus), 2)}


def _pcie(gpus: int, generation: int) -> dict[str, tuple[int, int]]:
    return {f"gpu{gpu}": (generation, 16) for gpu in range(gpus)}


@dataclass(frozen=True)
class Row:
    """One published figure; ``healthy`` where nobody says that something is wrong with it."""

    hardware: str
    links: Links = field(repr=False)
    size_bytes: int
    busbw_gbps: float
    source: str
    collective: str = "all_reduce"
    library: str = LIBRARY
    healthy: bool = True

    @property
    def predicted(self) -> Prediction:
        found = predict(self.links, self.collective, self.library)
        assert isinstance(found, Prediction), found
        return found

    @property
    def share(self) -> float:
        """Measured over predicted."""
        return self.busbw_gbps / self.predicted.at(self.size_bytes)

    @property
    def error(self) -> float:
        return abs(1 / self.share - 1)


def links_of(joined: Joined, gpus: int) -> Links:
    """Return the links of a published machine."""
    if joined.by == "switches":
        return switched(gpus, joined.links, joined.link_gbps)
    if joined.by == "links":
        return meshed(gpus, joined.link_gbps, *joined.pairs)
    assert joined.by == "pcie", joined
    return over_pcie(gpus, joined.pcie_generation, joined.path, joined.peer, joined.cpu)


def row_of(model_id: str, busbw: Busbw) -> Row:
    """Return a published busbw of a model as a row of the table."""
    assert busbw.settings in ("", "NCCL_NVLS_ENABLE=0"), busbw
    return Row(
        f"{busbw.gpus}x {model_id}",
        links_of(busbw.joined, busbw.gpus),
        busbw.size_bytes,
        busbw.value,
        busbw.source,
        busbw.collective,
        WITHOUT_NVLS if busbw.settings else LIBRARY,
        not busbw.complaint,
    )


ROWS = (
    *(row_of(model.id, busbw) for model in shipped().models.every for busbw in model.busbw),
    # Its owner does not say which GPUs these are.
    Row("2 GPUs", over_pcie(2, 3, "NODE", False), GIB, 3.9, "NVIDIA/nccl#384", healthy=False),
)
HEALTHY = [row for row in ROWS if row.healthy]


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print("\n" + "\n".join(_table()))
    assert median(row.error for row in HEALTHY) < 0.05
    assert median(row.error for row in HEALTHY if row.predicted.rule == "NVLS") < 0.05
    assert len(HEALTHY) >= 41


def test_each_rule_has_the_error_that_reports_give() -> None:
    for rule, stated in ERRORS.items():
        errors = [row.error for row in HEALTHY if row.predicted.rule == rule]
        assert median(errors) == pytest.approx(stated, abs=0.006), rule


def test_every_published_healthy_machine_passes() -> None:
    assert [row.hardware for row in HEALTHY if row.share < PASS_FROM] == []


def test_no_published_machine_comes_near_what_is_too_fast() -> None:
    assert max(row.share for row in HEALTHY) < TOO_FAST / 2


def test_machines_that_their_owners_complain_of_do_not_pass() -> None:
    assert [row.share < PASS_FROM for row in ROWS if not row.healthy] == [True] * 4


def test_the_figures_say_the_algorithm_that_the_prediction_reckons_with() -> None:
    for model in shipped().models.every:
        for busbw in model.busbw:
            if busbw.algorithm == "NVLS":
                assert row_of(model.id, busbw).predicted.rule == "NVLS", (model.id, busbw)


def _table() -> Iterator[str]:
    yield f"{'hardware':<28} {'size':>9} {'GB/s':>6} {'model':>6} {'share':>6}  rule, source"
    for row in ROWS:
        size = f"{row.size_bytes / MIB:g} MiB"
        predicted = row.predicted.at(row.size_bytes)
        what = f"{row.predicted.rule}, {row.collective}, {row.source}"
        what += "" if row.healthy else " (its owner complains)"
        figures = f"{row.busbw_gbps:6g} {predicted:6.1f} {row.share:6.2f}"
        yield f"{row.hardware:<28} {size:>9} {figures}  {what}"


@pytest.mark.skipif(not DATA.is_dir(), reason="the folder of public samples is not here")
def test_every_size_of_the_public_tables_from_64_mib_on() -> None:
    links = {
        "A100-SXM 8x NVLink3": switched(8, 12, A100),
        "H200-SXM 8x NVLink4": switched(8, 18, HOPPER),
        "B200 P6 8x NVLink5 + 8x50GB/s EFAv4": switched(8, 18, BLACKWELL),
        "a100": switched(8, 12, A100),
    }
    with (DATA / "measured_allreduce_busbw.csv").open() as stream:
        rows = [
            Row("", links[row["hardware"]], int(row["bytes"]), float(row["busbw_gbps"]), "")
            for row in csv.DictReader(stream)
            if (row["nodes"], row["gpus"]) == ("1", "8")
            and row["hardware"] in links
            and int(row["bytes"]) >= 64 * MIB
        ]
    assert len(rows) > 25
    assert median(row.error for row in rows) < 0.05
    assert min(row.share for row in rows) >= 0.8
