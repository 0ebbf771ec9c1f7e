"""What ``validate --dry-run`` says: what would run where, what it needs, how long it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hwcheck.contract.check import Check
from hwcheck.contract.wire import COLLECTIVES
from hwcheck.fold import fold
from hwcheck.inventory.inventory import Host
from hwcheck.run.plan import Plan
from hwcheck.text import count, length

VISIT_S = 12.0
"""Connecting, the payload, the checks without load: 3 to 12 s on nodes with 8 GPUs in the lab."""
START_S = 45.0
"""Two imports of torch and the start of the legs."""
ROUND_S = 20.0
"""One collective over several hosts."""


def preview(plan: Plan, registry: Mapping[str, Check]) -> list[str]:
    """Return the plan of a run in words, a line each."""
    hosts, options = plan.hosts, plan.options
    over_hosts, forks = options.scopes, options.forks
    chosen = [registry[name] for name in options.checks]
    timed = [check.id for check in chosen if check.id in COLLECTIVES]
    loads = [check.id for check in chosen if check.load and check.id not in COLLECTIVES]
    idle = len(chosen) - len(timed) - len(loads)
    request = next(iter(plan.requests.values()))
    visit_s = VISIT_S
    visit_s += START_S + request.budget_s if timed else 0.0
    visit_s += request.load_s if loads else 0.0
    total_s = visit_s * -(-len(hosts) // forks) if chosen else 0.0
    pairs = len(hosts) - 1 + len(hosts) % 2
    total_s += sum(ROUND_S * (pairs if scope == "pairs" else 1) for scope in over_hosts)
    amount = f"{count(len(hosts), 'host')}, {min(forks, len(hosts))} at once"
    lines = [f"{amount}: {fold(host.name for host in hosts)}"]
    if chosen:
        lines.append(f"without load: {count(idle, 'check')}")
    if timed:
        legs = ", ".join(options.timing.legs) or "all that can differ on the node"
        lines.append(f"collectives within each node: {', '.join(timed)}; legs: {legs}")
    if loads:
        lines.append(f"every GPU under load for {length(request.load_s)}: {', '.join(loads)}")
    if over_hosts:
        lines.append(f"collectives over hosts: {', '.join(over_hosts)}")
    most = f"; a visit about {length(visit_s)}, at most {length(plan.timeout_s)}" if chosen else ""
    lines.append(f"it takes about {length(total_s)}{most} (profile {options.profile})")
    lines += [f"needed: {text}" for text in _needs(hosts, torch=bool(timed or loads or over_hosts))]
    lines += [f"asked: {text}" for text in options.in_words()]
    return [*lines, "nothing was done, and no host was reached"]


def _needs(hosts: Sequence[Host], *, torch: bool) -> list[str]:
    pythons: dict[str, list[str]] = {}
    torches: dict[str, list[str]] = {}
    becoming: dict[str, list[str]] = {}
    for host in hosts:
        pythons.setdefault(host.python, []).append(host.name)
        torches.setdefault(host.settings.torch_python or host.python, []).append(host.name)
        if host.become:
            becoming.setdefault(host.become_user, []).append(host.name)
    needs = [f"{path}, Python 3.8 or newer, on {fold(names)}" for path, names in pythons.items()]
    if torch:
        needs += [f"torch under {path} on {fold(names)}" for path, names in torches.items()]
        needs.append("nodes without jobs: one at work is not loaded")
    needs += [f"sudo to {user} on {fold(names)}" for user, names in becoming.items()]
    return needs
