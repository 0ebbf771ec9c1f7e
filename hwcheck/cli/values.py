"""What the value of a flag may be: types for click that say what they take, and complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta, timezone
from typing import Any

import click

from hwcheck.cli.command import SIZE, Option, nearest, path_of
from hwcheck.errors import UsageError
from hwcheck.text import binary_size
from hwcheck.times import length_s

MOST_DIGITS = 9
"""More than any count here has, and far from where Python refuses."""
LEAST_S = 1.0
"""Of a flag that is a time."""
LEAST_BYTES, MOST_BYTES = 8, 64 << 30
"""nccl-tests' own examples begin at 8 bytes (README.md)."""
_SCALE = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Whole(click.IntRange):
    """A whole number, ``min`` or more."""

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Return the number."""
        text, least = str(value), int(self.min or 0)
        if not text.isdecimal() or len(text) > MOST_DIGITS or int(text) < least:
            most = f", of at most {MOST_DIGITS} digits" if len(text) > MOST_DIGITS else ""
            self.fail(f"{text[:40]}: it takes a whole number from {least}{most}", param, ctx)
        if self.max is not None and int(text) > self.max:
            self.fail(f"{text}: at most {self.max}", param, ctx)
        return int(text)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002
        """Return ``N``."""
        return "N"


class OneOf(click.Choice[str]):
    """One of some words; ``bare`` is what a flag without its value says."""

    def __init__(self, choices: Iterable[str], bare: str = "") -> None:
        super().__init__(choices)
        self.bare = bare

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the word."""
        if value not in self.choices and not (self.bare and value == self.bare):
            hint = nearest(str(value), self.choices)
            takes = "it is one of" if len(self.choices) > 1 else "it takes"
            nothing = ", or nothing" if self.bare else ""
            problem = f"{value}: {takes} {', '.join(self.choices)}{nothing}"
            self.fail(f"{problem}; {hint}" if hint else problem, param, ctx)
        return str(value)


class Words(click.ParamType[Any]):
    """Several words with commas between, kept as text; ``words`` are those that a shell completes.

    What they may be is known when the command runs: a site brings checks of its own.
    """

    name = "words"

    def __init__(self, noun: str, words: Callable[[], Sequence[str]]) -> None:
        self.noun = noun
        self.words = words

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002
        """Return ``CHECK,...``."""
        noun = self.noun.upper()
        return noun if isinstance(param, click.Argument) else f"{noun},..."

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[Any]:  # noqa: ARG002
        """Return what may stand in the place of the last word."""
        from click.shell_completion import CompletionItem

        before = incomplete[: incomplete.rfind(",") + 1]
        words = [before + word for word in self.words()]
        return [CompletionItem(word) for word in words if word.startswith(incomplete)]


class Names(Words):
    """Several of some words with commas between, in the order in which they are known.

    ``without`` is what happens where the flag is left out.
    """

    def __init__(self, noun: str, words: Callable[[], Sequence[str]], without: str) -> None:
        super().__init__(noun, words)
        self.without = without

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        """Return the words. Raises UsageError with the nearest."""
        if isinstance(value, tuple):
            return value
        what = param.flag if isinstance(param, Option) else path_of(ctx)
        return tuple(split(what, value, self.words(), self.noun, self.without))


class Numbers(click.ParamType[tuple[int, ...]]):
    """Whole numbers from 1 with commas between."""

    name = "n,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        """Return the numbers."""
        if isinstance(value, tuple):
            return value
        return tuple(Whole(1).convert(part.strip(), param, ctx) for part in value.split(","))


class Duration(click.ParamType[float]):
    """A length of time, in seconds: ``90``, ``90s``, ``45m``, ``8h``, ``1d``, ``4w``."""

    name = "time"

    def __init__(self, *, may_be_0: bool = False) -> None:
        self.may_be_0 = may_be_0

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Return the seconds."""
        if isinstance(value, float) or (self.may_be_0 and value == "0"):
            return float(value)
        try:
            seconds = length_s(value)
        except ValueError:
            seconds = 0.0
        if seconds < LEAST_S:
            self.fail(f"{value[:40]}: it takes seconds, or 45m, 8h, 7d, 4w", param, ctx)
        return seconds


class Since(click.ParamType[datetime]):
    """A time (UTC): a day (``2026-01-31``), or how long ago (``30d``, ``12h``, ``90m``)."""

    name = "day"

    def convert(self, value: Any, param: Any, ctx: Any) -> datetime:
        """Return the time."""
        if isinstance(value, datetime):
            return value
        try:
            return datetime.combine(date.fromisoformat(value), time())
        except ValueError:  # no day, so how long ago
            return self._ago(value, param, ctx)

    def _ago(self, value: str, param: Any, ctx: Any) -> datetime:
        now = datetime.now(timezone.utc).replace(tzinfo=None)
        try:
            return now - timedelta(seconds=length_s(value))
        except (ValueError, OverflowError):
            self.fail(f"{value[:40]}: it takes a day (2026-01-31) or 30d, 12h, 90m", param, ctx)


class Size(click.ParamType[int]):
    """A size in bytes as nccl-tests takes it: ``1048576``, ``1M``, ``0.5G``, in powers of 1024."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Return the bytes."""
        if isinstance(value, int):
            return value
        match = SIZE.fullmatch(value)
        count = int(float(match[1]) * _SCALE[match[2].lower()]) if match else 0
        if not LEAST_BYTES <= count <= MOST_BYTES:
            limits = f"{binary_size(LEAST_BYTES)} to {binary_size(MOST_BYTES)}"
            self.fail(f"{value}: it takes bytes, or 64K, 8M, 0.5G, from {limits}", param, ctx)
        return count


class Percent(click.ParamType[float]):
    """A percentage above 0."""

    name = "percent"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Return the percentage."""
        try:
            percent = float(str(value).removesuffix("%"))
        except ValueError:
            percent = -1.0
        if not 0 < percent <= 100:
            self.fail(f"{value}: it takes a percentage above 0 and up to 100", param, ctx)
        return percent


class Text(click.ParamType[Any]):
    """What another parser reads later, such as a count or a share."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self.parse = parse

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return what the parser makes of it."""
        try:
            return self.parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Folder(click.Path):
    """A folder, by its name; a shell completes it. An empty name is an unset variable."""

    def __init__(self, usual: str = "") -> None:
        super().__init__(file_okay=False)
        self.name = "folder"
        self.usual = usual

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the name. Raises UsageError for an empty one."""
        if str(value).strip():
            return str(value)
        if not isinstance(param, Option):
            raise UsageError(f"{path_of(ctx)}: {param.name} is empty; name a folder")
        usual = f" for {self.usual}" if self.usual else ""
        flag = param.flag
        raise UsageError(f"{flag} is empty; name a folder, or leave {flag} out{usual}")


def split(
    flag: str, text: str | None, choices: Sequence[str], noun: str, without: str
) -> list[str]:
    """Return the names of a flag, in the order of ``choices``; none without the flag.

    ``noun`` is what they name, ``without`` what happens without the flag. Raises UsageError.
    """
    if text is None:
        return []
    names = {part.strip() for part in text.split(",")} - {""}
    if not names:  # an unset variable in a script must not run everything
        raise UsageError(f"{flag} {text!r} names no {noun}; leave {flag} out to {without}")
    for name in sorted(names - set(choices)):
        hint = nearest(name, choices, 0.5) or "known: " + ", ".join(choices)
        raise UsageError(f"{flag} {name}: no such {noun}; {hint}")
    return [name for name in choices if name in names]
