"""A bandwidth over several hosts beside what others published for such hosts. Pure.

It never is a verdict: it tells a reader whether others reach more on the same machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources

from hwcheck.checks.virtualization import PRODUCT, virtualization
from hwcheck.contract.reasons import remark
from hwcheck.judge.host_case import HostCase, values_of
from hwcheck.judge.mnnvl import WAY
from hwcheck.judge.models import Models
from hwcheck.judge.models.records import Model, size_bytes
from hwcheck.judge.records import MULTI_HOST, Finding
from hwcheck.results.multi_host import MNNVL_OFF, MultiHostRun
from hwcheck.shipped import parse_yaml
from hwcheck.text import number

METRIC = "published_busbw_gbps"
SCOPES = ("pairs", "all", MNNVL_OFF)
SIZES = (0.5, 2.0)
"""Shares of the published size from which on, and up to which, figures are alike: at these sizes
busbw changes by a percent (B200: 838 GB/s at 8 GiB, 845.7 at 16)."""


@dataclass(frozen=True)
class PublishedBusbw:
    """A row of ``published.yml``; ``gpus`` are those of all hosts together."""

    model: str
    product: str
    platform: str
    hosts: int
    gpus: int
    collective: str
    size: str
    busbw_gbps: float
    source: str


@cache
def published() -> tuple[date, tuple[PublishedBusbw, ...]]:
    """Return the day of the file, and its rows."""
    text = resources.files("hwcheck.judge").joinpath("published.yml").read_text("utf-8")
    data = parse_yaml(text)
    return data["as_of"], tuple(PublishedBusbw(**row) for row in data["rows"])


def judge_published(host: HostCase, models: Models) -> Iterator[Finding]:
    """Yield for each scope the best run of a host beside each published figure that fits it."""
    for scope in SCOPES:
        runs = [
            run
            for run in (host.multi_host.runs if host.multi_host else ())
            if run.why == scope and host.name in run.hosts and run.outcome.kind == "ok"
        ]
        best = max(runs, key=lambda run: run.outcome.busbw_gbps, default=None)
        if best is not None:
            yield from (_finding(host, scope, best, row) for row in _fitting(host, best, models))


def _fitting(host: HostCase, run: MultiHostRun, models: Models) -> Iterator[PublishedBusbw]:
    """Yield the rows of such hosts, so many of them, and of the way that the data took."""
    gpus = host.facts
    model_of_gpu = [
        models.of(name, gpus.devices.get(subject, ""), gpus.subsystems.get(subject, ""))
        for subject, name in gpus.models.items()
    ]
    kinds = {model.id if model else "" for model in model_of_gpu}
    if len(kinds) != 1 or "" in kinds:
        return
    (kind,) = kinds
    product = str(values_of(host.record, virtualization, PRODUCT).get("node", "")).lower()
    by_nvlink = any(WAY in each.facts for each in run.transport)
    rows = _within_a_domain(models.by_id[kind]) if by_nvlink else published()[1]
    for row in rows:
        low, high = (share * size_bytes(row.size) for share in SIZES)
        if (
            (row.model, row.collective) == (kind, run.collective)
            and row.product in product
            and row.gpus == run.ranks
            and row.hosts in (0, len(run.hosts))
            and low <= run.sizes[-1].size_bytes <= high
        ):
            yield row


def _within_a_domain(model: Model) -> Iterator[PublishedBusbw]:
    for row in model.busbw:
        yield PublishedBusbw(
            *(model.id, "", "one NVLink domain", 0, row.gpus, row.collective, row.size),
            *(row.value, row.source),
        )


def _finding(host: HostCase, scope: str, run: MultiHostRun, row: PublishedBusbw) -> Finding:
    measured = run.outcome.busbw_gbps
    what = f"{number(row.busbw_gbps)} GB/s on {row.gpus} GPUs ({row.model}, {row.platform})"
    return Finding(
        host=host.name,
        check=MULTI_HOST,
        outcome="pass",
        metric=METRIC,
        subject=scope,
        value=measured,
        unit="GB/s",
        limit=f"none; published: {what} at {row.size}, {row.collective}",
        source=f"{row.source} (read by {published()[0]})",
        confidence="published",
        reason=remark(
            f"{number(measured)} GB/s here ({number(measured / row.busbw_gbps)} of it); "
            f"published: {what} at {row.size}"
        ),
    )
