"""The units of a sweep, held against systemd's own programs, and its line for cron."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.fleet.sweep.schedule import ScheduledSweep, cron, service, time_of_day, timer
from hwcheck.fleet.sweep.units import UnitFolder, install, remove

JOB = ScheduledSweep(
    name="hwcheck-sweep-cluster-12345678",
    source="/srv/cluster.yml",
    words=("/usr/bin/env", "sweep", "run", "--hosts", "/srv/cluster.yml", "--limit", "all:!n3"),
    folder="/srv",
    writable=("/srv/runs", "/srv/runs-minutes"),
    at="02:30",
    randomize_s=1800,
    every_s=86400,
    timeout_s=7200,
    user="daemon",
)
ODD = replace(
    JOB,
    source="/srv/50%/my $HOME.yml",
    words=("/usr/bin/env", "--hosts", '/srv/50%/a "b" $HOME ${x} \\n.yml', "%n", "it's; rm -rf /"),
    folder="/srv/50%",
    writable=("/srv/50%/my runs",),
    environment=(("ANSIBLE_CONFIG", "/srv/a b%.cfg"),),
)
ANALYZE = shutil.which("systemd-analyze")
EXPOSURE = 2.0
"""Of 10, by systemd 252, which gives 1.6: what is left is network, homes and Python's memory."""


@pytest.fixture
def analyze() -> str:
    if ANALYZE is None:
        assert os.environ.get("CI") != "true", "systemd-analyze is missing"
        pytest.skip("systemd-analyze is missing")
    return ANALYZE


def written(folder: Path, job: ScheduledSweep) -> list[Path]:
    files = [folder / f"{job.name}.service", folder / f"{job.name}.timer"]
    for file, text in zip(files, (service(job), timer(job)), strict=True):
        file.write_text(text)
    return files


@pytest.mark.parametrize(
    "job",
    [JOB, ODD, replace(JOB, user="", local=True), replace(JOB, at="", randomize_s=0, every_s=900)],
    ids=["plain", "odd", "local", "minutes"],
)
def test_systemd_finds_nothing_wrong(job: ScheduledSweep, tmp_path: Path, analyze: str) -> None:
    command = [analyze, "verify", "--man=no", *map(str, written(tmp_path, job))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    about_ours = [line for line in done.stderr.splitlines() if "hwcheck" in line]
    assert (done.returncode, about_ours) == (0, []), done.stderr


def test_systemd_would_find_a_setting_that_is_none(tmp_path: Path, analyze: str) -> None:
    files = written(tmp_path, JOB)
    files[0].write_text(files[0].read_text().replace("ProtectSystem=strict", "ProtectSystem=yess"))
    command = [analyze, "verify", "--man=no", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "yess" in done.stderr


def test_what_it_is_exposed_to(tmp_path: Path, analyze: str) -> None:
    exposures = []
    for job in (JOB, replace(JOB, local=True)):
        (file, _) = written(tmp_path, job)
        command = [analyze, "security", "--offline=true", "--no-pager", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        (figure,) = re.findall(r"Overall exposure level for .*: ([0-9.]+)", done.stdout)
        exposures.append(float(figure))
    assert exposures[0] < EXPOSURE < exposures[1], exposures


def command_line(text: str) -> str:
    (line,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    return line.removeprefix("ExecStart=")


def test_every_word_reaches_the_program_as_it_is(tmp_path: Path) -> None:
    assert command_line(service(JOB)) == " ".join(JOB.words[:-1]) + ' "all:!n3"'
    assert command_line(service(ODD)) == (
        r'/usr/bin/env --hosts "/srv/50%%/a \"b\" $$HOME $${x} \\n.yml" "%%n" "it'
        + "'s; rm -rf /\""
    )
    assert 'Environment="ANSIBLE_CONFIG=/srv/a b%%.cfg"' in service(ODD)
    assert 'ReadWritePaths="-/srv/50%%/my runs"' in service(ODD)


def test_the_timer_says_when() -> None:
    assert "OnCalendar=*-*-* 02:30:00\nRandomizedDelaySec=1800\n" in timer(JOB)
    minutes = timer(replace(JOB, at="", every_s=900))
    assert "OnUnitInactiveSec=900\n" in minutes
    assert "OnCalendar" not in minutes


def run_line(text: str, folder: Path) -> list[str]:
    """Run the command of a cron file as cron does, and return the words that the program got."""
    (entry,) = [line for line in text.splitlines() if line[:1].isdigit() or line[:1] == "*"]
    command = entry.split(None, 6)[6].replace("\\%", "%")
    script = folder / "program"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {folder}/words\n')
    script.chmod(0o755)
    subprocess.run(["/bin/sh", "-c", command], check=True)
    return (folder / "words").read_text().splitlines()


def test_cron_does_the_same(tmp_path: Path) -> None:
    words = (str(tmp_path / "program"), *ODD.words[1:])
    job = replace(ODD, words=words, folder=str(tmp_path), randomize_s=0)
    text = cron(job)
    assert "\n30 2 * * * daemon cd " in text
    assert run_line(text, tmp_path) == list(words[1:])
    assert not re.search(r"(?<!\\)%", text)
    assert "\n30 2 * * * daemon cd /srv && sleep $(shuf -i 0-1800 -n 1) && " in cron(JOB)
    assert "\n*/15 * * * * daemon cd /srv && /usr/bin/env" in cron(replace(JOB, at="", every_s=900))


def test_times_of_day() -> None:
    assert [time_of_day(text) for text in ("00:00", "02:30", "23:59")] == [
        "00:00",
        "02:30",
        "23:59",
    ]
    for text in ("24:00", "2:30", "02:60", "02:30:00", "", "soon", "٠٢:٣٠"):
        with pytest.raises(ValueError, match="no time of day"):
            time_of_day(text)


@pytest.fixture
def systemctl(tmp_path: Path) -> UnitFolder:
    """A systemctl that writes down how it is called."""
    script = tmp_path / "systemctl"
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n'
        f'[ "$1" != is-active ] || [ ! -e {tmp_path}/stands ] || exit 3\n'
        f"[ ! -e {tmp_path}/fails ] || {{ "
        "echo Failed to connect to bus >&2; exit 1; }\n"
    )
    script.chmod(0o755)
    return UnitFolder(tmp_path / "system", (str(script),))


def test_installed_and_removed(systemctl: UnitFolder, tmp_path: Path) -> None:
    unit, files = f"{JOB.name}.timer", systemctl.files(JOB.name)
    would = install(JOB, systemctl, dry_run=True)
    assert would == (*(f"{file}: would be written" for file in files), f"{unit}: would be started")
    assert not systemctl.folder.exists()
    assert install(JOB, systemctl) == (*(f"{file}: written" for file in files), f"{unit}: started")
    assert all(file.is_file() for file in files)
    as_it_is = (*(f"{file}: as it is" for file in files), f"{unit}: runs")
    assert install(JOB, systemctl) == install(JOB, systemctl, dry_run=True) == as_it_is
    assert remove(JOB.name, systemctl, dry_run=True) == files
    assert remove(JOB.name, systemctl) == files
    assert remove(JOB.name, systemctl) == ()
    assert list(systemctl.folder.iterdir()) == []
    asked = [f"is-enabled {unit}", f"is-active {unit}"]
    calls = ["daemon-reload", f"enable {unit}", f"restart {unit}", *asked, *asked]
    calls += [f"disable --now {unit}", "daemon-reload"]
    assert (tmp_path / "calls").read_text().splitlines() == calls


def test_what_somebody_changed_is_written_again_and_a_timer_that_stands_is_started(
    systemctl: UnitFolder, tmp_path: Path
) -> None:
    install(JOB, systemctl)
    service_file, timer_file = systemctl.files(JOB.name)
    timer_file.write_text("[Timer]\n")
    lines = install(JOB, systemctl)
    assert [line.rpartition(": ")[2] for line in lines] == ["as it is", "written", "started"]
    assert timer_file.read_text() == timer(JOB)
    (tmp_path / "stands").touch()
    assert install(JOB, systemctl, dry_run=True)[2] == f"{JOB.name}.timer: would be started"
    assert service_file.read_text() == service(JOB)


def test_a_timer_that_cannot_be_started_leaves_nothing(
    systemctl: UnitFolder, tmp_path: Path
) -> None:
    (tmp_path / "fails").touch()
    with pytest.raises(UsageError, match="daemon-reload: Failed to connect to bus"):
        install(JOB, systemctl)
    assert list(systemctl.folder.iterdir()) == []


def test_cron_without_systemd(tmp_path: Path) -> None:
    where = UnitFolder(tmp_path)
    (file,) = where.files(JOB.name)
    assert install(JOB, where) == (f"{file}: written",)
    assert install(JOB, where) == (f"{file}: as it is",)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", file.name), "cron leaves other names out"
    assert not stat.S_IMODE(file.stat().st_mode) & 0o022, "cron wants nobody else to write it"
    assert remove(JOB.name, where) == (file,)
    with pytest.raises(UsageError, match="has a line break in it"):
        install(replace(JOB, folder="/srv\n* * * * * root id"), where)
