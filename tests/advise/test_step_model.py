"""The arithmetic of a step explains the published table of two GPUs."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from hwcheck.advise.step_model import (
    BACKWARD_SHARE,
    data_parallel_exposed_s,
    ddp_busbw_gbps,
    ddp_exposed_s,
    gradient_bytes,
)
from hwcheck.advise.training_figures import PUBLISHED
from hwcheck.contract.model_shape import MODELS

GPT2 = MODELS["gpt2"]
TABLE = Path(__file__).parents[3] / "shared" / "data" / "training" / "hf_gpt2_2gpu_nvlink.csv"
NVLINK_GBPS = 40.0
"""Two NVLinks of a TITAN RTX, of 25 GB/s each way, less what the protocol takes (NCCL: 20 each)."""
DATA_PARALLEL_ERROR = 0.1
"""How far the volume of nn.DataParallel is off, of what it adds."""


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], float]:
    """Seconds a step by mode and link of the published table."""
    if not TABLE.exists():
        pytest.skip("the shared table is not here")
    with TABLE.open(newline="") as stream:
        return {
            (row["mode"], row["nvlink"]): float(row["train_runtime_s"]) / int(row["steps"])
            for row in csv.DictReader(stream)
        }


def test_the_published_rows_of_reports_are_the_table(rows: dict[tuple[str, str], float]) -> None:
    assert sorted(row.seconds / 200 for row in PUBLISHED) == pytest.approx(sorted(rows.values()))


def test_ddp_over_nvlink_is_hidden(rows: dict[tuple[str, str], float]) -> None:
    alone = rows["single", "-"]
    least, most = ddp_exposed_s(GPT2, "fp32", 2, alone, NVLINK_GBPS)
    measured = rows["DDP", "Y"] - alone
    assert least == 0.0
    assert most == pytest.approx(0.0124, rel=0.01)
    assert -0.01 * alone <= measured <= most


def test_data_parallel_is_not_hidden(rows: dict[tuple[str, str], float]) -> None:
    measured = rows["DP", "Y"] - rows["single", "-"]
    predicted = data_parallel_exposed_s(GPT2, "fp32", 2, 4, NVLINK_GBPS)
    assert predicted == pytest.approx(measured, rel=DATA_PARALLEL_ERROR)


def test_without_p2p_data_went_through_the_host(rows: dict[tuple[str, str], float]) -> None:
    alone = rows["single", "-"]
    exposed = rows["DDP", "N"] - alone
    low, high = ddp_busbw_gbps(GPT2, "fp32", 2, alone, exposed)
    assert (low, high) == (pytest.approx(1.0, abs=0.05), pytest.approx(3.4, abs=0.05))
    for busbw, place in ((low, 0), (high, 1)):
        assert ddp_exposed_s(GPT2, "fp32", 2, alone, busbw)[place] == pytest.approx(exposed)
    # The way over NVLink does not explain it.
    assert ddp_exposed_s(GPT2, "fp32", 2, alone, NVLINK_GBPS)[1] < exposed / 5


def test_volumes() -> None:
    assert gradient_bytes(GPT2, "fp32") == 2 * gradient_bytes(GPT2, "bf16") == 497_759_232
    # Four ranks send 1.5 times as much as two.
    assert ddp_exposed_s(GPT2, "fp32", 4, 0.0, 1.0)[1] == pytest.approx(
        1.5 * ddp_exposed_s(GPT2, "fp32", 2, 0.0, 1.0)[1]
    )
    least, most = ddp_exposed_s(GPT2, "fp32", 2, 0.3, 1.0)
    assert most - least == pytest.approx(0.3 * BACKWARD_SHARE)
