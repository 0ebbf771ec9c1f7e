"""What the value of a flag may be, and what is said where it is not."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import click
import pytest

from hwcheck.cli.command import in_words, option
from hwcheck.cli.root import parse
from hwcheck.cli.values import (
    Duration,
    Folder,
    Names,
    Numbers,
    OneOf,
    Percent,
    Since,
    Size,
    Text,
    Whole,
)
from hwcheck.errors import UsageError

MIB = 1 << 20
LEGS = ("default", "p2p_off", "net")


def value(kind: click.ParamType[Any], text: str) -> Any:
    """Return what the type makes of the text as the value of a flag, which has a default."""

    @click.command("tried")
    @option("--flag", type=kind, default="usual")
    def tried() -> None: ...

    return tried.make_context("tried", [f"--flag={text}"]).params["flag"]


def refused(kind: click.ParamType[Any], text: str) -> str:
    with pytest.raises((UsageError, click.UsageError)) as caught:
        value(kind, text)
    error = caught.value
    return in_words(error) if isinstance(error, click.ClickException) else str(error)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("45m", 2700), ("1.5h", 5400), ("8h", 28800), ("1d", 86400)],
)
def test_a_duration(text: str, seconds: float) -> None:
    assert value(Duration(), text) == seconds


@pytest.mark.parametrize("text", ["", "h", "8hh", "8 h", "-8h", "1h30m", "0", "0.5", "inf", "1e9"])
def test_what_is_no_duration(text: str) -> None:
    assert refused(Duration(), text) == f"--flag {text}: it takes seconds, or 45m, 8h, 7d, 4w"


def test_no_time_at_all_where_that_means_something() -> None:
    assert value(Duration(may_be_0=True), "0") == 0.0


@pytest.mark.parametrize(
    ("words", "name", "seconds"),
    [
        ("validate --profile burn_in --duration 1d", "duration", 86400.0),
        ("validate --duration 90", "duration", 90.0),
        ("validate --timeout 2h", "timeout", 7200.0),
        ("sweep run --budget 90", "budget", 90.0),
        ("sweep install --randomize 1.5h", "randomize", 5400.0),
        ("rollout --drain-timeout 2d", "drain_timeout", 172800.0),
        ("rollout", "drain_timeout", 86400.0),
    ],
)
def test_every_flag_that_is_a_time_is_read_alike(words: str, name: str, seconds: float) -> None:
    (ctx,) = parse(words.split())
    assert ctx.params[name] == seconds


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("90m", timedelta(minutes=90)),
        ("12h", timedelta(hours=12)),
        ("30d", timedelta(days=30)),
        ("26w", timedelta(weeks=26)),
        ("600", timedelta(seconds=600)),
    ],
)
def test_since_so_long(text: str, ago: timedelta) -> None:
    for words in (f"history --since {text}", f"trend busbw_gbps --since {text}"):
        (ctx,) = parse(words.split())
        now = datetime.now(timezone.utc).replace(tzinfo=None)
        assert abs(now - ago - ctx.params["since"]) < timedelta(minutes=1)


def test_since_a_day() -> None:
    assert value(Since(), "2026-01-31") == datetime(2026, 1, 31)  # noqa: DTZ001 - as histories have


@pytest.mark.parametrize("text", ["yesterday", "2026-02-31", "30 days", "999999999w", ""])
def test_what_is_no_day(text: str) -> None:
    said = refused(Since(), text)
    assert said == f"--flag {text}: it takes a day (2026-01-31) or 30d, 12h, 90m"


def test_a_length_of_time_is_no_run() -> None:
    """``compare`` has no ``--since``; its value was taken for a run."""
    with pytest.raises(click.NoSuchOption) as caught:
        parse(["compare", "--since", "90m"])
    assert in_words(caught.value) == "--since: no such option of compare; did you mean --site?"


def test_a_whole_number_has_a_least_and_a_most() -> None:
    assert value(Whole(1, 9), "1") == 1
    assert refused(Whole(1), "0") == "--flag 0: it takes a whole number from 1"
    assert refused(Whole(0, 9), "10") == "--flag 10: at most 9"


@pytest.mark.parametrize("text", ["1" + "0" * 400, "9" * 5000])
def test_a_number_beyond_all_sense_is_refused_and_not_shown_whole(text: str) -> None:
    said = refused(Whole(0), text)
    assert "a whole number from 0, of at most 9 digits" in said
    assert len(said) < 120


def test_whole_numbers_with_commas() -> None:
    assert value(Numbers(), "2, 4") == (2, 4)
    assert refused(Numbers(), "2,x") == "--flag x: it takes a whole number from 1"


@pytest.mark.parametrize(
    ("text", "count"),
    [("8", 8), ("64k", 65536), ("8MB", 8 * MIB), ("0.5G", 512 * MIB), ("1.5M", 3 * MIB // 2)],
)
def test_sizes_as_nccl_tests_takes_them(text: str, count: int) -> None:
    assert value(Size(), text) == count


@pytest.mark.parametrize(
    "text", ["7", "", "1.M", "0.001K", "-1M", "1T", "65G", "M", "9" * 30, "\u0661M"]
)
def test_what_is_no_size(text: str) -> None:
    assert "it takes bytes, or 64K, 8M, 0.5G, from 8 B to 64 GiB" in refused(Size(), text)


@pytest.mark.parametrize(
    ("text", "wanted"), [("90", 90.0), ("99.5", 99.5), ("80%", 80.0), ("100", 100.0)]
)
def test_a_percentage(text: str, wanted: float) -> None:
    assert value(Percent(), text) == wanted


@pytest.mark.parametrize("text", ["0", "-1", "101", "all", "", "nan", "inf", "%"])
def test_what_is_no_percentage(text: str) -> None:
    assert "takes a percentage above 0 and up to 100" in refused(Percent(), text)


def test_a_percentage_that_may_be_left_out() -> None:
    for words, percent in (
        (["report", "run"], None),
        (["report", "run", "--require-coverage"], 100.0),
        (["report", "run", "--require-coverage", "95"], 95.0),
        (["report", "--require-coverage", "--json", "run"], 100.0),
    ):
        (ctx,) = parse(words)
        assert ctx.params["require_coverage"] == percent


def test_names_are_in_the_order_in_which_they_are_known() -> None:
    kind = Names("leg", lambda: LEGS, "time all")
    assert value(kind, "net, default") == ("default", "net")
    assert refused(kind, "p2poff") == "--flag p2poff: no such leg; did you mean p2p_off?"
    assert refused(kind, "zzz") == "--flag zzz: no such leg; known: default, p2p_off, net"
    assert refused(kind, ",") == "--flag ',' names no leg; leave --flag out to time all"


def test_one_of_some_words() -> None:
    kind = OneOf(LEGS)
    assert value(kind, "net") == "net"
    assert refused(kind, "nte").endswith("it is one of default, p2p_off, net; did you mean net?")
    assert refused(kind, "") == "--flag : it is one of default, p2p_off, net"


def test_what_another_parser_reads() -> None:
    assert value(Text("number", float), "1.5") == 1.5
    assert refused(Text("number", float), "x") == "--flag could not convert string to float: 'x'"


def test_an_empty_folder_is_an_unset_variable() -> None:
    said = "--flag is empty; name a folder, or leave --flag out for runs"
    assert refused(Folder("runs"), " ") == said
    with pytest.raises(UsageError, match="report: run is empty; name a folder"):
        parse(["report", ""])
