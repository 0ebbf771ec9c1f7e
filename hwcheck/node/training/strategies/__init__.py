"""The strategies, one file each; ``NAMES`` has them in the order of reports."""

from __future__ import annotations

from importlib import import_module

from hwcheck.node.training.strategy import Strategy

NAMES = (
    "single",
    "dp",
    "ddp",
    "zero1",
    "zero2",
    "zero2_offload",
    "zero3",
    "zero3_offload",
    "hsdp",
    "tp",
    "tp_sp",
    "pp_naive",
    "pp_gpipe",
    "pp_1f1b",
    "pp_interleaved",
    "dp_tp",
    "dp_pp",
    "tp_pp",
    "3d",
    "zero1_3d",
)
CONTROLS = ("ddp_over_tp",)
"""Strategies that are wrong on purpose: parity has to catch them."""

_FILES = {"3d": "three_d"}


def load(name: str) -> Strategy:
    """Return the strategy of that name; torch is not imported. Raises KeyError."""
    if name not in (*NAMES, *CONTROLS):
        raise KeyError(name)
    module = import_module("%s.%s" % (__name__, _FILES.get(name, name)))
    strategy: Strategy = module.STRATEGY
    return strategy


def label_of(name: str) -> str:
    """Return how reports name a strategy; a name that is not known here as it is."""
    return load(name).label if name in (*NAMES, *CONTROLS) else name
