"""The workers of ``make test`` share no file: what a file's tests have in common is made once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

MAKEFILE = Path(__file__).parent.parent / "Makefile"
FILES, TESTS = 8, 3
EACH = """
import os
import pathlib
import time
import pytest

HERE = pathlib.Path(__file__)

def names():
    return set("".join(each.read_text() for each in HERE.parent.glob("*.workers")).split())

@pytest.mark.parametrize("number", range({tests}))
def test_it(number):
    with HERE.with_suffix(".workers").open("a") as file:
        print(os.environ["PYTEST_XDIST_WORKER"], file=file)
    # No worker is ahead of all others before each has had a test.
    end = time.monotonic() + 30
    while len(names()) < {workers}:
        assert time.monotonic() < end
"""


def workers_by_file(folder: Path, flags: list[str], workers: int) -> list[set[str]]:
    """Run files of tests with these flags of pytest and return who ran each."""
    for number in range(FILES):
        (folder / f"test_{number}.py").write_text(EACH.format(tests=TESTS, workers=workers))
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *flags, "."]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return [set(each.read_text().split()) for each in folder.glob("*.workers")]


def test_a_file_stays_with_one_worker(tmp_path: Path) -> None:
    line = re.search(r"-m pytest --strict-config (-n (\d+) .*)", MAKEFILE.read_text())
    assert line
    workers = int(line[2])
    by_file = workers_by_file(tmp_path, line[1].split(), workers)
    assert [len(each) for each in by_file] == [1] * FILES
    assert len(set.union(*by_file)) == workers


def test_that_it_does_not_would_be_seen(tmp_path: Path) -> None:
    by_file = workers_by_file(tmp_path, ["-n", "2", "--dist", "load"], 2)
    assert max(len(workers) for workers in by_file) == 2


def test_no_test_has_imported_ansible() -> None:
    # It patches sys.intern, and torch's compiler cannot be imported in that process any more.
    assert "ansible.module_utils" not in sys.modules
