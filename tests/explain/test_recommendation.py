"""What logs of several legs prove together."""

from __future__ import annotations

import pytest

from hwcheck.explain.explain import explain
from hwcheck.explain.recommendation import Recommendation, recommend
from hwcheck.explain.records import Entry
from hwcheck.explain.sources import Source
from tests.explain.matrices import gpus, square, tabs
from tests.node.nccl_tests.logs import FOOTER, MIB, header, row, started

PCIE = tabs(square(gpus(4), ["PHB"]))
NVLINK = tabs(square(gpus(4), ["NV12"]))
PAIRS = tabs(square(gpus(4), ["NV4", *["SYS"] * 4, "NV4"]))
P2P = "node7:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"
SHM = "node7:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct"
TAKEN = "node7:1:2 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1."


def run(busbw: float, *said: str, checks: tuple[str, str] = ("0", "0")) -> str:
    sizes = (MIB << step for step in range(5, 9))
    rows = [row(size, busbw=busbw, inside=busbw * 0.99, checks=checks) for size in sizes]
    return "\n".join([*said, started(high=256 * MIB), header(), *rows, FOOTER])


HANG = "\n".join([P2P, started(), header()])
OFF = (TAKEN, SHM)


def read(text: str) -> list[Entry]:
    return explain(Source("f", text)) if text else []


def advise(default: str, topology: str, **legs: str) -> Recommendation:
    others = {name: read(text) for name, text in legs.items()}
    return recommend(read(default), others, read(topology))


@pytest.mark.parametrize(
    ("default", "off", "topology", "env", "reason"),
    [
        # P2P that hangs or corrupts on PCIe: off, and the cause to mend first.
        (HANG, run(18.0, *OFF), PCIE, {"NCCL_P2P_DISABLE": "1"}, "Mend the cause first"),
        (
            run(20.0, P2P, checks=("9", "9")),
            run(18.0, *OFF),
            PCIE,
            {"NCCL_P2P_DISABLE": "1"},
            "gave 72 wrong elements",
        ),
        # Faster without it by more than 10 %: off. By less: leave unset.
        (run(15.0, P2P), run(20.0, *OFF), PCIE, {"NCCL_P2P_DISABLE": "1"}, "Without P2P it is"),
        (run(19.0, P2P), run(20.0, *OFF), PCIE, {}, "no difference beyond"),
        (run(22.0, P2P), run(18.0, *OFF), PCIE, {}, "the defaults measured best"),
        # NVLink is never turned off, and never where nobody knows.
        (HANG, run(18.0, *OFF), NVLINK, {}, "a defect to mend"),
        (HANG, run(18.0, *OFF), PAIRS, {"NCCL_P2P_LEVEL": "NVL"}, "Run the leg nvlink_only"),
        (run(19.0, P2P), run(20.0, *OFF), PAIRS, {}, "no difference beyond"),
        (HANG, HANG, PAIRS, {}, "P2P is not shown to be the cause"),
        (HANG, run(18.0, *OFF), "", {}, "whether NVLinks are active could not be read"),
        # What does not prove anything.
        (HANG, HANG, PCIE, {}, "P2P is not shown to be the cause"),
        (HANG, run(18.0, P2P), PCIE, {}, "NCCL used P2P"),
        (run(15.0, P2P), "no log", PCIE, {}, "its file holds no run of nccl-tests"),
        ("no log", run(15.0, *OFF), PCIE, {}, "holds no run of nccl-tests to compare"),
    ],
)
def test_decisions(default: str, off: str, topology: str, env: dict[str, str], reason: str) -> None:
    told = advise(default, topology, p2p_off=off)
    assert told.env == env, told.reasons
    assert any(reason in each for each in told.reasons), told.reasons


def test_a_leg_that_kept_the_nvlinks_decides_on_a_node_with_both_kinds() -> None:
    level = "node7:1:2 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to NVL"
    linked = run(30.0, level, SHM, P2P)
    told = advise(HANG, PAIRS, p2p_off=run(18.0, *OFF), nvlink_only=linked)
    assert told.env == {"NCCL_P2P_LEVEL": "NVL"}
    assert "Run the leg nvlink_only" not in "".join(told.reasons)
    told = advise(HANG, PAIRS, p2p_off=run(18.0, *OFF), nvlink_only=HANG.replace(P2P, level))
    assert told.env == {}, told.reasons


@pytest.mark.parametrize(
    ("product", "env"),
    [
        ("NVIDIA GeForce RTX 4090", {"NCCL_P2P_DISABLE": "1"}),
        ("NVIDIA L40S", {"NCCL_P2P_DISABLE": "1"}),
        ("NVIDIA A40", {}),
        ("NVIDIA GeForce RTX 3090", {}),
    ],
)
def test_a_product_without_nvlink_needs_no_topology(product: str, env: dict[str, str]) -> None:
    default, off = (text.replace("GPU X", product) for text in (HANG, run(18.0, *OFF)))
    assert advise(default, "", p2p_off=off).env == env


def test_of_a_part_of_the_gpus_only_all_or_none_is_known() -> None:
    off = run(18.0, *OFF)
    for way, env in (("PHB", {"NCCL_P2P_DISABLE": "1"}), ("NV12", {})):
        assert advise(HANG, tabs(square(gpus(8), [way])), p2p_off=off).env == env


def test_the_collectives_decide_together() -> None:
    """P2P helps one and harms the other: nothing to set for both."""
    default = run(22.0, P2P) + "\n" + run(4.0).replace("all_reduce", "alltoall")
    off = run(18.0, *OFF) + "\n" + run(18.0).replace("all_reduce", "alltoall")
    told = advise(default, PCIE, p2p_off=off)
    assert told.env == {}
    assert any("it depends on the collective" in each for each in told.reasons), told.reasons


def test_legs_of_different_ranks_are_not_compared() -> None:
    eight = run(20.0, *OFF).replace("nGpus 4", "nGpus 8")
    eight = "\n".join(line for line in eight.splitlines() if "Rank" not in line)
    rows = [row(MIB << step, busbw=20.0, factor=1.75) for step in range(5, 9)]
    told = advise(run(20.0, P2P), PCIE, p2p_off="\n".join([*OFF, header(), *rows]))
    assert told.env == {}
    assert "different numbers of ranks (4, 8)" in told.reasons[0]


def test_what_is_taken_on_trust_is_said() -> None:
    told = advise(run(22.0).replace("iters: 25", ""), PCIE, p2p_off=run(18.0))
    text = "\n".join(told.reasons)
    assert "leg default: its log does not say which way the data went" in text
    assert "leg default: its log does not say how often a size was timed" in text
    assert "leg p2p_off: its log does not say how often" not in text


def test_json_shape() -> None:
    told = advise(run(22.0), PCIE, p2p_off=run(18.0)).to_dict()
    assert list(told) == ["env", "reasons"]
    assert isinstance(told["reasons"], list)
