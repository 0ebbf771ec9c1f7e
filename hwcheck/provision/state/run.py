"""Runs the assertions without a command line of pytest."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.provision.state import plugin
from hwcheck.provision.state.engine import Engine
from hwcheck.provision.state.verdict import StateRecord

FOLDER = Path(__file__).parent


def assert_state(engine: Engine, folder: Path, *, verbose: bool = False) -> StateRecord:
    """Assert, print what pytest prints, write ``state.json`` and ``junit.xml`` into the folder.

    The same as ``pytest --pyargs hwcheck.provision.state``, but that neither the caller's pytest
    configuration nor other plugins count. With ``verbose`` it prints each assertion.
    Raises UsageError, and KeyboardInterrupt on Ctrl-C.
    """
    engine.record = folder / "state.json"
    options = ["--disable-plugin-autoload", f"--config-file={FOLDER / 'pytest.ini'}"]
    options += [
        "--verbose" if verbose else "--quiet",
        "--no-header",
        "--capture=no",
        "--no-summary",
    ]
    options += [
        f"--junit-xml={folder / 'junit.xml'}",
        "-o",
        "junit_suite_name=hwcheck.provision.state",
    ]
    status = pytest.main([*options, str(FOLDER)], plugins=[plugin, engine])
    if engine.result is not None:
        return engine.result
    if status == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    raise UsageError(f"pytest ended with {status} and without a result: see above")
