"""The hosts to measure again, as ``--limit @runs/latest/retry`` takes them."""

from __future__ import annotations

from hwcheck.advise.assessment import Assessment


def retry(assessment: Assessment) -> str:
    """Return the hosts that failed or could not be measured, a line each."""
    hosts = assessment.judgement.hosts
    return "".join(f"{host.host}\n" for host in hosts if host.outcome in ("fail", "inconclusive"))
