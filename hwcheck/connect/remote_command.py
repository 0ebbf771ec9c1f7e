"""The command that starts a visit on a node, as words and as one line for any login shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from hwcheck.errors import HostError
from hwcheck.inventory.inventory import Host

PLAIN = re.compile(r"[A-Za-z0-9_/.:,+@%][A-Za-z0-9_/.:,+@%=-]*\Z|-[A-Za-z]\Z|--\Z")
# What some shell (sh, csh, tcsh, fish, zsh) reads even between single quotes.
UNQUOTABLE = re.compile(r"['\\!\n\r\0]")
ALWAYS_SET = ("--set-home", "--stdin", "--non-interactive")
USER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*\$?\Z")


def interpreter(host: Host) -> list[str]:
    """Return the words that start the host's Python, behind sudo where the inventory asks for it.

    Raises UsageError when they cannot be passed safely.
    """
    python = _command(host.python)
    if not python:
        raise HostError(
            "", host.name, f"ansible_python_interpreter: {host.python!r} is not a path or a command"
        )
    return [*_sudo(host), *python] if host.become else python


def _command(text: str) -> list[str]:
    """Return the words of a command; empty where it is none or cannot be passed safely."""
    words = [] if UNQUOTABLE.search(text) else _split(text)
    return [] if not words or words[0].startswith("-") else words


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a double quote that is not closed
        return []


def _sudo(host: Host) -> list[str]:
    if host.become_method not in ("sudo", "ansible.builtin.sudo"):
        raise HostError(
            "", host.name, f"ansible_become_method: {host.become_method} is not supported; use sudo"
        )
    if not USER_NAME.match(host.become_user):
        raise HostError("", host.name, f"ansible_become_user: {host.become_user!r} is not a user")
    sudo = _command(host.become_exe)
    if not sudo:
        raise HostError("", host.name, f"ansible_become_exe: {host.become_exe!r} is not a command")
    if re.search(r"[\r\n]", (host.become_password or "").rstrip("\r\n")):
        raise HostError("", host.name, "ansible_become_password: it holds more than one line")
    # With a password sudo reads one line of stdin (-S) and asks nothing (-p); without, it must
    # not wait for one (-n).
    asking = ["-n"] if host.become_password is None else ["-S", "-p", ""]
    return [*sudo, "-H", *_environment(host), *asking, "-u", host.become_user, "--"]


def _environment(host: Host) -> list[str]:
    """Return ``-E`` where ansible_become_flags ask for it; -H, -S and -n are ours to set."""
    keep: list[str] = []
    for flag in host.become_flags:
        if flag == "--preserve-env" or re.match(r"-[HSnE]*E[HSnE]*\Z", flag):
            keep = ["-E"]
        elif flag not in ALWAYS_SET and not re.match(r"-[HSn]+\Z", flag):
            raise HostError(
                "", host.name, f"ansible_become_flags: {flag} is not supported; use -H, -S, -n, -E"
            )
    return keep


def shell_line(words: Sequence[str]) -> str:
    """Return one line that sh, bash, dash, zsh, csh, tcsh and fish split into these words.

    Raises ValueError when a word cannot be quoted for all of them.
    """
    return " ".join(map(_quote, words))


def _quote(word: str) -> str:
    if PLAIN.match(word):
        return word
    if UNQUOTABLE.search(word):
        raise ValueError(f"no quoting of {word!r} suits every shell")
    return f"'{word}'"
