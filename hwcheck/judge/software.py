"""Versions that are known to be broken or old, by the data in ``versions/``. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from functools import partial

from hwcheck.checks.driver import DRIVER_VERSION, driver
from hwcheck.checks.infiniband_ports import FIRMWARE, infiniband_ports
from hwcheck.checks.software_versions import NCCL_VERSION, software_versions
from hwcheck.checks.tool_versions import tool_versions
from hwcheck.contract.reasons import remark
from hwcheck.contract.wire import Value
from hwcheck.judge.host_case import HostCase
from hwcheck.judge.records import Finding
from hwcheck.judge.versions import OLD_DAYS, floors, nccl_defects

DEFECTS_SOURCE = "hwcheck/judge/versions/nccl.yml, each row with its own source"
ASKED = "version_floors"
NOT_ASKED = "recorded only: the inventory declares no hwcheck_version_floors"


def judge_nccl_defects(host: HostCase) -> Iterator[Finding]:
    """Yield what is known of the NCCL that jobs take here: a warning for what any job may meet."""
    version = str(_values(host, software_versions.id, NCCL_VERSION.name).get("node", ""))
    defects = [defect for defect in nccl_defects() if defect.concerns(version)]
    for_all = [defect for defect in defects if not defect.needs]
    if not defects:
        return
    yield Finding(
        host=host.name,
        check=software_versions.id,
        outcome="warn" if for_all else "pass",
        metric="nccl_defects",
        value=version,
        limit="warn unless every known defect needs more than an ordinary job uses",
        source=DEFECTS_SOURCE,
        confidence="published",
        reason=remark("; ".join(map(str, for_all or defects))),
    )


def judge_floors(host: HostCase) -> Iterator[Finding]:
    """Yield each version that is below its floor or of a branch that ended, and the table's age.

    Nobody is warned of a driver of last year unasked: most fleets run one, and mean to.
    """
    table, today = floors(), _day(host.started)
    if today is None:
        return
    asked = str(host.facts.expect.get(ASKED, ""))
    tables: list[tuple[str, str, str, Callable[[str], str]]] = [
        (driver.id, DRIVER_VERSION.name, "driver_floor", lambda v: table.driver_problem(v, today)),
        (infiniband_ports.id, FIRMWARE.name, "firmware_floor", table.firmware_problem),
        *(
            (
                tool_versions.id,
                f"{tool}_version",
                f"{tool}_floor",
                partial(table.tool_problem, tool),
            )
            for tool in table.tools
        ),
    ]
    versions = 0
    for check, metric, floor, problem_of in tables:
        for subject, value in _values(host, check, metric).items():
            versions += 1
            problem = problem_of(str(value))
            if problem or asked:
                yield _floor(host, check, floor, subject, str(value), problem)
    days = table.age_days(today)
    if asked and versions and days > OLD_DAYS:
        yield Finding(
            host=host.name,
            check=driver.id,
            outcome="warn",
            metric="floors_age_days",
            value=days,
            unit="days",
            limit=f"warn unless <= {OLD_DAYS}",
            source=table.source,
            confidence="derived",
            reason=remark(f"the floors are those of {table.as_of}; take a newer hwcheck"),
        )


def _floor(
    host: HostCase, check: str, metric: str, subject: str, version: str, problem: str
) -> Finding:
    asked = str(host.facts.expect.get(ASKED, ""))
    reason = "; ".join(filter(None, [problem, NOT_ASKED if problem and not asked else ""]))
    return Finding(
        host=host.name,
        check=check,
        outcome=asked if problem and asked else "pass",
        metric=metric,
        subject=subject,
        value=version,
        limit=f"at or above the floors of {floors().as_of}",
        source=floors().source,
        confidence="published",
        reason=remark(reason),
    )


def _values(host: HostCase, check: str, metric: str) -> dict[str, Value]:
    answer = host.answers.get(check)
    samples = answer.samples if answer and check in host.checks else ()
    return {sample.subject: sample.value for sample in samples if sample.metric == metric}


def _day(started: str) -> date | None:
    try:
        return date.fromisoformat(started[:10])
    except ValueError:
        return None
