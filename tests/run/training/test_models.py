"""``--model``: names, and files of Hugging Face."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hwcheck.contract.model_shape import MODELS
from hwcheck.errors import UsageError
from hwcheck.run.training.models import read_model


def test_a_name_is_one_of_ours_and_none_the_usual() -> None:
    assert (read_model("tiny"), read_model("")) == (MODELS["tiny"], MODELS["gpt2"])


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"n_layer": 2}, "it needs n_embd or hidden_size, a whole number"),
        (
            {"n_layer": 2, "n_embd": 65, "n_head": 4, "vocab_size": 9, "n_positions": 8},
            "hidden 65 is no multiple of 4 heads",
        ),
        ([], "it needs n_layer or num_hidden_layers"),
    ],
)
def test_a_model_that_is_none_is_refused(tmp_path: Path, config: object, words: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    with pytest.raises(UsageError, match=words):
        read_model(str(file))


def test_a_config_of_hugging_face_is_a_model(tmp_path: Path) -> None:
    sizes = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}
    more = {"vocab_size": 100, "max_position_embeddings": 32, "model_type": "any"}
    file = tmp_path / "small.json"
    file.write_text(json.dumps({**sizes, **more}))
    shape = read_model(str(file))
    assert (shape.name, shape.layers, shape.sequence) == ("small", 2, 32)
