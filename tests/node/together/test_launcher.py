"""The launcher's own decisions; its way with ranks is tested where it is started (test_launch)."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from hwcheck.contract.collective_spec import CollectiveSpec
from hwcheck.node.together import launcher

runtime = pytest.importorskip("hwcheck.node.collective.runtime")
torch_runtime = pytest.importorskip("hwcheck.node.torch_runtime")


def spec(**changes: Any) -> CollectiveSpec:
    values = {"ranks": 2, "gpus": 0, "budget_s": 1.0, "memory_available_bytes": 1 << 30}
    return CollectiveSpec(("all_reduce",), **(values | changes))


def test_torch_without_cuda_is_no_problem_on_the_cpu() -> None:
    assert launcher.torch_problem(spec()) == ""


def test_copies_between_gpus_need_no_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "missing_cuda", lambda: "torch 2 has no NCCL")
    monkeypatch.setattr(torch_runtime, "missing_cuda", lambda: "")
    orders = spec(gpus=2, pairs=True)
    assert launcher.torch_problem(orders).startswith("torch 2 has no NCCL")
    assert launcher.torch_problem(replace(orders, collectives=())) == ""


def test_gpus_need_a_torch_with_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "missing_cuda", lambda: "torch 2 has no CUDA")
    problem = launcher.torch_problem(spec(gpus=2))
    assert problem.startswith(f"torch 2 has no CUDA under {sys.executable}: set hwcheck_torch_pyth")
