"""The arithmetic of the model, held against the model."""

from __future__ import annotations

import pytest

from hwcheck.contract.model_shape import MODELS, ModelShape

TINY = MODELS["tiny"]


def test_gpt2_is_gpt2() -> None:
    assert MODELS["gpt2"].parameters == 124_439_808  # Hugging Face, gpt2: 124.4M


def test_parameters_are_those_of_the_model() -> None:
    pytest.importorskip("torch")
    import torch

    from hwcheck.node.training.model import Transformer

    model = Transformer(TINY, "cpu", torch.float32)
    assert sum(each.numel() for each in model.parameters()) == TINY.parameters


def test_parts_of_a_model_are_those_of_the_whole() -> None:
    pytest.importorskip("torch")
    import torch

    from hwcheck.node.training.model import Transformer

    whole = Transformer(TINY, "cpu", torch.float32).state_dict()
    for layers in ((0, 2), (2, 4)):
        for name, value in Transformer(TINY, "cpu", torch.float32, layers).state_dict().items():
            assert torch.equal(value, whole[name]), name


def test_flops_are_those_that_torch_counts() -> None:
    pytest.importorskip("torch")
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    from hwcheck.node.training.model import Transformer, loss_of

    model = Transformer(TINY, "cpu", torch.float32)
    tokens = torch.zeros(2, TINY.sequence, dtype=torch.int64)
    # It counts no fused attention on the CPU, and this one in full.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        loss_of(model(tokens), tokens).backward()
    assert TINY.model_flops(2) == pytest.approx(counter.get_total_flops())
    assert TINY.hardware_flops(2) < TINY.model_flops(2)


def test_a_shape_comes_back() -> None:
    assert ModelShape.from_dict(TINY.to_dict()) == TINY
