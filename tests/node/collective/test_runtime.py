import pytest

pytest.importorskip("torch")

from hwcheck.contract.collective_spec import MIB, CollectiveSpec
from hwcheck.node.collective import runtime
from hwcheck.node.collective.runtime import torch


def test_cpu_ranks_share_the_memory() -> None:
    cpu = runtime.device(CollectiveSpec(("all_reduce",), 4, 0, 1.0, 64 * MIB), 0)
    assert (cpu.name, cpu.free_bytes) == ("cpu", 16 * MIB)
    assert cpu.library() == "gloo (torch {})".format(torch.__version__.split("+")[0])


def test_warm_ups_are_run_and_not_timed() -> None:
    cpu = runtime.device(CollectiveSpec(("all_reduce",), 2, 0, 1.0, MIB), 0)
    runs: list[int] = []
    times_us = cpu.time_us(lambda: runs.append(1), 5, 20)
    assert (len(runs), len(times_us)) == (25, 20)
    assert all(0 <= time_us < 1e6 for time_us in times_us)


@pytest.mark.parametrize(
    ("cuda", "nccl", "wanted"),
    [(None, True, "has no CUDA"), ("13.0", False, "has no NCCL"), ("13.0", True, "")],
)
def test_what_torch_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch, cuda: str, nccl: bool, wanted: str
) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(runtime.dist, "is_nccl_available", lambda: nccl)
    problem = runtime.missing_cuda()
    assert problem == (f"torch {torch.__version__} {wanted}" if wanted else "")


def test_after_each_run_a_word_may_be_said() -> None:
    cpu = runtime.device(CollectiveSpec(("all_reduce",), 2, 0, 1.0, MIB), 0)
    order: list[str] = []
    cpu.time_us(lambda: order.append("run"), 1, 2, lambda: order.append("said"))
    assert order == ["run", "said"] * 3
