"""What starts a sweep: a systemd timer with its service, or a line for cron. Pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cache

import jinja2

from hwcheck.text import line

_AT = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]")
MOST_RANDOM_S = 12 * 3600.0
_PLAIN = re.compile(r"[A-Za-z0-9_./:@=,+-]+")


@dataclass(frozen=True)
class ScheduledSweep:
    """A sweep that is started by the clock.

    ``words`` are its command line, ``folder`` where it is run, ``writable`` the folders that it
    writes to, ``environment`` what it gets beside systemd's own. It begins at ``at`` (02:30) and up
    to ``randomize_s`` later; where ``at`` is empty, ``every_s`` after the one before. ``local``:
    this machine is one of its hosts. ``user`` is empty for the caller's own units.
    """

    name: str
    source: str
    words: tuple[str, ...]
    folder: str
    writable: tuple[str, ...]
    at: str
    randomize_s: int
    every_s: int
    timeout_s: int
    user: str = ""
    local: bool = False
    environment: tuple[tuple[str, str], ...] = ()


def time_of_day(text: str) -> str:
    """Return a time such as 02:30. Raises ValueError."""
    if not _AT.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no time of day such as 02:30")
    return text


def service(job: ScheduledSweep) -> str:
    """Return the service."""
    return _text("service.j2", job)


def timer(job: ScheduledSweep) -> str:
    """Return its timer."""
    return _text("timer.j2", job)


def cron(job: ScheduledSweep) -> str:
    """Return a file of cron.d that does the same.

    Cron takes ``%`` for the end of a line, and its jobs have no output that anybody reads: what
    there is to say is in the run folder, and `sweep status` tells when there is none.
    """
    if job.at:
        hour, minute = job.at.split(":")
        when = f"{int(minute)} {int(hour)} * * *"
    else:
        minutes = max(1, min(59, round(job.every_s / 60)))
        when = f"*/{minutes} * * * *"
    words = ["env", *(f"{name}={value}" for name, value in job.environment), *job.words]
    command = shlex.join(words if job.environment else job.words)
    if job.randomize_s and job.at:
        # cron has no such thing; $RANDOM is bash's.
        command = f"sleep $(shuf -i 0-{job.randomize_s} -n 1) && {command}"
    command = f"cd {shlex.quote(job.folder)} && {command} >/dev/null 2>&1"
    escaped = command.replace("%", "\\%")
    head = "# Written by `hwcheck sweep install`; `hwcheck sweep remove` takes it away.\n"
    return f"{head}PATH=/usr/local/bin:/usr/bin:/bin\n{when} {job.user or 'root'} {escaped}\n"


def unit_word(word: str) -> str:
    """Return a word as a setting of a unit has to have it: nothing in it is expanded or split."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return escaped if _PLAIN.fullmatch(word) else f'"{escaped}"'


def _text(name: str, job: ScheduledSweep) -> str:
    shown = {
        **vars(job),
        "title": line(job.source, 200).replace("%", "%%"),
        # In a command line, and nowhere else, a dollar is doubled.
        "command": " ".join(unit_word(word).replace("$", "$$") for word in job.words),
        # A folder is one path to the end of the line.
        "folder": job.folder.replace("%", "%%"),
        "writable": [unit_word(f"-{path}") for path in job.writable],
        "environment": [unit_word(f"{name}={value}") for name, value in job.environment],
    }
    return _environment().get_template(name).render(job=shown)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("hwcheck.fleet.sweep"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - units, and every word is quoted by unit_word
    )
