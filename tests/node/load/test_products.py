from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from hwcheck.node.load import products
from hwcheck.node.load.device import Cpu
from hwcheck.node.load.products import BATCH, LEAST_BATCH, PAIRS, Products, bits, size_for
from hwcheck.node.torch_runtime import torch
from tests.node.load import faulty_burn

GIB = 1 << 30
TOOK_S = 0.01
PER_BATCH = 10
FIRST = PAIRS + 1
"""Products before the first batch: those that are the measure, and the one that is timed."""


@pytest.fixture
def device() -> Any:
    """The CPU at a size that takes no time."""
    small = SimpleNamespace(name="cpu", dtype="fp32", processors=1, free_bytes=GIB, size_limit=256)
    small.mark, small.wait = (lambda: 0.0), (lambda mark: None)
    small.span_s = lambda start, end: TOOK_S
    return small


def corrupt(monkeypatch: pytest.MonkeyPatch, which: int, bit: int) -> None:
    """Flip a bit in one product of all, counted from 1."""
    healthy, calls = products.multiply, []

    def multiply(left: Any, right: Any, out: Any) -> None:
        healthy(left, right, out)
        calls.append(1)
        if len(calls) == which:
            faulty_burn.flip(out, bit)

    monkeypatch.setattr(products, "multiply", multiply)


@pytest.mark.parametrize(
    ("processors", "free_gib", "dtype", "size"),
    [
        (132, 139, "bf16", 8192),  # H100 SXM, H200
        (108, 38, "bf16", 8192),  # A100
        (40, 14, "fp16", 4096),  # T4
        (148, 180, "bf16", 8192),  # B200
        (132, 139, "fp32", 8192),
        (128, 1, "bf16", 4096),  # a large chip with little room
        (6, 4, "fp32", 2048),
    ],
)
def test_the_size_fits_the_chip(processors: int, free_gib: int, dtype: str, size: int) -> None:
    chip = SimpleNamespace(
        processors=processors, free_bytes=free_gib * GIB, dtype=dtype, size_limit=16384
    )
    assert size_for(chip) == size


def test_the_exercise_is_small() -> None:
    assert size_for(Cpu()) == 512


def test_healthy_products_are_all_alike(device: Any) -> None:
    one, other = Products(device), Products(device)
    for _ in range(3):
        one.batch()
    assert one.wrong() == 0
    assert one.digest() == other.digest()
    assert len(one.digest()) == 16


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("which", [1, PER_BATCH // 2, PER_BATCH])
def test_one_flipped_bit_anywhere_in_a_batch_is_one_wrong_product(
    monkeypatch: pytest.MonkeyPatch, device: Any, dtype: str, which: int
) -> None:
    device.dtype = dtype
    healthy = Products(device).digest()
    corrupt(monkeypatch, FIRST + PER_BATCH + which, bit=0)
    matrices = Products(device)
    counts = []
    for _ in range(3):
        assert len(matrices.batch()) == PER_BATCH
        counts.append(matrices.wrong())
    assert counts == [0, 1, 1]
    assert matrices.digest() == healthy


@pytest.mark.parametrize("bit", [0, 14, 30])
def test_a_flipped_bit_in_the_first_product_changes_the_digest(
    monkeypatch: pytest.MonkeyPatch, device: Any, bit: int
) -> None:
    healthy = Products(device).digest()
    corrupt(monkeypatch, 1, bit)
    matrices = Products(device)
    assert matrices.digest() != healthy
    matrices.batch()
    assert matrices.wrong() == (PER_BATCH + 1 + 1) // PAIRS  # every later one differs from it


def test_a_product_that_is_not_written_is_wrong(
    monkeypatch: pytest.MonkeyPatch, device: Any
) -> None:
    healthy, calls = products.multiply, []

    def multiply(left: Any, right: Any, out: Any) -> None:
        calls.append(1)
        if len(calls) != FIRST + 4:
            healthy(left, right, out)

    matrices = Products(device)
    monkeypatch.setattr(products, "multiply", multiply)
    calls[:] = [1] * FIRST
    matrices.batch()
    assert matrices.wrong() == 1


@pytest.mark.parametrize(
    ("took_s", "per_batch"),
    [(0.0015, BATCH), (0.01, 10), (0.04, LEAST_BATCH), (3.0, LEAST_BATCH), (0.0, BATCH)],
)
def test_a_batch_is_short_on_slow_chips_too(device: Any, took_s: float, per_batch: int) -> None:
    device.span_s = lambda start, end: took_s
    assert Products(device).per_batch == per_batch


def test_bits_are_compared_and_not_values() -> None:
    odd = torch.tensor([[float("nan"), 1.0, 0.0, 1.0]])
    other = torch.tensor([[float("nan"), 1.0, -0.0, 1.0]])
    assert (bits(odd) == bits(other)).tolist() == [[True, False]]


def test_the_product_is_that_of_the_factors(device: Any) -> None:
    left, right, first = Products(device)._sets[0]
    assert torch.allclose(first.view(torch.float32), left @ right)
    assert 0.9 < float(left.std()) < 1.1
