"""A run, judged whole: what every renderer is handed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hwcheck.advise.records import Advice
from hwcheck.judge.records import Judgement
from hwcheck.results.multi_host import GroupRecord
from hwcheck.results.run_folder import Run
from hwcheck.results.series import Observed


@dataclass(frozen=True)
class Assessment:
    """What a run measured, how it was judged and what to do about it.

    ``multi_host`` is what was run over several hosts, None where nothing was; ``series`` has what
    GPUs showed at work, of the hosts whose series are drawn.
    """

    run: Run
    judgement: Judgement
    advice: Advice
    multi_host: GroupRecord | None = None
    series: Mapping[str, Observed] = field(default_factory=dict)
