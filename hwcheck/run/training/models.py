"""``--model``: one of ours by its name, or the sizes in a config.json of Hugging Face."""

from __future__ import annotations

import json
from pathlib import Path

from hwcheck.contract.model_shape import MODELS, ModelShape
from hwcheck.errors import UsageError

USUAL = "gpt2"
CONFIG = "a config.json"
KEYS = {
    "layers": ("n_layer", "num_hidden_layers"),
    "hidden": ("n_embd", "hidden_size"),
    "heads": ("n_head", "num_attention_heads"),
    "vocabulary": ("vocab_size",),
    "sequence": ("n_positions", "max_position_embeddings"),
}
"""The sizes of a model, by their names in a config.json of Hugging Face."""
MOST_SIZE = 10_000_000


def read_model(name: str) -> ModelShape:
    """Return the model of that name, the usual one for none, or of a file. Raises UsageError."""
    if not name or name in MODELS:
        return MODELS[name or USUAL]
    if not name.endswith(".json"):
        raise UsageError(f"--model {name}: it is one of {', '.join((*MODELS, CONFIG))}")
    try:
        data = json.loads(Path(name).read_text("utf-8"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or f"no JSON ({error})"
        raise UsageError(f"--model {name}: {why}") from None
    sizes = {}
    for size, keys in KEYS.items():
        value = next((data[key] for key in keys if isinstance(data, dict) and key in data), None)
        if type(value) is not int or not 0 < value <= MOST_SIZE:
            raise UsageError(f"--model {name}: it needs {' or '.join(keys)}, a whole number")
        sizes[size] = value
    if sizes["hidden"] % sizes["heads"]:
        raise UsageError(
            f"--model {name}: hidden {sizes['hidden']} is no multiple of {sizes['heads']} heads"
        )
    return ModelShape(Path(name).stem[:80], **sizes)
