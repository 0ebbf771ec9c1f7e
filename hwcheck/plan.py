"""From a cluster and options to what each host is asked."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hwcheck.inventory import Cluster, Host
from hwcheck.results import HostPlan, RunMeta
from hwcheck.wire import Request

NODE_SETTINGS = {"torch_python", "host_root"}
"""``hwcheck_`` variables that say how to measure; the others say what to expect."""


@dataclass(frozen=True)
class Profile:
    """How long a visit may take: the load checks together, and the whole visit."""

    budget_s: float
    timeout_s: float


PROFILES: Mapping[str, Profile] = {
    "quick": Profile(budget_s=45, timeout_s=240),
    "standard": Profile(budget_s=240, timeout_s=900),
    "burn_in": Profile(budget_s=900, timeout_s=3600),
}


@dataclass(frozen=True)
class Plan:
    """What a run asks: its record, the hosts, and one request per host name."""

    meta: RunMeta
    hosts: tuple[Host, ...]
    requests: Mapping[str, Request]
    timeout_s: float


def make_plan(
    cluster: Cluster,
    checks: tuple[str, ...],
    profile: str,
    *,
    limit: str = "",
    force: bool = False,
    timeout_s: float | None = None,
    payload_sha256: str = "",
) -> Plan:
    """Plan a run of these checks on every host of the cluster."""
    budget = PROFILES[profile]
    hosts = tuple(HostPlan(host.name, host.address, _expected(host)) for host in cluster.hosts)
    meta = RunMeta(
        id="",
        started="",
        checks=checks,
        hosts=hosts,
        profile=profile,
        inventory=cluster.source,
        limit=limit,
        payload_sha256=payload_sha256,
    )
    requests = {
        host.name: Request(
            token=secrets.token_hex(8),
            checks=checks,
            profile=profile,
            budget_s=budget.budget_s,
            expect=_expected(host),
            torch_python=host.expect.get("torch_python", ""),
            host_root=host.expect.get("host_root", "/"),
            force=force,
        )
        for host in cluster.hosts
    }
    return Plan(meta, cluster.hosts, requests, timeout_s or budget.timeout_s)


def _expected(host: Host) -> dict[str, Any]:
    return {key: value for key, value in host.expect.items() if key not in NODE_SETTINGS}
