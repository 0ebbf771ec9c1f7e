"""The variables of one host: templated, decrypted, of the kind that is wanted.

``ansible-inventory`` prints variables as they were written: ``{{ }}`` and inline ``!vault`` values
are left to the reader.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox

from hwcheck.errors import HostError, UsageError
from hwcheck.inventory import ansible
from hwcheck.inventory.defaults import Defaults

TRUE = {"true", "yes", "on", "1", "y", "t"}
FALSE = {"false", "no", "off", "0", "n", "f", ""}
"""Ansible's words for a boolean."""

SEALS = {"{{": "\ue000", "{%": "\ue001"}
"""Private characters in place of what begins a template."""


class _VaultError(Exception):
    """An encrypted value that cannot be read."""


class _NotAWordError(jinja2.TemplateError):
    """A number with a fraction or a boolean stands where a word is wanted."""


def _only_words(value: Any) -> Any:
    # YAML and Python drop the last zero of 570.10: what was written is lost by now.
    if isinstance(value, (bool, float)):
        kind = "a boolean" if isinstance(value, bool) else "a number"
        raise _NotAWordError(f"{value} was read as {kind}; write it in quotes")
    return value


def _jinja(**options: Any) -> jinja2.Environment:
    return jinja2.sandbox.SandboxedEnvironment(
        undefined=jinja2.StrictUndefined, autoescape=False, **options
    )


_JINJA, _JINJA_OF_WORDS = _jinja(), _jinja(finalize=_only_words)


class Variables:
    """The variables of one host: as the inventory has them in ``written``, by method as meant.

    ``raw`` has the defaults as well that count for the host. ``source_title`` names the inventory
    in messages, and files that variables name are looked for in ``folder``. Every method returns
    None where none of its names is set, unless it says otherwise.
    """

    def __init__(
        self,
        host: str,
        written: Mapping[str, Any],
        source_title: str,
        defaults: Defaults | None = None,
        folder: Path = Path(),
    ) -> None:
        self.host = host
        self.source_title = source_title
        self.folder = folder
        self.written = written
        of_defaults = defaults.under(written) if defaults else {}
        self._origins = {name: defaults.origins[name] for name in of_defaults} if defaults else {}
        self.raw = {**of_defaults, **written}
        self.context = {key: _wrap(value) for key, value in self.raw.items()} | {
            "inventory_hostname": host,
            "inventory_hostname_short": host.partition(".")[0],
            "ansible_playbook_python": sys.executable,
        }

    def error(self, key: str, problem: str) -> HostError:
        """Return the error that names this host and variable, and where it comes from."""
        where = self._origins.get(key, self.source_title)
        return HostError(where, self.host, f"{key}: {problem}")

    def text(self, *names: str) -> str | None:
        """Return the first of these variables that is set, as text."""
        for name in names:
            value = self.raw.get(name)
            if value is not None:
                return self._render(name, value, _JINJA)
        return None

    def word(self, name: str) -> str | None:
        """Return text that must reach us as it was written: a version, a name."""
        value = self.raw.get(name)
        try:
            _only_words(value)
            return None if value is None else self._render(name, value, _JINJA_OF_WORDS)
        except _NotAWordError as error:
            raise self.error(name, str(error)) from None

    def number(self, *names: str) -> int | None:
        """Return a whole number."""
        text = self.text(*names)
        if text is None:
            return None
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
            raise self.error(names[0], f"{text!r} is not a whole number")
        return int(text)

    def port(self, *names: str) -> int | None:
        """Return a TCP port, 1 to 65535."""
        number = self.number(*names)
        if number is not None and not 1 <= number <= 65535:
            raise self.error(names[0], f"{number} is not a port from 1 to 65535")
        return number

    def words(self, name: str) -> tuple[str, ...]:
        """Return text split as a shell would split it; empty where it is not set."""
        try:
            return tuple(shlex.split(self.text(name) or ""))
        except ValueError as error:
            raise self.error(name, str(error)) from None

    def flag(self, name: str) -> bool:
        """Return a boolean; false where the variable is not set."""
        text = (self.text(name) or "").lower()
        if text not in TRUE | FALSE:
            raise self.error(name, f"{text!r} is not true or false")
        return text in TRUE

    def value(self, name: str, value: Any) -> str:
        """Return one value that stands inside a variable of this name, as text."""
        return self._render(name, value, _JINJA)

    def _render(self, name: str, value: Any, jinja: jinja2.Environment) -> str:
        wrapped = _wrap(value)
        if isinstance(wrapped, (Mapping, list)):
            kind = "list" if isinstance(wrapped, list) else "mapping"
            raise self.error(name, f"is a {kind}; one value is wanted")
        try:
            text = str(wrapped)
            for _ in range(10):  # a template may lead to another
                if "{{" not in text and "{%" not in text:
                    return _unsealed(text)
                text = jinja.from_string(text).render(self.context)
        except (_NotAWordError, UsageError):  # the latter: ansible-vault cannot be run at all
            raise
        except _VaultError as error:
            raise self.error(name, str(error)) from None
        except Exception as error:  # what a template computes may fail in any way: 1/0
            problem = f"cannot be templated here: {' '.join(str(error).split())}"
            raise self.error(name, problem) from None
        raise self.error(name, "refers to itself")


class _Vaulted:
    """An inline ``!vault`` value, decrypted when it is used and not before."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return _decrypt(self._text)


def _wrap(value: Any) -> Any:
    if isinstance(value, Mapping) and set(value) == {"__ansible_vault"}:
        return _Vaulted(str(value["__ansible_vault"]))
    if isinstance(value, Mapping) and set(value) == {"__ansible_unsafe"}:
        return _sealed(str(value["__ansible_unsafe"]))
    return value


def _sealed(text: str) -> str:
    """Return an ``!unsafe`` text with its braces out of reach of any template."""
    for mark, seal in SEALS.items():
        text = text.replace(mark, seal)
    return text


def _unsealed(text: str) -> str:
    for mark, seal in SEALS.items():
        text = text.replace(seal, mark)
    return text


@cache
def _decrypt(text: str) -> str:
    done = ansible.run(["vault", "decrypt", "--output=-", "-"], text)
    if done.returncode != 0:
        has_password = "Decryption failed" in done.stderr
        raise _VaultError(
            "is encrypted, and the vault password that is set does not open it"
            if has_password
            else "is encrypted, and no vault password is set; set ANSIBLE_VAULT_PASSWORD_FILE"
        )
    return done.stdout
