from __future__ import annotations

import shlex

import pytest

from hwcheck.connect.remote_command import interpreter, shell_line
from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host


def host(**fields: object) -> Host:
    return Host("n1", "n1", **fields)  # type: ignore[arg-type]


def test_without_become() -> None:
    assert interpreter(host(python="/usr/bin/env python3")) == ["/usr/bin/env", "python3"]


def test_sudo_asks_for_nothing_or_reads_one_line() -> None:
    words = interpreter(host(become=True, become_user="gpu$"))
    assert words == ["sudo", "-H", "-n", "-u", "gpu$", "--", "python3"]
    words = interpreter(host(become=True, become_password="s3cret"))
    assert words == ["sudo", "-H", "-S", "-p", "", "-u", "root", "--", "python3"]
    assert "s3cret" not in shell_line(words)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_password_may_end_with_its_line(end: str) -> None:
    """As that of a vaulted file does: sudo reads the one line."""
    assert "-S" in interpreter(host(become=True, become_password=f"s3cret{end}"))


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        (("-H", "-S", "-n"), []),
        (("-HSn", "--set-home"), []),
        (("-E",), ["-E"]),
        (("-HnE",), ["-E"]),
        (("--preserve-env", "-E"), ["-E"]),
    ],
)
def test_flags_and_program_of_sudo(flags: tuple[str, ...], kept: list[str]) -> None:
    words = interpreter(host(become=True, become_exe="/opt/bin/sudo -k", become_flags=flags))
    expected = ["/opt/bin/sudo", "-k", "-H", *kept, "-n", "-u", "root", "--", "python3"]
    assert words == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"python": ""}, "ansible_python_interpreter"),
        ({"python": "py'thon'"}, "ansible_python_interpreter"),
        ({"python": 'python3 "x'}, "ansible_python_interpreter"),
        ({"python": "python3!"}, "ansible_python_interpreter"),
        ({"python": "python3\nreboot"}, "ansible_python_interpreter"),
        ({"python": "-c"}, "ansible_python_interpreter"),
        ({"become": True, "become_method": "su"}, "ansible_become_method: su is not supported"),
        ({"become": True, "become_user": "root; reboot"}, "ansible_become_user"),
        ({"become": True, "become_user": "-s"}, "ansible_become_user"),
        ({"become": True, "become_exe": "sudo; reboot'"}, "ansible_become_exe"),
        ({"become": True, "become_exe": "-x"}, "ansible_become_exe"),
        (
            {"become": True, "become_flags": ("-H", "-i")},
            "ansible_become_flags: -i is not",
        ),
        (
            {"become": True, "become_flags": ("-HEi",)},
            "ansible_become_flags: -HEi is not",
        ),
        ({"become": True, "become_flags": ("-u", "ann")}, "ansible_become_flags: -u is not"),
        ({"become": True, "become_password": "one\ntwo"}, "ansible_become_password: it holds"),
        ({"become": True, "become_password": "\rtwo\n"}, "ansible_become_password: it holds"),
    ],
)
def test_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=f"n1: {message}"):
        interpreter(host(**fields))


@pytest.mark.parametrize(
    "word", ["a", "", "a b", "$HOME", "`id`", "$(id)", "a;b", "*", "~root", "=ls", "a&b", '"', "#"]
)
def test_words_stay_words(word: str) -> None:
    assert shlex.split(shell_line(["x", word, "y"])) == ["x", word, "y"]
    if word != "a":
        assert shell_line([word]) == f"'{word}'"


@pytest.mark.parametrize("word", ["it's", "wow!", "a\\b", "a\nb"])
def test_a_word_that_some_shell_would_read(word: str) -> None:
    with pytest.raises(ValueError, match="no quoting"):
        shell_line([word])
