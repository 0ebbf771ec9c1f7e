"""``fab compare``: two runs, host by host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from invoke import Argument, Context

from hwcheck.errors import UsageError
from hwcheck.history.compare import compare as compare_runs
from hwcheck.history.compare import compare_last_green
from hwcheck.history.names import name_among
from hwcheck.history.views import History
from hwcheck.node import checks
from hwcheck.render.history import FORMATS, answer_text, comparison_answer, comparison_text
from hwcheck.results.folders import named_folder
from hwcheck.tasks.command import Command, Once, command
from hwcheck.tasks.dataset import RUNS, RUNS_HELP, history_of, write_picture
from hwcheck.tasks.flags import one_of
from hwcheck.tasks.output import emit, rendered
from hwcheck.text import line

GREEN = "green"
PAGE = ".html"


class Later(Once):
    """The second run, which has to be named unless ``--last`` says what it is."""

    last: Argument

    @property
    def value(self) -> Any:
        """The run; None, which Invoke takes for missing, where neither it nor --last is given."""
        return "" if self.raw_value is None and self.last.raw_value is not None else self._value

    @value.setter
    def value(self, value: Any) -> None:
        self.set_value(value)


class Compare(Command):
    """The task whose second run ``--last`` stands for."""

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        """Return the flags."""
        flags = super().get_arguments(ignore_unknown_help)
        (last,) = (flag for flag in flags if flag.name == "last")
        for flag in flags:
            if flag.name == "later":
                flag.__class__ = Later
                flag.last = last
        return flags


@command(
    klass=Compare,
    positional=["run", "later"],
    help={
        "run": "a run, by its folder or its folder's name; with --last the run that is compared",
        "later": "the run that is compared with it",
        "last": "green: compare each host with its own last green run",
        "format": "table (default), csv or json",
        "output": "draw it: FILE.html",
        **RUNS_HELP,
    },
)
def compare(
    ctx: Context,  # noqa: ARG001 - invoke hands every task its context
    run: str,
    later: str,
    last: str = "",
    format: str = FORMATS[0],  # noqa: A002 - the flag's name
    output: str = "",
    runs: str = RUNS,
) -> None:
    """Say what changed between two runs: outcomes, GPUs, versions, settings, figures."""
    one_of("--format", format, FORMATS)
    if last:
        one_of("--last", last, (GREEN,))
    if output and Path(output).suffix != PAGE:
        raise UsageError(f"--output {output}: it draws {PAGE}; end the name so")
    if bool(later) == bool(last):
        raise UsageError("compare: name two runs, or one run and --last green")
    two = () if last else (Path(run).name, Path(later).name)
    with history_of(runs, only=two) as past:
        first = run_named(past, run)
        compared = (
            compare_last_green(past, first, checks.load())
            if last
            else compare_runs(past, first, run_named(past, later), checks.load())
        )
    if output:
        from hwcheck.render.comparison import comparison_html  # not above: Jinja is for pages

        write_picture(output, comparison_html(compared).encode())
    elif format == FORMATS[0]:
        emit(rendered(comparison_text(compared)))
    else:
        text = answer_text(comparison_answer(compared), format)
        assert isinstance(text, str)
        emit(text)


def run_named(history: History, name: str) -> str:
    """Return the run of this name, or whose folder this is. Raises UsageError with the nearest."""
    last = named_folder(name).name
    for run, folder in history.folders.items():
        if folder.name == last:
            return run
    folders = [path.name for path in history.runs.iterdir() if (path / "run.json").exists()]
    name_among("run", last, folders)
    raise UsageError(f"{line(last, 80)}: it is not in the history; hwcheck history says why")
