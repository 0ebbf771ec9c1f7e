"""Every GPU computes the same product from the same matrices, each time."""

from __future__ import annotations

from typing import Dict, Iterator, List, Mapping

from hwcheck.checks.shared.load_summary import Loaded, kinds, load_of, per_loaded_gpu
from hwcheck.contract.check import (
    BY_RUN,
    WITHOUT_MIG,
    CouldNotMeasure,
    Metric,
    Remedy,
    check,
    in_words,
)
from hwcheck.contract.limits import AtMost, Equal, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

REPRODUCIBLE = (
    "NVIDIA cuBLAS documentation, Results Reproducibility: a version gives bit for bit the same "
    "result on GPUs of one architecture with as many SMs"
)
SILENT = (
    "Dixit and others (Meta), Silent Data Corruptions at Scale, 2021, and Hochschild and others "
    "(Google), Cores that don't count, 2021: chips that compute wrongly report nothing"
)


@check(
    metrics=[
        Metric(
            "wrong_products",
            "products",
            "products that are not bit for bit the GPU's first one",
            (AtMost(SILENT + "; " + REPRODUCIBLE, fail=0, confidence="published"),),
            required=True,
        ),
        Metric(
            "agrees_with_most",
            "",
            "whether its first product is that of more than half of the node's GPUs of its kind; "
            "not sent where it is the only one",
            (Equal(True, source=REPRODUCIBLE),),
            of_some="goes by its power limit and by the product that it was given",
        ),
        in_words("who disagrees with whom"),
        Metric(
            "products",
            "products",
            "products that were compared",
            required=True,
            varies=BY_RUN,
        ),
        Metric("product", "", "what was multiplied by what", required=True),
        Metric(
            "digest",
            "",
            "name of the first product",
            (like_most(REPRODUCIBLE, alike="product"),),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="a GPU that computes wrongly under load, or memory or voltage at fault that no ECC "
        "covers",
        fix="take the GPU out of service and repeat the load with it alone; when a product is "
        "wrong again, return the board: what it computed since the last clean run is in doubt",
        command="nvidia-smi -q -d ECC,ROW_REMAPPER; dcgmi diag -r 4",
    ),
    load=True,
    per_gpu=True,
    optional=WITHOUT_MIG,
    group="GPUs",
)
def compute_errors(node: Node) -> Iterator[Sample]:
    """Compare the results of all products bit for bit, over time and between GPUs.

    A chip that computes wrongly says nothing: the job ends, with a worse model or a wrong answer.
    The same product of the same matrices is done for as long as the load lasts. One that differs
    from the GPU's first is wrong. GPUs that are alike must also agree on that first one; the GPU
    that most disagree with is named, and where no result has a majority all are.
    """
    kind = kinds(node, of_boards=False)
    groups: Dict[str, List[str]] = {}
    group_of: Dict[str, List[str]] = {}
    for work in load_of(node).work:
        name = "%s %s %d" % (kind.get(work.subject, ""), work.dtype, work.size)
        group_of[work.subject] = groups.setdefault(name, [])
        if work.digest:
            groups[name].append(work.digest)
    yield from per_loaded_gpu(node, lambda loaded: _of_gpu(loaded, group_of))


def _of_gpu(loaded: Loaded, group_of: Mapping[str, List[str]]) -> Iterator[Sample]:
    work, subject = loaded.work(), loaded.subject
    if not work.products or not work.digest:
        raise CouldNotMeasure("%s: no product: %s" % (subject, work.reason or "none was done"))
    yield Sample("wrong_products", work.wrong_products, "products", subject)
    yield Sample("products", work.products, "products", subject)
    product = "%s cube of %d, %s" % (work.dtype, work.size, loaded.run.library)
    yield Sample("product", product, "", subject)
    yield Sample("digest", work.digest, "", subject)
    digests = group_of[subject]
    if len(digests) > 1:
        same = digests.count(work.digest)
        yield Sample("agrees_with_most", 2 * same > len(digests), "", subject)
        if same < len(digests):
            text = "%d of %d GPUs of its kind have its first product" % (same, len(digests))
            yield Sample("meaning", text, "", subject)
