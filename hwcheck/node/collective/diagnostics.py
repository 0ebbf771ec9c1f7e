"""Have NCCL run its own diagnostics: ranks make one communicator, and what it reports is sent."""

from __future__ import annotations

import sys
from typing import List

from hwcheck.contract.busbw import busbw_factor
from hwcheck.contract.collective_spec import DIAGNOSTICS, CollectiveSpec, LegPlan
from hwcheck.contract.nccl_diag import RUN, DiagnosticsRun, is_there, lines_of
from hwcheck.contract.reasons import HANG, NONE, NOT_MEASURED, Reason
from hwcheck.contract.wire import DRIVER_ANSWERS, SizeTiming
from hwcheck.node.collective import runtime
from hwcheck.node.collective.hangs import ENDED, Hangs
from hwcheck.node.collective.leg_run import LegRun
from hwcheck.node.collective.rank import Bounds, Turn
from hwcheck.node.json_lines import Send

COLLECTIVE = "all_reduce"
"""Torch has NCCL make the communicator at the first collective."""


def serve(spec: CollectiveSpec, send: Send, close_fds: List[int], hangs: Hangs) -> None:
    """Run them on all GPUs of ``spec`` and send the record.

    They come after the legs: what they break harms no measurement. NCCL is done with them before it
    says that a communicator is there (NVIDIA/nccl, src/init.cc), so they have the limit of a start.
    """
    version = runtime.nccl_version()
    run = DiagnosticsRun(".".join(map(str, version)))
    if is_there(version):
        send({"kind": "progress", "text": DIAGNOSTICS})
        run = _run(spec, run.nccl, close_fds, hangs)
    send({"kind": "diagnostics", "diagnostics": run.to_dict()})


def _run(spec: CollectiveSpec, nccl: str, close_fds: List[int], hangs: Hangs) -> DiagnosticsRun:
    refusal = hangs.refuses(DIAGNOSTICS)
    if refusal:
        return DiagnosticsRun(nccl, reason=Reason(HANG, refusal))
    leg = LegRun(spec, LegPlan(DIAGNOSTICS, RUN), close_fds)
    turn = Turn(1, COLLECTIVE, Bounds(0.0, spec.grace_s, 0), (spec.min_bytes,))
    took = leg.take(turn, busbw_factor(COLLECTIVE, spec.ranks), _unread)
    leg.end()
    reason = "" if took.state == "done" else took.reason
    if took.state in ENDED:
        driver = hangs.ask("the process of %s" % DIAGNOSTICS)
        reason += "; the driver answers" if driver == DRIVER_ANSWERS else "; %s" % driver
    if took.left_over:
        sys.stderr.write("\n".join(map(str, took.left_over)) + "\n")
    code = HANG if took.state in ENDED else NOT_MEASURED
    return DiagnosticsRun(nccl, lines_of(took.log), Reason(code, reason) if reason else NONE)


def _unread(timing: SizeTiming) -> None:
    """Take the time of a collective whose communicator was made for the report alone."""
