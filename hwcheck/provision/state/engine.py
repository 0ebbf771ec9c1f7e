"""pytest's part in a run of assertions: which there are, where they run, what is reported."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from hwcheck.errors import UsageError
from hwcheck.exit_codes import USAGE
from hwcheck.provision.state.cases import PREFIX, AssertCase, Cases
from hwcheck.provision.state.connections import Connections
from hwcheck.provision.state.explain import explain
from hwcheck.provision.state.request import StateRequest
from hwcheck.provision.state.summary import summary
from hwcheck.provision.state.verdict import (
    INCONCLUSIVE,
    NO_REPORT,
    Assertion,
    HostState,
    StateRecord,
    record,
)
from hwcheck.provision.state.workers import Workers
from hwcheck.results.folders import write_record
from hwcheck.results.run_folder import utc_now

FOLDER = Path(__file__).parent
ASSERTION_MODULES = f"{__package__}.{PREFIX}"


class Engine:
    """A pytest plugin; ``result`` is the record once pytest has ended, ``record`` its file."""

    NAME = "hwcheck-state"

    def __init__(self, request: StateRequest) -> None:
        self.__name__ = self.NAME  # pytest registers a plugin that it is handed under this name
        self.request = request
        self.record = request.record
        self.connections = Connections(
            request.cluster, accept_new_host_keys=request.accept_new_host_keys
        )
        self.result: StateRecord | None = None
        self._cases = Cases(request.cluster, request.roles, request.role_vars)
        self._started = utc_now()
        self._assertions: dict[str, Assertion] = {}
        self._items: dict[str, AssertCase] = {}

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out the files of roles that are not asked about: each costs its import."""
        is_ours = collection_path.parent == FOLDER and collection_path.name.startswith(PREFIX)
        role = collection_path.stem.removeprefix(PREFIX)
        return True if is_ours and role not in self.request.roles else None

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make one test of every case of an assertion."""
        if _is_assertion_module(metafunc.module.__name__):
            try:
                cases = self._cases.of(metafunc.function)
            except UsageError as error:
                pytest.exit(f"hwcheck: {error}", returncode=USAGE)
            metafunc.parametrize("case", cases, ids=[case.id for case in cases])

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the stand-ins that pytest makes for tests without a case."""
        items[:] = [item for item in items if not _stands_in(item)]

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run our tests in workers, and then what else was collected, as pytest does."""
        option = session.config.option
        if option.collectonly or (session.testsfailed and not option.continue_on_collection_errors):
            return None
        assertions = [(item, case) for item in session.items if (case := _case(item)) is not None]
        groups: dict[str, list[pytest.Item]] = {}
        for item, case in assertions:
            groups.setdefault(case.host.name, []).append(item)
            self._items[item.nodeid] = case
        if groups:
            self._run(session, groups)
        others = [item for item in session.items if _case(item) is None]
        for item, following in zip(others, [*others[1:], None], strict=False):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            _stop_early(session)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Say in a report whose fault it is and what mends it."""
        report = yield
        case = _case(item)
        if case is not None:
            properties = explain(report, call, case, self.request.mend)
            report.user_properties += properties
            item.user_properties += properties  # JUnit takes those of the last phase
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a report, in the process that collected."""
        case = self._items.get(report.nodeid)
        properties = dict(report.user_properties)
        if case is None or "outcome" not in properties or report.nodeid in self._assertions:
            return
        self._assertions[report.nodeid] = _assertion(
            case,
            report.nodeid,
            str(properties["outcome"]),
            str(properties["reason"]),
            report.duration,
        )

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Judge, write the record, and set the exit code where pytest itself is content."""
        if exitstatus not in (0, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
            return
        request = self.request
        hosts = self._hosts()
        self.result = record(request.cluster.source, request.roles, self._started, hosts)
        session.exitstatus = self.result.exit_code
        if self.record is not None:
            try:
                write_record(self.record, self.result)
            except UsageError as error:
                pytest.exit(f"hwcheck: {error}", returncode=USAGE)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say how each host is, and what is wrong."""
        if self.result is not None:
            for text in summary(self.result, self.request.mend):
                terminalreporter.write_line(text)

    def _run(self, session: pytest.Session, groups: dict[str, list[pytest.Item]]) -> None:
        hook = session.config.hook
        hosts = {host.name: host for host in self.request.cluster.hosts}
        workers = Workers(groups, lambda name: self.connections.leave(hosts[name]))
        for data in workers.run(self.connections.most_at_once(self.request.forks)):
            report = hook.pytest_report_from_serializable(config=session.config, data=data)
            hook.pytest_runtest_logreport(report=report)
            _stop_early(session)

    def _hosts(self) -> list[HostState]:
        by_host: dict[str, list[Assertion]] = {name: [] for name in self._cases.counts}
        for nodeid, case in self._items.items():
            missing = _assertion(case, nodeid, INCONCLUSIVE, NO_REPORT, 0.0)
            by_host[case.host.name].append(self._assertions.get(nodeid, missing))
        return [HostState.of(name, assertions) for name, assertions in by_host.items()]


def _stop_early(session: pytest.Session) -> None:
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


def _is_assertion_module(module: str) -> bool:
    return module.startswith(ASSERTION_MODULES)


def _case(item: pytest.Item) -> AssertCase | None:
    """Return what an item asserts; None for one that is not ours."""
    values = getattr(item, "callspec", None)
    case = values.params.get("case") if values is not None else None
    return case if isinstance(case, AssertCase) else None


def _stands_in(item: pytest.Item) -> bool:
    return (
        _is_assertion_module(getattr(getattr(item, "module", None), "__name__", ""))
        and _case(item) is None
    )


def _assertion(
    case: AssertCase, nodeid: str, outcome: str, reason: str, duration_s: float
) -> Assertion:
    test = nodeid.rpartition("::")[2].partition("[")[0]
    return Assertion(case.role, case.variable, case.label, test, outcome, reason, duration_s)
