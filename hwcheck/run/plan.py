"""From a cluster and the flags of a run to one request for each host."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from hwcheck.errors import UsageError
from hwcheck.fold import fold
from hwcheck.inventory.inventory import Cluster, Host
from hwcheck.node import dcgm
from hwcheck.node.checks.dcgm_diag import dcgm_diag
from hwcheck.node.wire import LOAD_DTYPES, Request, Timing
from hwcheck.results.run_folder import HostPlan, RunMeta

ENGINES = ("torch", "nccl-tests")
"""What times the collectives."""


@dataclass(frozen=True)
class Profile:
    """How long a visit may take: the timing of the collectives, the load, and the whole visit.

    What the visit takes beside both is the rest of ``timeout_s``: two imports of torch, the start
    of up to five legs (``CollectiveSpec.start_s``), the cool-down, and legs that hang. A usual node
    needs little of it; one on which the driver and NCCL are slow to start needs most.
    """

    budget_s: float
    load_s: float
    timeout_s: float

    def lasting(self, duration_s: float) -> Profile:
        """Return the profile with a load of this duration."""
        return replace(self, load_s=duration_s, timeout_s=self.timeout_s - self.load_s + duration_s)


PROFILES: Mapping[str, Profile] = {
    "quick": Profile(budget_s=45, load_s=20, timeout_s=900),
    "standard": Profile(budget_s=240, load_s=180, timeout_s=1800),
    "burn_in": Profile(budget_s=900, load_s=3600, timeout_s=7200),
}
DURATION_PROFILE = "burn_in"
"""The profile that takes --duration."""
LONG_CHECKS_S = {dcgm_diag.id: dcgm.LIMIT_S}
"""What a visit may take besides where it is asked for these."""
LONGEST_LOAD_S = 14 * 24 * 3600.0


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
    duration_s: float | None = None,
    load_dtype: str = LOAD_DTYPES[0],
    timing: Timing | None = None,
    engine: str = ENGINES[0],
    payload_sha256: str = "",
    site: Mapping[str, str] = MappingProxyType({}),
    sweep: Mapping[str, str] = MappingProxyType({}),
    acceptance: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """Plan a run of these checks on every host of the cluster.

    ``timing`` is how collectives are timed, ``duration_s`` how long the load of the profile
    ``burn_in`` lasts, ``load_dtype`` what it multiplies, ``site`` the files of the site's
    folder with their hashes, ``sweep`` and ``acceptance`` what it is part of (``RunMeta``). Raises
    UsageError where these do not go with the profile or with ``timeout_s``, or a host has not what
    ``engine`` needs.
    """
    budget = PROFILES[profile]
    if duration_s is not None:
        budget = _lasting(profile, duration_s)
    if timeout_s is not None and timeout_s <= budget.load_s and profile == DURATION_PROFILE:
        raise UsageError(
            f"--timeout {timeout_s:g}: the load alone takes {budget.load_s:g} s; leave it out, or "
            "give --duration less"
        )
    without = [host.name for host in cluster.hosts if not host.settings.nccl_tests_dir]
    if engine == "nccl-tests" and without:
        raise UsageError(
            f"--engine nccl-tests: {fold(without)} has no hwcheck_nccl_tests_dir; name the folder "
            "on the node that has all_reduce_perf, or leave --engine out"
        )
    timing = timing or Timing()
    hosts = tuple(
        HostPlan(
            host.name, host.address, host.expect, host.limits, host.waivers, host.settings.rack
        )
        for host in cluster.hosts
    )
    meta = RunMeta(
        id="",
        started="",
        checks=checks,
        hosts=hosts,
        profile=profile,
        inventory=cluster.source,
        limit=limit,
        timing=timing,
        payload_sha256=payload_sha256,
        site=dict(site),
        sweep=dict(sweep),
        acceptance=dict(acceptance),
    )
    requests = {
        host.name: Request(
            token=secrets.token_hex(8),
            checks=checks,
            profile=profile,
            budget_s=budget.budget_s,
            load_s=budget.load_s,
            load_dtype=load_dtype,
            expect=host.expect,
            torch_python=host.settings.torch_python,
            host_root=host.settings.host_root,
            force=force,
            timing=timing,
            nccl_tests_dir=host.settings.nccl_tests_dir if engine == "nccl-tests" else "",
        )
        for host in cluster.hosts
    }
    besides_s = sum(LONG_CHECKS_S.get(name, 0.0) for name in checks)
    return Plan(meta, cluster.hosts, requests, timeout_s or budget.timeout_s + besides_s)


def of_legs(request: Request, legs: Mapping[str, Sequence[str]]) -> Request:
    """Return what a second visit asks of a host: these legs, by check, and no others."""
    names = sorted({name for of_check in legs.values() for name in of_check})
    checks = tuple(check for check in request.checks if check in legs)
    return replace(request, checks=checks, timing=replace(request.timing, legs=tuple(names)))


def _lasting(profile: str, duration_s: float) -> Profile:
    if profile != DURATION_PROFILE:
        raise UsageError(f"--duration: it goes with --profile {DURATION_PROFILE}")
    if duration_s > LONGEST_LOAD_S:
        raise UsageError(f"--duration: at most {LONGEST_LOAD_S / 3600:g} h")
    return PROFILES[profile].lasting(duration_s)
