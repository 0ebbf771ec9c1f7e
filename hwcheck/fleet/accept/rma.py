"""What goes to the vendor of a host that failed a stage: its fault, its answers, its logs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from hwcheck.advise.assessment import Assessment
from hwcheck.contract.wire import to_json
from hwcheck.fleet.accept.evidence import StageResult
from hwcheck.fleet.accept.fault import answer_for_vendor, log_for_vendor
from hwcheck.fleet.accept.progress import HostProgress


def runs_until_failure(host: HostProgress, results: Sequence[StageResult]) -> list[str]:
    """Return the names of the runs that visited a host, the last is the one that it failed in."""
    failed_in = host.stages[host.blocked].evidence[-1].run
    runs = [result.run for result in results if host.host in result.hosts]
    return runs[: runs.index(failed_in) + 1]


def answers_and_logs(assessments: Sequence[Assessment], host: str) -> Iterator[tuple[str, bytes]]:
    """Yield the host's answer and log in each stage, by their names in the archive.

    Other hosts' names and what looks like a secret are left out. A link is not followed.
    """
    for assessment in assessments:
        stage = assessment.run.meta.acceptance["stage"]
        log = assessment.run.path / "nodes" / f"{host}.log"
        answer = log.with_suffix(".json")
        if _is_plain(answer):
            data = json.loads(answer.read_bytes())
            yield f"{stage}.json", to_json(answer_for_vendor(data, assessments, host)).encode()
        if _is_plain(log):
            text = log_for_vendor(log.read_text("utf-8", "replace"), assessments, host)
            yield f"{stage}.log", text.encode()


def attachments(attach: Path | None, host: str) -> Iterator[tuple[str, Path]]:
    """Yield the files that somebody put into a folder of the host's name, by their names."""
    folder = attach / host if attach else None
    for path in sorted(folder.iterdir()) if folder and folder.is_dir() else ():
        if _is_plain(path):
            yield f"attached/{path.name}", path


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
