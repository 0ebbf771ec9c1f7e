"""Changes of healthy nodes are noticed, or survive for a reason that the docs give."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import mutations_page
from tests.lab.bench import Bench
from tests.lab.host_mutations import HOST as HOST_CHANGES
from tests.lab.host_mutations import LEFT_OUT, NOT_ON_HOST
from tests.lab.host_tree import HOST, write_host
from tests.lab.mutate import Row, complaints, fleet_rows, rows_on, work_rows
from tests.lab.mutation import Mutation
from tests.lab.mutations import of_node
from tests.lab.nvml_keys import GPU as GPU_KEYS
from tests.lab.nvml_mutations import GPU, NOT_CHANGED
from tests.lab.scenario import load
from tests.lab.survivors import reason_of, reasons

pytestmark = pytest.mark.timeout(300)

QUICK = "titan_rtx_x2"
EVERY = 15
"""Every so many changes are made here; ``python -m tests.lab.mutate`` makes all."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = Path(os.path.realpath(tmp_path_factory.mktemp("bench")))
    with Bench(load(QUICK), folder / "node") as bench:
        yield bench


@pytest.fixture(scope="module")
def rows(bench: Bench) -> list[Row]:
    wanted = list(of_node(bench.scenario))[::EVERY]
    return [*rows_on(bench, wanted), *work_rows("rtx4090x4", EVERY), *fleet_rows(EVERY)]


@pytest.mark.wide
def test_what_survives_has_a_reason(rows: list[Row]) -> None:
    assert complaints(rows, whole=False) == []
    assert {row.fate for row in rows} == {"noticed", "passes", "same", "unread"}


@pytest.mark.wide
def test_the_docs_say_what_survives_and_why(rows: list[Row]) -> None:
    page, known = mutations_page.FILE.read_text("utf-8"), reasons()
    missing = []
    for row in rows:
        reason = reason_of(row.scenario, row.name, known)
        if row.fate == "noticed":
            shown = f"\n| `{row.quantity}` | " in page
        else:
            # The reason, and in the line below it the quantity with its changes.
            after = page.partition(reason.why if reason else "no reason")[2].splitlines()
            shown = len(after) > 1 and f"`{row.quantity} = " in after[1] and row.change in after[1]
        missing += [] if shown else [f"{row.scenario}: {row.name}: {row.fate}"]
    assert missing == []


def test_every_quantity_is_changed_or_left_out_for_a_reason() -> None:
    changed = {quantity.partition(".")[0] for quantity in GPU}
    assert changed | set(NOT_CHANGED) == set(GPU_KEYS)
    assert not changed & set(NOT_CHANGED)
    on_host = {quantity.partition(".")[0] for quantity in HOST_CHANGES} | NOT_ON_HOST
    assert on_host | set(LEFT_OUT) == set(HOST)
    assert not on_host & set(LEFT_OUT)


def test_a_survivor_without_a_reason_and_a_reason_without_a_survivor_are_told() -> None:
    new = Row("h100x8", "nvml.of_tomorrow", "broken", "one", "passes")
    assert complaints([new], whole=False) == ["no reason for h100x8: nvml.of_tomorrow = broken"]
    told = complaints([new], whole=True)
    assert "fits nothing: nvml.brand = *" in told
    seen = Row("h100x8", "nvml.of_tomorrow", "broken", "one", "noticed", (("driver", "fail"),))
    assert complaints([seen], whole=False) == []


def test_a_fault_is_noticed_by_its_check_with_its_cause(bench: Bench) -> None:
    seen = bench.see(
        Mutation("", "", "", {"gpus": {1: {"inforom_valid": False}}}).of(bench.scenario)
    )
    assert {(each.check, each.outcome, each.subject) for each in seen.findings} == {
        ("inforom", "fail", "gpu1")
    }
    assert seen.cause == "inforom_corrupted"
    assert seen.asked == ("inforom",)


def test_what_nobody_reads_and_what_is_healthy_is_not_noticed(bench: Bench) -> None:
    unread = Mutation("", "", "", {"gpus": {1: {"brand": "grid"}}}).of(bench.scenario)
    assert bench.see(unread).asked == ()
    warmer = Mutation("", "", "", {"gpus": {1: {"temperature_c": 38}}}).of(bench.scenario)
    assert "temperature_idle" in bench.see(warmer).answered
    assert bench.see(warmer).findings == ()


def test_a_change_of_the_host_leaves_nothing_behind(bench: Bench, tmp_path: Path) -> None:
    gone = Mutation("", "", "", host={"devices": {"0000:65:00.0": {"gone": True}}})
    assert bench.see(gone.of(bench.scenario)).findings
    bench.ask(bench.scenario, [])
    write_host(tmp_path / "root", bench.scenario.host)
    assert _files(bench.root) == _files(tmp_path / "root")


def _files(root: Path) -> dict[str, str]:
    """Return what is in a tree: where links lead, the text of files, nothing for folders."""
    return {
        str(path.relative_to(root)): os.readlink(path)
        if path.is_symlink()
        else path.read_bytes().hex() if path.is_file() else ""
        for path in root.rglob("*")
    }  # fmt: skip


def test_five_healthy_hosts_raise_nothing(bench: Bench) -> None:
    assert bench.usual == frozenset()
