"""What logs of several legs prove together."""

from __future__ import annotations

import pytest

from hwcheck.explain.explain import explain
from hwcheck.explain.recommendation import Recommendation, recommend
from hwcheck.explain.records import Entry
from hwcheck.explain.sources import LogFile
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


def A2A(busbw: float, *said: str, checks: tuple[str, str] = ("0", "0")) -> str:  # noqa: N802
    """The same of alltoall."""
    sizes = (MIB << step for step in range(5, 9))
    rows = [row(size, busbw=busbw, factor=0.75, checks=checks, n=4) for size in sizes]
    return "\n".join([*said, started("alltoall_perf", high=256 * MIB), header(), *rows, FOOTER])


def BOTH(busbw: float, *said: str) -> str:  # noqa: N802
    return run(busbw, *said) + "\n" + A2A(busbw)


DISABLE = {"NCCL_P2P_DISABLE": "1"}
HANG = "\n".join([P2P, started(), header()])
OFF = (TAKEN, SHM)


def read(text: str) -> list[Entry]:
    return explain(LogFile("f", text)) if text else []


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
        (
            BOTH(15.0, P2P),
            BOTH(20.0, *OFF),
            PCIE,
            {"NCCL_P2P_DISABLE": "1"},
            "Without P2P it is",
        ),
        (BOTH(15.0, P2P), BOTH(20.0, *OFF), PAIRS, {"NCCL_P2P_LEVEL": "NVL"}, "nvlink_only"),
        # One collective alone is no proof of a gain for the other.
        (run(15.0, P2P), run(20.0, *OFF), PCIE, {}, "no leg of alltoall was measured"),
        (run(15.0, P2P), run(20.0, *OFF), PAIRS, {}, "no leg of alltoall was measured"),
        (A2A(2.0, P2P), A2A(18.0, *OFF), PCIE, {}, "no leg of all_reduce was measured"),
        (A2A(20.0, P2P, checks=("9", "9")), A2A(18.0, *OFF), PCIE, DISABLE, "wrong elements"),
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


KILLED = "mpirun noticed that process rank 3 on node n1 exited on signal 9 (Killed)."


def cut(text: str, *said: str) -> str:
    """A log without its footer and its last two sizes."""
    return "\n".join([*text.replace(FOOTER, "").rstrip().split("\n")[:-2], *said])


@pytest.mark.parametrize("said", [(), (KILLED,), ("Test NCCL failure common.cu:959",)])
def test_a_log_that_did_not_come_to_its_end_sets_nothing(said: tuple[str, ...]) -> None:
    """Control: the same logs, whole, prove a setting."""
    on, off = BOTH(15.0, P2P), BOTH(20.0, *OFF)
    assert advise(on, PCIE, p2p_off=off).env == DISABLE
    hang, mended = run(20.0, P2P, checks=("9", "9")), run(18.0, *OFF)
    assert advise(hang, PCIE, p2p_off=mended).env == DISABLE
    for default, leg in ((on, cut(off, *said)), (cut(on, *said), off), (hang, cut(mended, *said))):
        told = advise(default, PCIE, p2p_off=leg)
        assert told.env == {}, told.reasons
        why = "it broke off after" if said else "the rows end at 64 MiB of 256 MiB"
        assert why in told.reasons[0]
        assert any("is no proof of a clean run: " + why in each for each in told.reasons)


COMMAND = "$ {}./build/all_reduce_perf -b 32M -e 256M -f 2 -g 4"


def test_logs_that_were_swapped_set_nothing() -> None:
    on = COMMAND.format("") + "\n" + BOTH(15.0)
    off = COMMAND.format("NCCL_P2P_DISABLE=1 ") + "\n" + BOTH(20.0)
    assert advise(on, PCIE, p2p_off=off).env == DISABLE
    swapped = advise(off.replace("20.00", "15.00"), PCIE, p2p_off=on)
    assert swapped.env == {}
    assert "it ran with NCCL_P2P_DISABLE=1, and its plan is no variable" in swapped.reasons[0]
    unset = advise(on, PCIE, p2p_off=COMMAND.format("") + "\n" + BOTH(20.0))
    assert unset.env == {}
    assert "it ran with no variable, and its plan is NCCL_P2P_DISABLE=1" in unset.reasons[0]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("GPU X", "NVIDIA L40S"), "the GPUs differ (default: GPU X; p2p_off: L40S)"),
        (("node7 device", "node8 device"), "the hosts differ (default: node7; p2p_off: node8)"),
        (("library=22809", "library=21903"), "the versions of NCCL differ (default: 2.28.9; p2p_"),
        (("[0000:14:00]", "[0000:94:00]"), "the PCI addresses of the GPUs differ"),
    ],
)
def test_logs_that_are_not_of_one_node_are_refused(change: tuple[str, str], why: str) -> None:
    on, off = BOTH(15.0, P2P), BOTH(20.0, *OFF)
    told = advise(on, PCIE, p2p_off=off.replace(*change))
    assert told.env == {}
    assert why in told.reasons[0]
    same = advise(on.replace(*change), PCIE, p2p_off=off.replace(*change))
    assert same.env == DISABLE, same.reasons


def test_a_log_of_two_hosts_is_no_leg_of_a_node() -> None:
    two = [
        text.replace("Rank  3 Group  0 Pid  703 on      node7", "Rank  3 Group  0 Pid  703 on n8")
        for text in (BOTH(15.0, P2P), BOTH(20.0, *OFF))
    ]
    told = advise(two[0], PCIE, p2p_off=two[1])
    assert told.env == {}
    assert "leg default: its log is of 2 hosts (n8, node7)" in told.reasons[0]


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


def test_a_log_that_cannot_be_read_proves_nothing() -> None:
    """A hang of the default is mended by p2p_off; a damaged table is no hang."""
    assert advise(HANG, PCIE, p2p_off=run(18.0, *OFF)).env == {"NCCL_P2P_DISABLE": "1"}
    damaged = run(22.0).replace(header(), "#  size   count   type   redop   root   time   busbw")
    assert damaged != run(22.0)
    told = advise(damaged, PCIE, p2p_off=run(18.0, *OFF))
    assert told.env == {}, told.reasons
    assert "the header has 4 columns after the type, and a row 10" in "".join(told.reasons)


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
