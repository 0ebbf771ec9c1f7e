"""One call of ``accept run``: each host goes through the stages that it has left."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from hwcheck.cli.display import display
from hwcheck.cli.interrupts import Interrupts
from hwcheck.cli.outcome import judged, show
from hwcheck.cli.output import say
from hwcheck.cli.site_option import all_checks, payload_files, site_files
from hwcheck.connect import payload
from hwcheck.connect.payload import Payload
from hwcheck.errors import UsageError
from hwcheck.fleet.accept.acceptance import RUNS, run_folders
from hwcheck.fleet.accept.criteria import Criteria
from hwcheck.fleet.accept.evidence import StageResult, stage_result, state_result
from hwcheck.fleet.accept.progress import due, progress
from hwcheck.fleet.accept.stages import STAGES, STATE, Stage
from hwcheck.fleet.sweep.cut_off import close_run
from hwcheck.fold import fold
from hwcheck.inventory.inventory import Cluster
from hwcheck.provision.state.request import as_the_inventory_says, choose_roles
from hwcheck.results.files import read_json
from hwcheck.results.folders import new_folder
from hwcheck.results.options import ENGINES, Options
from hwcheck.results.run_folder import utc_now
from hwcheck.run.measure import connector_of, measure
from hwcheck.run.plan import DURATION_PROFILE, make_plan

if TYPE_CHECKING:
    from hwcheck.site.additions import Additions

STATE_FILE = "state.json"


@dataclass(frozen=True)
class Acceptance:
    """What is accepted: the hosts, by which criteria, in which folder, with what a site adds."""

    id: str
    folder: Path
    cluster: Cluster
    criteria: Criteria
    additions: Additions | None = None
    forks: int = 32
    accept_new_host_keys: bool = False
    verbose: bool = False
    judged: dict[str, StageResult] = field(default_factory=dict, compare=False, repr=False)
    """What finished runs showed, by the name of their folder: it does not change any more."""

    @property
    def names(self) -> list[str]:
        """The hosts."""
        return [host.name for host in self.cluster.hosts]

    @property
    def runs(self) -> Path:
        """The folder of its run folders."""
        return self.folder / RUNS


def run(acceptance: Acceptance, begins: Callable[[str], None]) -> None:
    """Take every host through the stages that it has left.

    ``begins`` is called before each stage, with what begins.

    The caller holds the lock of the folder. A host that failed a stage in a former call gets it
    again: it may have been repaired. So may an accepted one, whose parts are read again.
    """
    stop = threading.Event()
    built = payload.build(payload_files(acceptance.additions))
    results = end_what_was_cut_off(acceptance)
    before = progress(acceptance.criteria, acceptance.names, results)
    failed_before = {name: host.blocked for name, host in before.items() if host.blocked}
    with Interrupts(stop) as interrupts:
        for name in acceptance.criteria.stages:
            stage = STAGES[name]
            repeats = acceptance.criteria.repeats if name == "collectives" else 1
            for _ in range(repeats):
                now = progress(acceptance.criteria, acceptance.names, results)
                hosts = due(stage, now, failed_before)
                if stop.is_set() or not hosts or (stage.over_hosts and len(hosts) < 2):
                    break
                begins(f"{name} on {fold(hosts)}, since {utc_now()}")
                results.append(_measured(acceptance, stage, hosts, built, stop))
        interrupts.visits_over()


def saved_results(acceptance: Acceptance) -> list[StageResult]:
    """Judge the runs of the folder again, the oldest first. Raises UsageError."""
    results = []
    for path in run_folders(acceptance.folder):
        result = acceptance.judged.get(path.name) or _saved_result(acceptance, path)
        if result is not None:
            results.append(result)
            if result.finished:
                acceptance.judged[path.name] = result
    return results


def _saved_result(acceptance: Acceptance, path: Path) -> StageResult | None:
    """Return what a folder shows; None where it is no run of this acceptance, or has no record."""
    if (path / STATE_FILE).is_file():
        data = read_json(path, PurePath(STATE_FILE), "state")
        return state_result(acceptance.criteria, path.name, data) if data else None
    if not (path / "run.json").is_file():
        return None
    assessment = judged(path, acceptance.additions)
    if assessment.run.meta.acceptance.get("id") != acceptance.id:
        return None
    return stage_result(acceptance.criteria, assessment)


def end_what_was_cut_off(acceptance: Acceptance) -> list[StageResult]:
    """Bring runs of a call that was killed to their end, and return all results."""
    for path in run_folders(acceptance.folder):
        if path.is_dir() and not any((path / name).is_file() for name in ("run.json", STATE_FILE)):
            shutil.rmtree(path)  # assertions that were cut off
            continue
        whole = not (path / "run.json").is_file() or (path / "hosts.parquet").is_file()
        if not whole and close_run(path):
            say(f"hwcheck: {path} was cut off; what it measured stands")
            show(path, acceptance.additions, as_json=False, silent=True)
    return saved_results(acceptance)


def _measured(
    acceptance: Acceptance,
    stage: Stage,
    names: Sequence[str],
    built: Payload,
    stop: threading.Event,
) -> StageResult:
    """Run a stage on these hosts, judge it, and hold it against the criteria."""
    began = time.monotonic()
    say(f"hwcheck: stage {stage.name} on {fold(names)}: {stage.doc}")
    hosts = tuple(host for host in acceptance.cluster.hosts if host.name in set(names))
    cluster = replace(acceptance.cluster, hosts=hosts)
    if stage.name == STATE:
        result = _asserted(acceptance, cluster)
    else:
        result = _visited(acceptance, stage, cluster, built, stop)
    acceptance.judged[result.run] = result
    say(f"hwcheck: stage {stage.name} took {time.monotonic() - began:.0f} s")
    return result


def roles_of(criteria: Criteria) -> tuple[str, ...]:
    """Return the roles whose assertions the stage state runs. Raises UsageError for unknown ones.

    All roles where a requirement names none.
    """
    if not criteria.of_stage(STATE):
        return ()
    named = [requirement.roles for requirement in criteria.of_stage(STATE)]
    try:
        return choose_roles(None if not all(named) else ",".join(r for of in named for r in of))
    except UsageError as error:
        raise UsageError(f"{criteria.source}: roles: {error}") from None


def _asserted(acceptance: Acceptance, cluster: Cluster) -> StageResult:
    """Assert what the roles promise; what pytest prints goes into the folder."""
    from hwcheck.provision.state.engine import Engine  # pytest: no other stage waits for it
    from hwcheck.provision.state.run import assert_state

    request = as_the_inventory_says(
        cluster,
        roles_of(acceptance.criteria),
        acceptance.forks,
        cluster.source,
        accept_new_host_keys=acceptance.accept_new_host_keys,
    )
    folder = new_folder(acceptance.runs)
    with (folder / "state.log").open("w", encoding="utf-8") as log, redirect_stdout(log):
        assert_state(Engine(request), folder)
    result = _saved_result(acceptance, folder)
    if result is None:
        raise UsageError(f"{folder}: the assertions left no record")
    return result


def _visited(
    acceptance: Acceptance,
    stage: Stage,
    cluster: Cluster,
    built: Payload,
    stop: threading.Event,
) -> StageResult:
    """Visit hosts for the checks of a stage, judge them, and hold them against the criteria."""
    criteria, every = acceptance.criteria, all_checks(acceptance.additions).values()
    options = Options(
        checks=(*stage.beside(every), *stage.checks(every)),
        scopes=(stage.name,) if stage.over_hosts else (),
        profile=stage.profile,
        duration_s=criteria.burn_in_s if stage.profile == DURATION_PROFILE else None,
        engine=criteria.engine if stage.name == "collectives" else ENGINES[0],
        forks=acceptance.forks,
        accept_new_host_keys=acceptance.accept_new_host_keys,
        acceptance={"id": acceptance.id, "stage": stage.name},
    )
    plan = make_plan(options, cluster, built, site=site_files(acceptance.additions))
    connector = connector_of(options, stop)
    connector.prepare(plan.hosts)
    path = measure(plan, acceptance.runs, connector, display(verbose=acceptance.verbose))
    made: list[StageResult] = []
    show(
        path,
        acceptance.additions,
        as_json=False,
        assessed=lambda assessment: made.append(stage_result(criteria, assessment)),
        silent=True,
    )
    if not made:
        raise UsageError(f"{path}: it could not be judged")
    return made[0]
