"""What every strategy is: a name, the groups of its ranks, and how it wraps the model.

Standard library only: the controller reads the same files to refuse what cannot be split, and torch
is imported by ``wrap``, on the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional, Tuple

from hwcheck.contract.model_shape import ModelShape

Version = Tuple[int, int]


@dataclass(frozen=True)
class Degrees:
    """How many ways the work is split; their product is the number of ranks.

    ``replicate`` and ``shard`` split the batch, ``shard`` also the model's state; ``tensor`` splits
    every layer and ``pipeline`` the layers. Ranks count in this order, the last one fastest, so
    that the ranks of one tensor group are neighbors.
    """

    pipeline: int = 1
    replicate: int = 1
    shard: int = 1
    tensor: int = 1

    @property
    def data(self) -> int:
        """Into how many shares the batch is split."""
        return self.replicate * self.shard

    @property
    def ranks(self) -> int:
        """The product."""
        return self.pipeline * self.data * self.tensor

    def __str__(self) -> str:
        names = (("PP", self.pipeline), ("DP", self.replicate), ("FSDP", self.shard))
        parts = ["%s %d" % pair for pair in (*names, ("TP", self.tensor)) if pair[1] > 1]
        return " x ".join(parts) or "1"


def host_groups(ranks: int, hosts: int) -> int:
    """Return into how many equal parts ranks fall by their hosts.

    Two where there is one host, or a rank on each: no two of them are nearer than others.
    """
    return hosts if 1 < hosts < ranks else 2


@dataclass(frozen=True)
class Strategy:
    """One way to train over several ranks.

    ``degrees(ranks, hosts)`` are its groups, ``wrap(job)`` returns what takes a step
    (``steps.Replica`` or ``steps.Pipeline``). It runs from torch ``since`` on, over gloo from
    ``since_gloo``. ``gap`` is the first and the last version of those in between that cannot,
    and why; ``least`` ranks make it what it is. ``stages`` is how many parts of the layers
    a rank of its pipeline has. ``one_process``: the first rank has the GPUs of all, on one host,
    and its copies do not go through NCCL, so that legs do not describe it. ``control``: it
    computes something else than the model, on purpose.
    """

    name: str
    label: str
    degrees: Callable[[int, int], Degrees]
    wrap: Callable[[Any], Any]
    since: Version = (2, 0)
    since_gloo: Version = (2, 0)
    gap: Optional[Tuple[Version, Version, str]] = None
    least: int = 2
    stages: int = 1
    cuda_only: str = ""
    one_process: bool = False
    control: bool = False

    def refuses_torch(self, version: Version, *, cuda: bool) -> str:
        """Return why this torch cannot, or an empty text."""
        since = self.since if cuda else max(self.since, self.since_gloo)
        if self.gap and self.gap[0] <= version <= self.gap[1]:
            first, last, why = self.gap
            return "torch %d.%d: %s (%d.%d to %d.%d)" % (*version, why, *first, *last)
        if version >= since:
            return ""
        over = "" if cuda else " over gloo"
        return "torch %d.%d: %s runs from %d.%d on%s" % (*version, self.label, *since, over)

    def refuses(self, shape: ModelShape, ranks: int, hosts: int, *, cuda: bool) -> str:
        """Return why so many ranks cannot train this model so, or an empty text."""
        if ranks < self.least:
            return "%s takes %d ranks or more" % (self.label, self.least)
        if self.cuda_only and not cuda:
            return self.cuda_only
        if self.one_process and hosts > 1:
            return "%s is one process, of one host" % self.label
        degrees = self.degrees(ranks, hosts)
        if degrees.ranks != ranks:
            return "%d ranks cannot be split into %s" % (ranks, degrees)
        for what, width in (("heads", shape.heads), ("hidden", shape.hidden)):
            if width % degrees.tensor:
                return "%d %s cannot be split by TP %d" % (width, what, degrees.tensor)
        if shape.sequence % degrees.tensor:
            return "a sequence of %d cannot be split by TP %d" % (shape.sequence, degrees.tensor)
        parts = degrees.pipeline * self.stages
        if degrees.pipeline > 1 and shape.layers % parts:
            return "%d layers cannot be split into %d stages" % (shape.layers, parts)
        return ""
