"""all_reduce with one wrong element on one rank: the comparison has to count it."""

from __future__ import annotations

from hwcheck.node.collective.all_reduce import all_reduce
from hwcheck.node.collective.sabotage import damage_one_element, sabotaged

prove_wrong = sabotaged(all_reduce, "prove_wrong", damage_one_element)
