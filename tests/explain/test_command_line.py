"""The variables, the largest size and the hosts in the command of a log."""

from __future__ import annotations

import json

import pytest

from hwcheck.explain.command_line import commands_of

HCA = "mlx5_0,mlx5_1"


@pytest.mark.parametrize(
    ("text", "env"),
    [
        ("$ ./build/all_reduce_perf -b 8", {}),
        ("NCCL_P2P_DISABLE=1 ./build/all_reduce_perf -b 8", {"NCCL_P2P_DISABLE": "1"}),
        ("# command: NCCL_P2P_DISABLE=1 ./all_reduce_perf -g 4", {"NCCL_P2P_DISABLE": "1"}),
        ("env NCCL_ALGO='Tree' all_reduce_perf -g 4", {"NCCL_ALGO": "Tree"}),
        ("mpirun -np 8 -x NCCL_ALGO=Tree -x PATH ./all_reduce_perf -g 1", {"NCCL_ALGO": "Tree"}),
        (
            f"mpirun -x NCCL_IB_HCA={HCA} -x NCCL_A=1 ./alltoall_perf -g 1",
            {"NCCL_IB_HCA": HCA, "NCCL_A": "1"},
        ),
        ("mpiexec -genv NCCL_ALGO Ring ./all_reduce_perf -g 1", {"NCCL_ALGO": "Ring"}),
        (
            f"srun --export=ALL,NCCL_A=1,NCCL_IB_HCA={HCA},PATH=/bin all_reduce_perf -g 1",
            {"NCCL_A": "1", "NCCL_IB_HCA": HCA},
        ),
        ("docker run -e NCCL_A=1 image /all_reduce_perf -g 1", {"NCCL_A": "1"}),
        (
            "mpirun -x NCCL_A=1 \\\n  -x NCCL_B=2 \\\n  ./all_reduce_perf -g 1",
            {"NCCL_A": "1", "NCCL_B": "2"},
        ),
        ("$ export NCCL_A=1\n$ ./all_reduce_perf -g 1", {"NCCL_A": "1"}),
        ("$ export NCCL_A=1\n$ unset NCCL_A\n$ ./all_reduce_perf -g 1", {}),
        ("./all_reduce_perf -g 1 NCCL_A=1", {}),
        ("MY_NCCL_A=1 ./all_reduce_perf -g 1", {}),
    ],
)
def test_what_a_command_sets(text: str, env: dict[str, str]) -> None:
    (command,) = commands_of(text)
    assert command.env == env


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# Collective test starting: all_reduce_perf",
        "  ./build/all_reduce_perf",
        "srun: error: n1: all_reduce_perf: Exited with exit code 1",
        "n1:1:2 [0] NCCL INFO comm of all_reduce_perf -g",
        "bash: all_reduce_perf -g: command not found",
        "export NCCL_A=1",
    ],
)
def test_what_is_no_command(text: str) -> None:
    assert commands_of(text) == ()


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ("-b 8 -e 128M -f 2", 128 << 20),
        ("-e 16G", 16 << 30),
        ("--maxbytes 4096 -g 4", 4096),
        ("-b 1G -e10G", 10 << 30),
        ("-b 8", None),
    ],
)
def test_the_largest_size_that_is_asked_for(options: str, most: int | None) -> None:
    (command,) = commands_of(f"./all_reduce_perf {options}")
    assert command.max_bytes == most


@pytest.mark.parametrize(
    ("before", "nodes"),
    [
        ("", ""),
        ("mpirun -np 8", ""),
        ("srun -N1 --ntasks-per-node=8", ""),
        ("srun -N 2", "asks for 2 nodes"),
        ("srun --nodes=4", "asks for 4 nodes"),
        ("mpirun -H a:8", ""),
        ("mpirun -H a:8,b:8", "names several hosts (a:8,b:8)"),
        ("mpirun --hostfile hosts.txt", "takes its hosts from a file"),
    ],
)
def test_several_hosts(before: str, nodes: str) -> None:
    (command,) = commands_of(f"{before} ./all_reduce_perf -g 1")
    assert command.nodes == nodes


def test_what_is_handed_on_without_its_value() -> None:
    (command,) = commands_of("mpirun -x NCCL_ALGO -x PATH -x NCCL_A=1 ./all_reduce_perf -g 1")
    assert (command.passed, command.env) == (("NCCL_ALGO",), {"NCCL_A": "1"})


def test_of_the_environment_in_a_report_only_nccl_is_read() -> None:
    env = ["PATH=/bin", "TOKEN=NCCL_SECRET=1", "NCCL_P2P_DISABLE=1", 5]
    (command,) = commands_of(json.dumps({"args": ["./all_reduce_perf"], "env": env}))
    assert command.env == {"NCCL_P2P_DISABLE": "1"}
    assert commands_of('{"env": 5}') == commands_of("{") == ()
