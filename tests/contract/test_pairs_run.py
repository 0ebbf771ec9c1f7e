from __future__ import annotations

import json

from hwcheck.contract.pairs_run import PairCopy, PairsRun
from hwcheck.contract.reasons import HANG, Reason


def test_a_run_survives_the_way_from_its_process() -> None:
    copies = (PairCopy(0, 1, True, 25.0, 24.0, 3), PairCopy(1, 0, False))
    run = PairsRun(copies, Reason(HANG, "gpu0-gpu2: killed"), ("gpu0-gpu2",), "answers")
    assert PairsRun.from_dict(json.loads(json.dumps(run.to_dict()))) == run
    assert [copy.subject for copy in copies] == ["gpu0-gpu1", "gpu1-gpu0"]
    assert PairsRun.from_dict({}) == PairsRun()
