"""Whatever comes from a process ends with it, in whichever session it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hwcheck.node import descendants, torch_process
from tests.node.processes import alive, gone

ROOT = str(Path(__file__).parents[2])

# Its wrapper forks, puts the rest into a session of its own, and ends or stays.
ENDS = "import sys; from hwcheck.node import descendants; {adopt}; {start}; {kill}; sys.exit()"
START = "import subprocess; print(subprocess.check_output(sys.argv[1:], text=True).strip())"
WRAPPER = "setsid sh -c 'echo $$; exec >/dev/null 2>&1; exec sleep 600' &"


@pytest.mark.parametrize("kills", [True, False])
def test_what_a_wrapper_left_in_another_session_is_killed(kills: bool) -> None:
    code = ENDS.format(
        adopt="descendants.adopt()", start=START, kill="descendants.kill_all()" if kills else "pass"
    )
    command = [sys.executable, "-c", code, "sh", "-c", WRAPPER]
    environment = {**os.environ, "PYTHONPATH": ROOT}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    left = int(done.stdout)
    if kills:
        assert gone(left)
    else:  # the negative control
        assert alive(left)
        descendants.kill(left)
        assert gone(left)


@pytest.mark.parametrize("first", [True, False])
def test_whoever_has_a_daemon_work_for_it_is_asked_to_end_before_all_are_killed(
    first: bool, tmp_path: Path
) -> None:
    note, ready = tmp_path / "note", tmp_path / "ready"
    script = f"trap 'echo stopped >{note}; exit' TERM; touch {ready}; while :; do :; done"
    code = (
        "import subprocess, sys; from hwcheck.node import descendants as d; "
        "from hwcheck.node.collective.ranks import wait_until; from pathlib import Path; "
        "d.adopt(); client = subprocess.Popen(['/bin/bash', '-c', sys.argv[1]])\n"
        f"with d.ended_first(client.pid if {first} else None):\n"
        f"    wait_until(Path({str(ready)!r}).exists, 20); d.kill_all()"
    )
    environment = {**os.environ, "PYTHONPATH": ROOT}
    subprocess.run([sys.executable, "-c", code, script], env=environment, check=True)
    assert ready.exists()
    assert note.exists() == first  # False: the negative control


def test_what_is_not_its_own_is_left_alone() -> None:
    with subprocess.Popen(["sleep", "600"]) as other:
        code = "from hwcheck.node import descendants as d; d.adopt(); d.kill_all(); print(d.of(1))"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": ROOT},
            capture_output=True,
            text=True,
            check=True,
        )
        assert str(other.pid) in done.stdout
        assert alive(other.pid)
        other.kill()


def test_the_end_of_torchs_interpreter_is_that_of_all_below_its_wrapper(tmp_path: Path) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text("#!/bin/sh\nsetsid sh -c 'echo $$; exec sleep 600' & wait\n")
    wrapper.chmod(0o755)
    process = torch_process.start(str(wrapper), "", "", subprocess.DEVNULL, 2)
    assert process.stdout is not None
    below = int(process.stdout.readline())
    assert alive(below)
    torch_process.end(process)
    assert gone(below)
