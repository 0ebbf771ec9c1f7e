"""Whether logs are of one node."""

from __future__ import annotations

import pytest

from hwcheck.explain.comparable import problems, trusted
from hwcheck.explain.explain import explain
from hwcheck.explain.records import Benchmarks
from hwcheck.explain.sources import LogFile
from tests.node.nccl_tests.logs import FOOTER, MIB, device, header, row


def log(*devices: str, before: str = "") -> list[Benchmarks]:
    (entry,) = explain(LogFile("f", "\n".join([before, *devices, header(), row(MIB), FOOTER])))
    assert isinstance(entry, Benchmarks)
    return [entry]


FOUR = [device(rank) for rank in range(4)]


def said(default: list[Benchmarks], leg: list[Benchmarks]) -> str:
    return "; ".join(problems({"default": default, "p2p_off": leg}))


def test_like_logs_have_no_problem() -> None:
    assert said(log(*FOUR), log(*FOUR)) == ""


@pytest.mark.parametrize(
    ("devices", "why"),
    [
        ([device(rank, "node8") for rank in range(4)], "the hosts differ"),
        ([each.replace("GPU X", "GPU Y") for each in FOUR], "the GPUs differ"),
        ([device(rank, bus=f"0000:8{rank}:00") for rank in range(4)], "the PCI addresses of the"),
        ([*FOUR[:3], device(3, "node8")], "leg p2p_off: its log is of 2 hosts (node7, node8)"),
        ([*FOUR[:3], device(3, index=2)], "leg p2p_off: several of its ranks share a GPU"),
    ],
)
def test_what_is_not_the_same(devices: list[str], why: str) -> None:
    assert why in said(log(*FOUR), log(*devices))


@pytest.mark.parametrize(
    "devices",
    [
        [],
        FOUR[-1:],
        [each.replace("GPU X", "") for each in FOUR],
        [device(rank, bus="0x00") for rank in range(4)],
    ],
)
def test_what_a_log_does_not_say_speaks_against_nothing(devices: list[str]) -> None:
    assert said(log(*FOUR), log(*devices)) == ""


def test_versions() -> None:
    old, new = (log(*FOUR, before=f"NCCL version {text}+cuda12.4") for text in ("2.19.3", "2.27.5"))
    assert said(old, new) == "the versions of NCCL differ (default: 2.19.3; p2p_off: 2.27.5)"
    assert said(new, new) == said(new, log(*FOUR)) == ""


def test_several_nodes_by_the_command() -> None:
    command = "$ srun -N2 ./all_reduce_perf -b 8"
    why = "leg p2p_off: its command asks for 2 nodes, and a leg is of one node"
    assert said(log(*FOUR), log(before=command)) == why
    assert said(log(*FOUR), log(*FOUR, before=command)) == "", "its list of devices says one"


def test_what_is_taken_on_trust_is_said() -> None:
    text = "\n".join(trusted("net", log()))
    assert "leg net: its log lists no devices" in text
    assert "leg net: its log does not name its NCCL" in text
    assert list(trusted("net", log(*FOUR, before="NCCL version 2.27.5+cuda12.4"))) == []
    assert list(trusted("net", [])) == []
