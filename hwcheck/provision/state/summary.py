"""What a run of assertions says on a terminal: hosts, and what is wrong, equal lines folded."""

from __future__ import annotations

from collections.abc import Iterable

from hwcheck.fold import fold
from hwcheck.provision.state.cases import APPLIED_BY
from hwcheck.provision.state.verdict import FAIL, INCONCLUSIVE, StateRecord

Finding = tuple[str, str]


def summary(record: StateRecord, mend: str) -> Iterable[str]:
    """Yield the lines; ``mend`` is the beginning of the command that applies roles."""
    findings: dict[Finding, list[str]] = {}
    roles: dict[str, dict[str, None]] = {}
    for host in record.hosts:
        yield host.summary()
        for each in host.assertions:
            if each.outcome in (FAIL, INCONCLUSIVE):
                what = each.reason
                if each.outcome == INCONCLUSIVE:
                    what = f"not measured: {each.reason} (role {each.role})"
                findings.setdefault((each.outcome, what), []).append(host.host)
            if each.outcome == FAIL:
                tag = APPLIED_BY.get(each.role, each.role)
                roles.setdefault(tag, {}).setdefault(host.host)
    for outcome, what in sorted(findings):
        yield f"  {fold(findings[outcome, what])}: {what}"
    together: dict[tuple[str, ...], list[str]] = {}
    for role, hosts in sorted(roles.items()):
        together.setdefault(tuple(hosts), []).append(role)
    for names, tags in together.items():
        yield f"to mend it: {mend} --limit {','.join(names)} --tags {','.join(tags)}"
