from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from hwcheck.node.load.device import Cpu, Cuda, arithmetic, has_code, open_device
from hwcheck.node.load.spec import MIB, BurnSpec, Target
from hwcheck.node.torch_runtime import torch

GIB = 1 << 30


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("wanted", "capability", "given"),
    [
        ("auto", (9, 0), "bf16"),
        ("auto", (8, 0), "bf16"),
        ("auto", (7, 5), "fp16"),
        ("auto", (6, 1), "fp32"),
        ("bf16", (7, 0), "fp16"),
        ("fp16", (9, 0), "fp16"),
        ("tf32", (8, 6), "tf32"),
        ("tf32", (7, 5), "fp32"),
        ("fp32", (9, 0), "fp32"),
    ],
)
def test_what_the_gpu_lacks_is_replaced(
    wanted: str, capability: tuple[int, int], given: str
) -> None:
    assert arithmetic(wanted, capability) == given


@pytest.mark.parametrize(
    ("built", "capability", "has"),
    [
        (["sm_80", "sm_90"], (9, 0), True),
        (["sm_80", "sm_90"], (8, 9), True),
        (["sm_80", "sm_90"], (12, 0), False),
        (["sm_80", "compute_90"], (12, 0), True),
        (["sm_90a", "sm_100f", "sm_120"], (12, 0), True),
        (["sm_86"], (8, 0), False),
        (["sm_70", "sm_80"], (6, 1), False),
        ([], (6, 1), True),
    ],
)
def test_torch_may_have_no_code_for_a_gpu(
    built: list[str], capability: tuple[int, int], has: bool
) -> None:
    assert has_code(built, capability) is has


def test_a_gpu_that_torch_has_no_code_for(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = (
        r"^torch \S+ has code for sm_80 and none for this GPU \(sm_90\): set hwcheck_torch_python"
    )
    with pytest.raises(RuntimeError, match=wanted):
        cuda(monkeypatch, GIB, gpus(1, GIB), built=["sm_80"])


def test_the_exercise_is_small_and_on_one_thread() -> None:
    device = open_device(BurnSpec((), 1.0))
    assert isinstance(device, Cpu)
    assert (device.name, device.dtype, torch.get_num_threads()) == ("cpu", "fp32", 1)
    assert device.library.endswith("on the CPU")
    assert len(device.host_buffer(100)) == 100


def test_time_passes_between_marks() -> None:
    device = Cpu()
    start = device.mark()
    torch.ones(1000).sum()
    end = device.mark()
    device.wait(end)
    assert 0 < device.span_s(start, end) < 60


def cuda(
    monkeypatch: pytest.MonkeyPatch,
    free_bytes: int,
    spec: BurnSpec,
    built: Sequence[str] = ("sm_80", "sm_90"),
) -> Cuda:
    """Open the device of a chip like an H200 with so much memory free."""
    facts = SimpleNamespace(major=9, minor=0, multi_processor_count=132)
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: None)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: list(built))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: facts)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free_bytes, 141 * GIB))
    device = open_device(spec)
    assert isinstance(device, Cuda)
    return device


def gpus(count: int, memory_available_bytes: int, dtype: str = "auto") -> BurnSpec:
    targets = tuple(Target(f"gpu{index}", "GPU-a") for index in range(count))
    return BurnSpec(targets, 1.0, dtype, memory_available_bytes)


@pytest.mark.parametrize(
    ("free_bytes", "count", "host_bytes", "copy_mib", "link_mib"),
    [
        (139 * GIB, 8, 1024 * GIB, 4096, 256),
        (8 * GIB, 1, 64 * GIB, 2048, 256),
        (1 * GIB, 1, 64 * GIB, 256, 128),
        (139 * GIB, 8, 2 * GIB, 4096, 32),  # pinned memory of all workers: an eighth
        (139 * GIB, 8, 0, 4096, 1),
    ],
)
def test_buffers_leave_room(
    monkeypatch: pytest.MonkeyPatch,
    free_bytes: int,
    count: int,
    host_bytes: int,
    copy_mib: int,
    link_mib: int,
) -> None:
    device = cuda(monkeypatch, free_bytes, gpus(count, host_bytes))
    assert (device.copy_bytes, device.link_bytes) == (copy_mib * MIB, link_mib * MIB)
    assert (device.dtype, device.processors, device.name) == ("bf16", 132, "cuda:0")


def test_the_library_is_named_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.7.0a0+79aa17489c.nv25.04")
    monkeypatch.setattr(torch.version, "cuda", "12.9")
    monkeypatch.setattr("hwcheck.node.load.device.cublas_version", lambda: "12.9.0")
    device = cuda(monkeypatch, GIB, gpus(1, GIB))
    assert device.library == "torch 2.7.0a0+79aa17489c.nv25.04, CUDA 12.9, cuBLAS 12.9.0"


@pytest.mark.parametrize(("dtype", "precision"), [("tf32", "high"), ("fp32", "highest")])
def test_tf32_is_used_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, dtype: str, precision: str
) -> None:
    before = torch.get_float32_matmul_precision()
    try:
        cuda(monkeypatch, GIB, gpus(1, GIB, dtype))
        assert torch.get_float32_matmul_precision() == precision
    finally:
        torch.set_float32_matmul_precision(before)
