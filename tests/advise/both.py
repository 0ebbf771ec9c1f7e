"""Hosts that measured all_reduce and alltoall, as ``validate`` does by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hwcheck.advise.nccl_settings import advise_nccl
from hwcheck.advise.records import NO_CAUSES, Causes, NcclAdvice
from hwcheck.contract.wire import CheckResult, Leg
from hwcheck.results.run_folder import HostRecord, Run
from tests.factories import CHECKS, as_alltoall, gpu_facts, record, results

WITH_ALLTOALL = (*CHECKS, "alltoall")
"""The checks of a run of such hosts."""


def both(
    host: str,
    reduce: Sequence[Leg],
    others: Sequence[Leg] | None = None,
    *,
    gpu_name: str = "NVIDIA H100 80GB HBM3",
    nvlink_links: Any = 0,
) -> HostRecord:
    """A host with 8 GPUs; ``others`` are its legs of alltoall, as of all_reduce where not given."""
    legs = tuple(map(as_alltoall, reduce if others is None else others))
    answers = [*results(reduce), CheckResult("alltoall", "done", legs=legs)]
    return record(host, answers, gpus=gpu_facts(8, gpu_name, nvlink_links))


def cluster_advice(run: Run, causes: Causes = NO_CAUSES) -> NcclAdvice:
    """The NCCL settings for all hosts of a run."""
    cluster, _ = advise_nccl(run, causes)
    return cluster
