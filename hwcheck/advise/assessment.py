"""A run, judged whole: what every renderer is handed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hwcheck.advise.actions import advise
from hwcheck.advise.catalogue import Catalogue
from hwcheck.advise.records import Advice
from hwcheck.judge.coverage import require
from hwcheck.judge.judge import judge
from hwcheck.judge.records import Judgement
from hwcheck.results.multi_host import MultiHostRecord
from hwcheck.results.run_folder import Run
from hwcheck.results.series import VisitSeries
from hwcheck.results.training import TrainingRecord

if TYPE_CHECKING:
    from hwcheck.judge.past import Past


@dataclass(frozen=True)
class LastRuns:
    """The last runs of one host before this one, the oldest first.

    ``outcomes`` are when each began (UTC) and what came out. ``figures`` are those of which the
    host has a complaint now, by check, metric and subject: a value for each of these runs, None
    where there was none.
    """

    outcomes: tuple[tuple[str, str], ...]
    figures: Mapping[tuple[str, str, str], tuple[float | None, ...]]


@dataclass(frozen=True)
class Assessment:
    """What a run measured, how it was judged and what to do about it.

    ``catalogue`` is what it was judged and is shown by. ``multi_host`` is what was run over several
    hosts, and ``training`` a training benchmark, None where there was none; ``series`` has what
    GPUs showed at work, of the hosts whose series are drawn; ``last_runs`` those of hosts that did
    not pass.
    """

    run: Run
    judgement: Judgement
    advice: Advice
    catalogue: Catalogue
    multi_host: MultiHostRecord | None = None
    training: TrainingRecord | None = None
    series: Mapping[str, VisitSeries] = field(default_factory=dict)
    last_runs: Mapping[str, LastRuns] = field(default_factory=dict)


def assess(
    run: Run,
    catalogue: Catalogue,
    multi_host: MultiHostRecord | None = None,
    required_percent: float | None = None,
    past: Past | None = None,
    training: TrainingRecord | None = None,
) -> Assessment:
    """Judge a run and say what to do about it.

    With ``required_percent`` a run of which less was measured, on any host, does not pass.
    ``past`` is what former runs of these hosts measured. ``series`` are left out: they are large,
    and which are drawn depends on the judgement.
    """
    judgement = judge(run, catalogue, multi_host, past, training)
    if required_percent is not None:
        judgement = require(judgement, required_percent)
    advice = advise(run, judgement, catalogue, multi_host, training)
    return Assessment(run, judgement, advice, catalogue, multi_host, training)
