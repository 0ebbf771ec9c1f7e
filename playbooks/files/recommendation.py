"""Say whether the NCCL settings of a run may be applied to the hosts on standard input.

usage: recommendation.py RUN MAX_AGE_H < JSON list of host names. Ends with 0 and says what will be
set, the last line being a JSON object with the file of each host in the run folder, or with 1 and
says why nothing may be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from hwcheck.advise.nccl_files import FOLDER
from hwcheck.advise.nccl_settings import advise_nccl
from hwcheck.advise.records import NcclAdvice
from hwcheck.errors import UsageError
from hwcheck.fold import fold
from hwcheck.results.run_folder import Run, read_run

NCCL_CONF = "nccl.conf"


Files = Mapping[str, tuple[str, NcclAdvice]]
"""By host: its file in the run folder, and what the run proves for it."""


def files_of(run: Run) -> Files:
    """Return what is for which host: its group's own where the groups differ from the cluster."""
    cluster, groups = advise_nccl(run)
    files = {host.name: (NCCL_CONF, cluster) for host in run.meta.hosts}
    for group in groups:
        file = f"{FOLDER}/{group.name}/{NCCL_CONF}"
        files.update((host, (file, group.nccl)) for host in group.hosts)
    return files


def refusals(run: Run, files: Files, hosts: Sequence[str], max_age_h: float) -> Iterator[str]:
    """Yield each reason why this run is no ground to change these hosts."""
    started = datetime.strptime(run.meta.started, "%Y-%m-%dT%H:%M:%S%z")
    age_h = (datetime.now(timezone.utc) - started).total_seconds() / 3600
    if not 0 <= age_h <= max_age_h:
        yield f"it is {age_h:.0f} h old, and max_age_h is {max_age_h:g}: validate again"
    if not run.meta.finished or run.meta.interrupted:
        yield "it did not come to its end: validate again"
    planned = {host.name for host in run.meta.hosts}
    strangers = [host for host in hosts if host not in planned]
    if strangers:
        yield f"it did not visit {fold(strangers)}: validate them, or --limit the play"
    states = {record.host: record.state for record in run.records}
    silent = [host for host in hosts if host in planned and states[host] != "reported"]
    if silent:
        yield f"it has no whole report of {fold(silent)}: validate them, or --limit the play"
    by_file: dict[str, list[str]] = {}
    for host in hosts:
        if host in files:
            by_file.setdefault(files[host][0], []).append(host)
    for name, own in by_file.items():
        yield from _unproven(run, name, files[own[0]][1], own)


def _unproven(run: Run, name: str, advice: NcclAdvice, hosts: Sequence[str]) -> Iterator[str]:
    if not advice.settings:
        yield f"it proves no setting for {fold(hosts)}: {advice.summary}"
    elif _written(run.path / name) != [(s.name, s.value) for s in advice.settings]:
        yield f"its {name} is not what it proves: render it again, hwcheck report {run.path}"


def _written(path: Path) -> list[tuple[str, str]]:
    if not path.exists():
        return []
    lines = [line.partition("=") for line in path.read_text(encoding="utf-8").splitlines()]
    return [(name, value) for name, sign, value in lines if sign]


def main(arguments: Sequence[str]) -> int:
    """Return the exit code."""
    try:
        path, max_age_h = Path(arguments[0]), float(arguments[1])
        run = read_run(path)
    except (IndexError, ValueError, UsageError) as error:
        print(f"cannot apply a run: {error}", file=sys.stderr)
        return 1
    files, hosts = files_of(run), json.load(sys.stdin)
    reasons = list(refusals(run, files, hosts, max_age_h))
    for reason in reasons:
        print(f"{path} is not applied: {reason}", file=sys.stderr)
    if not reasons:
        for summary in dict.fromkeys(files[host][1].summary for host in hosts):
            print(summary)
        print(json.dumps({host: files[host][0] for host in hosts}))
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
