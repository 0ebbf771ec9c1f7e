"""nvml_memory.py over a C library that answers as NVML does."""

from __future__ import annotations

import pytest

from tests.node.conftest import Ask


def test_ecc(ask: Ask) -> None:
    first = ask()["gpus"]["gpu0"]
    assert first["ecc_mode"] == {"current": True, "pending": False}
    assert first["ecc_default"] is True
    assert first["ecc_errors"] == {
        "volatile_corrected": 1,
        "volatile_uncorrected": 2,
        "aggregate_corrected": 3,
        "aggregate_uncorrected": 4,
    }


def test_without_ecc_there_is_nothing_to_read(ask: Ask) -> None:
    gpu = ask("no_ecc")["gpus"]["gpu1"]
    quantities = ("ecc_mode", "ecc_default", "ecc_errors", "row_remap")
    assert [gpu[quantity] for quantity in quantities] == [None] * 4


@pytest.mark.parametrize(
    ("deviation", "library", "exceeded"),
    [("", "new", True), ("denied", "new", None), ("", "old", None)],
)
def test_the_sram_threshold_is_read_where_it_may_be(
    ask: Ask, deviation: str, library: str, exceeded: bool | None
) -> None:
    assert ask(deviation, library=library)["gpus"]["gpu1"]["sram_threshold_exceeded"] is exceeded


def test_repairs(ask: Ask) -> None:
    first, second = ask()["gpus"].values()
    assert first["row_remap"] == {
        "correctable": 1,
        "uncorrectable": 4,
        "pending": True,
        "failure": False,
        "banks_exhausted": 2,
    }
    assert first["retired_pages"] is None
    assert second["retired_pages"] == {"single_bit": 3, "double_bit": 1, "pending": True}


def test_sizes(ask: Ask) -> None:
    first, second = ask()["gpus"].values()
    assert (first["memory_total_bytes"], first["memory_used_bytes"]) == (80 << 30, 1 << 30)
    assert (first["bar1_total_bytes"], second["bar1_total_bytes"]) == (128 << 30, 256 << 20)
