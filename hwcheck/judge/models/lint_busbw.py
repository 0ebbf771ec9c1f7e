"""What is wrong with a published busbw of a model."""

from __future__ import annotations

from collections.abc import Iterator

from hwcheck.judge.models.hardware import CHIPS, PCIE_GBPS
from hwcheck.judge.models.lint_text import has_word, is_source
from hwcheck.judge.models.records import SIZE, Busbw, Joined, Model

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
ALGORITHMS = ("Ring", "Tree", "NVLS", "NVLSTree", "PAT")

SHARES = (0.3, 1.1)
"""What a busbw can be of what the GPU's links carry each way. Switches that add up move it above
1; below, somebody would complain."""


def busbw_problems(busbw: Busbw, model: Model) -> Iterator[str]:
    """Yield them, one line each."""
    if busbw.unit != "GB/s":
        yield f"unit: {busbw.unit!r} and not GB/s"
    if not has_word(busbw.measure):
        yield "measure: which of several readings it is is not said"
    if not SIZE.match(busbw.size):
        yield f"size: {busbw.size!r} and not such as 8 GiB"
    if not 2 <= busbw.gpus <= 1024:
        yield f"gpus: {busbw.gpus} have no bandwidth between them"
    if busbw.collective not in COLLECTIVES:
        yield f"collective: {busbw.collective!r} and not {', '.join(COLLECTIVES)}"
    if busbw.algorithm not in ALGORITHMS:
        yield f"algorithm: {busbw.algorithm!r} and not {', '.join(ALGORITHMS)}"
    if busbw.confidence not in ("measured", "published"):
        yield f"confidence: {busbw.confidence!r} and not measured or published"
    if not is_source(busbw.source, "published"):
        yield "source: this is no source"
    if busbw.complaint and not has_word(busbw.complaint):
        yield "complaint: what is wrong is not said"
    yield from _size(busbw, model)


def _size(busbw: Busbw, model: Model) -> Iterator[str]:
    carried = _carried_gbps(busbw.joined, busbw.gpus)
    if carried is None:
        yield f"joined: {busbw.joined} is not by switches, links or pcie with what these have"
        return
    low, high = SHARES[0] * carried, SHARES[1] * carried
    if busbw.value > high or (busbw.value < low and not busbw.complaint) or busbw.value <= 0:
        yield f"value: {busbw.value:g}, and its links carry {carried:.3g} GB/s each way"
    chip, links = CHIPS.get(model.board.chip), model.figures.get("nvlink_links")
    if busbw.joined.by == "switches" and links and busbw.joined.links != links.value:
        yield f"joined: {busbw.joined.links} links, and the model has {links.value:g}"
    if busbw.joined.by == "switches" and chip and busbw.joined.links > chip.most_nvlinks:
        yield f"joined: {busbw.joined.links} links, and the chip has {chip.most_nvlinks}"


def _carried_gbps(joined: Joined, gpus: int) -> float | None:
    """Return what the GPU with the fewest links has each way, or what PCIe has."""
    if joined.by == "switches" and joined.links > 0 and joined.link_gbps > 0:
        return joined.links * joined.link_gbps
    if joined.by == "links" and joined.pairs and joined.link_gbps > 0:
        of = [sum(links for *ends, links in joined.pairs if gpu in ends) for gpu in range(gpus)]
        return min(of) * joined.link_gbps if min(of) else None
    if joined.by == "pcie" and joined.path in ("PIX", "PXB", "PHB", "NODE", "SYS"):
        return PCIE_GBPS.get(joined.pcie_generation)
    return None
