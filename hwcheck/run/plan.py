"""From the options of a run and its hosts to one request for each host."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from types import MappingProxyType

import yaml

from hwcheck.checks.dcgm_diag import dcgm_diag
from hwcheck.connect.payload import Payload
from hwcheck.contract.wire import Request, to_dict
from hwcheck.errors import UsageError
from hwcheck.fold import fold
from hwcheck.inventory.inventory import Cluster, Host
from hwcheck.node import dcgm
from hwcheck.results.options import Options
from hwcheck.results.run_folder import HostPlan, HostRecord, RunMeta


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
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
"""The name of a variable, as Ansible has it."""


@dataclass(frozen=True)
class Plan:
    """What a run asks: its options, its record, the hosts, and one request per host name.

    ``payload`` is what is pushed to the hosts; the files of the ``site`` and the ``golden`` hosts,
    which like ones are held against, go along into the run folder.
    """

    options: Options
    meta: RunMeta
    hosts: tuple[Host, ...]
    requests: Mapping[str, Request]
    payload: Payload
    site: Mapping[str, bytes] = field(default_factory=dict)
    golden: tuple[HostRecord, ...] = ()

    @property
    def timeout_s(self) -> float:
        """How long a visit may take."""
        assert self.options.timeout_s is not None  # make_plan fills it in
        return self.options.timeout_s


def make_plan(
    options: Options,
    cluster: Cluster,
    payload: Payload,
    *,
    site: Mapping[str, bytes] = MappingProxyType({}),
    golden: Sequence[HostRecord] = (),
) -> Plan:
    """Plan a run on every host of the cluster.

    ``site`` are the files of the site's folder by name, ``golden`` the hosts of an acceptance that
    these are held against. Raises UsageError where options do not go together, or a host has not
    what the engine needs.
    """
    budget = PROFILES[options.profile]
    timeout_s = options.timeout_s
    if options.duration_s is not None:
        budget = _lasting(options.profile, options.duration_s)
    if timeout_s is not None and timeout_s <= budget.load_s and options.profile == DURATION_PROFILE:
        raise UsageError(
            f"--timeout {timeout_s:g}: the load alone takes {budget.load_s:g} s; leave it out, or "
            "give --duration less"
        )
    without = [host.name for host in cluster.hosts if not host.settings.nccl_tests_dir]
    if options.engine == "nccl-tests" and without:
        raise UsageError(
            f"--engine nccl-tests: {fold(without)} has no hwcheck_nccl_tests_dir; name the folder "
            "on the node that has all_reduce_perf, or leave --engine out"
        )
    besides_s = sum(LONG_CHECKS_S.get(name, 0.0) for name in options.checks)
    options = replace(
        options,
        duration_s=budget.load_s,
        timeout_s=timeout_s or budget.timeout_s + besides_s,
        inventory=cluster.source,
        limit=cluster.limit or "",
        variables=variable_names(cluster.extra_vars),
        site={name: sha256(data).hexdigest() for name, data in site.items()},
    )
    hosts = cluster.hosts
    meta = _meta(options, hosts, payload)
    requests = {host.name: _request(options, budget, host) for host in hosts}
    return Plan(options, meta, hosts, requests, payload, site, tuple(golden))


def _meta(options: Options, hosts: Sequence[Host], payload: Payload) -> RunMeta:
    return RunMeta(
        id="",
        started="",
        checks=options.checks,
        hosts=tuple(
            HostPlan(
                *(host.name, host.address, host.expect, host.limits, host.waivers),
                rack=host.settings.rack,
            )
            for host in hosts
        ),
        profile=options.profile,
        inventory=options.inventory,
        limit=options.limit,
        timing=options.timing,
        payload_sha256=payload.sha256,
        site=options.site,
        sweep=options.sweep,
        acceptance=options.acceptance,
        options=to_dict(options),
    )


def _request(options: Options, budget: Profile, host: Host) -> Request:
    by_nccl_tests = options.engine == "nccl-tests"
    return Request(
        token=secrets.token_hex(8),
        checks=options.checks,
        profile=options.profile,
        budget_s=budget.budget_s,
        load_s=budget.load_s,
        load_dtype=options.load_dtype,
        expect=host.expect,
        torch_python=host.settings.torch_python,
        host_root=host.settings.host_root,
        force=options.force,
        timing=options.timing,
        nccl_tests_dir=host.settings.nccl_tests_dir if by_nccl_tests else "",
    )


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


def variable_names(extra_vars: Iterable[str]) -> tuple[str, ...]:
    """Return the names that ``--extra-vars`` give a value, and the files as ``@FILE``.

    The values stay out: any may be a secret.
    """
    names: list[str] = []
    for text in extra_vars:
        names += [text] if text.startswith("@") else filter(NAME.fullmatch, _keys(text))
    return tuple(names)


def _keys(text: str) -> list[str]:
    """Return the keys of ``key=value`` words, or of a mapping; Ansible has taken it before."""
    try:
        if text.startswith(("{", "[")):
            return [key for key in yaml.safe_load(text) if isinstance(key, str)]
        return [word.partition("=")[0] for word in shlex.split(text) if "=" in word]
    except (yaml.YAMLError, ValueError, TypeError):  # a vaulted value; a quote that Ansible bears
        return []
