"""A reader that goes away costs the printing and nothing else; a full disk is exit code 2."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import factories
from tests.factories import gpu_host

HWCHECK = Path(sys.executable).parent / "hwcheck"


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    """Return a saved run that ends with exit code 1."""
    return factories.saved(tmp_path, gpu_host("a", power_limit_w=300.0))


@pytest.fixture
def no_reader() -> int:
    """Return a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def hwcheck(*argv: object, **streams: int) -> subprocess.CompletedProcess[str]:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.run([HWCHECK, *map(str, argv)], text=True, check=False, **streams)


@pytest.mark.parametrize(
    ("argv", "unbuffered"),
    [
        (["report", "--json"], ""),
        (["report"], "1"),
        pytest.param(["report", "--json"], "1", marks=pytest.mark.wide),
        pytest.param(["report"], "", marks=pytest.mark.wide),
    ],
)
def test_a_reader_that_went_away_leaves_the_verdicts_exit_code(
    failed: Path,
    no_reader: int,
    monkeypatch: pytest.MonkeyPatch,
    argv: list[str],
    unbuffered: str,
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    done = hwcheck(*argv, failed, stdout=no_reader)
    assert (done.returncode, done.stderr) == (1, "")
    assert (failed / "report.html").exists()


@pytest.mark.parametrize("argv", [["checks"], ["--list"], ["--version"], ["validate", "--help"]])
def test_lists_and_help_may_lose_their_reader(no_reader: int, argv: list[str]) -> None:
    done = hwcheck(*argv, stdout=no_reader)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("argv", "unbuffered"),
    [
        (["report", "--json"], ""),
        (["checks"], "1"),
        *(
            pytest.param(*each, marks=pytest.mark.wide)
            for each in (
                (["report", "--json"], "1"),
                (["report"], ""),
                (["report"], "1"),
                (["checks"], ""),
                (["--list"], ""),
                (["--list"], "1"),
            )
        ),
    ],
)
def test_stdout_on_a_full_disk_is_one_line(
    failed: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], unbuffered: str
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with Path("/dev/full").open("w") as full:
        done = hwcheck(*argv, *([failed] if "report" in argv else []), stdout=full.fileno())
    assert done.returncode == 2
    assert done.stderr.startswith("hwcheck: cannot write to stdout: No space left on device")
    assert done.stderr.count("\n") == 1
    if "report" in argv:
        assert f"the reports are in {failed}" in done.stderr


def test_a_refusal_that_nobody_reads_keeps_its_exit_code(no_reader: int) -> None:
    assert hwcheck("report", "nosuch", stderr=no_reader).returncode == 2


def test_validate_goes_on_when_nobody_reads_stderr(tmp_path: Path, no_reader: int) -> None:
    inventory = tmp_path / "one.yml"
    inventory.write_text("all: {hosts: {away: {ansible_host: 127.0.0.1, ansible_port: 1}}}\n")
    argv = ["validate", "--hosts", inventory, "--out", tmp_path / "out", "-v"]
    done = hwcheck(*argv, stderr=no_reader)
    assert done.returncode == 3
    assert "connect" in done.stdout
    (run,) = (tmp_path / "out").glob("2*")
    assert (run / "nodes" / "away.json").exists()


def test_a_character_that_stdout_cannot_hold_is_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    name = "NVIDIA \u00c4 100"
    done = hwcheck("report", factories.saved(tmp_path, gpu_host("a", gpu_name=name)))
    assert "\\xc4 100" in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize("argv", ["validate --hosts away,", "report", "checks", "--list"])
def test_a_closed_stdout_is_one_line_before_anything_is_done(
    tmp_path: Path, failed: Path, argv: str
) -> None:
    words = f"{HWCHECK} {argv} {failed if argv == 'report' else ''} >&-"
    done = subprocess.run(["sh", "-c", words], stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("hwcheck: stdout is closed (>&-)")
    assert not (tmp_path / "runs").exists() or argv == "report"


def test_a_closed_stderr_costs_the_messages_only(failed: Path) -> None:
    words = f"{HWCHECK} report {failed} 2>&-"
    done = subprocess.run(["sh", "-c", words], stdout=subprocess.PIPE, text=True)
    assert (done.returncode, "power_limit" in done.stdout) == (1, True)


@pytest.mark.wide
def test_python_may_leave_docstrings_out(failed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    assert hwcheck("report", failed).returncode == 1
    assert "power_limit_w" in hwcheck("checks", "power_cap").stdout
