"""Programs that stand in for nccl-tests: for tests of whoever runs them or reads what they print.

``install`` writes ``program.py`` into a folder under the names of nccl-tests' programs, and beside
it a ``behavior.json``: the versions that they speak as, and for each leg (by the NCCL_* that a
program finds in its environment) the bus bandwidth that it shows and what goes wrong. The numbers
are made up.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PROGRAMS = ("all_reduce", "alltoall", "all_gather", "reduce_scatter", "broadcast", "sendrecv")
TESTS, NCCL = "2.19.6", "2.30.7"
LEGS: dict[str, dict[str, Any]] = {
    "default": {"busbw": 41.0, "via": "P2P/CUMEM"},
    "p2p_off": {"busbw": 29.5, "via": "SHM/direct/direct"},
    "net": {"busbw": 3.4, "via": "NET/Socket/0"},
    "nvlink_only": {"busbw": 30.5, "via": "SHM/direct/direct"},
    "p2p_sys": {"busbw": 40.5, "via": "P2P/CUMEM"},
}
"""What each leg shows where a test says nothing else; ``Program`` in program.py has the faults."""

VERSIONS = (
    *(("2.13.0", "2.18.5"), ("2.14.1", "2.19.4"), ("2.15.0", "2.20.5"), ("2.16.2", "2.21.5")),
    *(("2.16.9", "2.22.3"), ("2.17.3", "2.23.4"), ("2.17.6", "2.26.2"), ("2.17.9", "2.27.7")),
    *(("2.18.5", "2.28.9"), (TESTS, NCCL)),
)
"""Versions of nccl-tests, each with the NCCL that it was used with."""


def install(
    folder: Path,
    json_report: bool = True,
    versions: tuple[str, str] = (TESTS, NCCL),
    **legs: dict[str, Any],
) -> Path:
    """Make the programs in ``folder``; ``legs`` change what a leg does."""
    folder.mkdir(parents=True, exist_ok=True)
    behavior = {name: {**usual, **legs.get(name, {})} for name, usual in LEGS.items()}
    tests, nccl = versions
    words = {"json": json_report, "tests": tests, "nccl": nccl, "legs": behavior}
    (folder / "behavior.json").write_text(json.dumps(words))
    source = Path(__file__).with_name("program.py").read_text()
    for name in PROGRAMS:
        program = folder / f"{name}_perf"
        program.write_text(f"#!{sys.executable} -IS\n{source}")
        program.chmod(0o755)
    return folder


def records(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return what the programs noted in ``calls.jsonl`` (every start) or ``rows.jsonl``."""
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


def measuring(folder: Path) -> list[dict[str, Any]]:
    """Return the starts that measure: all but those that ask for the options."""
    return [call for call in records(folder, "calls") if call["leg"]]
