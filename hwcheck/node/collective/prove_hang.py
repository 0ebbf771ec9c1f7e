"""all_reduce in which one rank stops for good: the wall clock has to end it."""

from __future__ import annotations

from hwcheck.node.collective.all_reduce import all_reduce
from hwcheck.node.collective.sabotage import sabotaged, stop_this_process

prove_hang = sabotaged(all_reduce, "prove_hang", stop_this_process)
