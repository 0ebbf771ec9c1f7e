"""The file that says who is told (``--notify FILE``): YAML, checked before anything is measured.

It is the controller's and not the inventory's: what hosts are stands there, and who reads a message
and with which secret stands here. Secrets are never in it: they are read from files or the
environment when they are used.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from hwcheck.errors import UsageError
from hwcheck.fleet.notify.changes import REMIND_DAYS

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}\Z")
ADDRESS = re.compile(r"[A-Za-z0-9._%+=-]+@[A-Za-z0-9.-]+\Z")
SERVER = re.compile(r"([A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5})\Z")
SECURITY = ("starttls", "tls", "none")
KEYS = ("remind_days", "metrics", "reports", "receivers")
MOST_BYTES = 65536


@dataclass(frozen=True)
class Secret:
    """Where a secret is: a file, or a variable of the environment. ``key`` names it in messages."""

    key: str
    file: str = ""
    variable: str = ""

    def read(self) -> str:
        """Return it. Raises UsageError, without a word of it, where it is not there or not kept."""
        text = self._of_file() if self.file else os.environ.get(self.variable, "")
        text = text.strip()
        if not text:
            where = self.file or f"${self.variable}"
            raise UsageError(f"{self.key}: {where} is empty")
        if "\n" in text:
            raise UsageError(f"{self.key}: {self.file} has more than one line")
        # HTTP and SMTP take nothing else, and what refuses it there would show it.
        if not (text.isascii() and text.isprintable()):
            where = self.file or f"${self.variable}"
            raise UsageError(f"{self.key}: {where} has a character that is no printable ASCII")
        return text

    def _of_file(self) -> str:
        path = Path(self.file)
        try:
            info = path.stat()
            if not stat.S_ISREG(info.st_mode):
                raise UsageError(f"{self.key}: {path} is no file")
            if info.st_uid not in (0, os.geteuid()) or info.st_mode & 0o037:
                raise UsageError(
                    f"{self.key}: {path} is not kept secret: chown it to this user and chmod 600"
                )
            return path.read_text("utf-8")[:MOST_BYTES]
        except OSError as error:
            raise UsageError(f"{self.key}: {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{self.key}: {path} is no text") from None


@dataclass(frozen=True)
class Receiver:
    """One who is told. ``kind`` is a key of KINDS.

    ``url`` is empty where the address is a secret, ``secret`` that address, a bearer token or a
    password: None where there is none. The rest is of email.
    """

    name: str
    kind: str
    url: str = ""
    secret: Secret | None = None
    to: tuple[str, ...] = ()
    sender: str = ""
    smtp: tuple[str, int] | None = None
    user: str = ""
    security: str = SECURITY[0]

    @property
    def address(self) -> str:
        """The address to post to. Raises UsageError."""
        if self.url or self.secret is None:
            return self.url
        address = self.secret.read()
        problem = _url_problem(address)
        if problem:
            raise UsageError(f"{self.secret.key}: what is in it {problem}")
        return address


@dataclass(frozen=True)
class Notify:
    """Who is told, after how many days again, and where metrics go.

    ``metrics`` is the file for node_exporter, ``reports`` the address below which people find the
    run folders.
    """

    receivers: tuple[Receiver, ...] = ()
    remind_days: int = REMIND_DAYS
    metrics: Path | None = None
    reports: str = ""
    source: str = field(default="", compare=False)


def read(path: Path) -> Notify:
    """Read the file. Raises UsageError: file, key, what is wrong, what to write."""
    try:
        data = yaml.safe_load(path.read_bytes()[:MOST_BYTES])
    except OSError as error:
        raise UsageError(f"--notify {path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or error
        raise UsageError(f"{path}{place}: not YAML: {problem}") from None
    top = _mapping(f"{path}", data, KEYS)
    receivers = _mapping(f"{path}: receivers", top.get("receivers") or {}, None)
    made = tuple(
        _receiver(f"{path}: receivers.{name}", name, given) for name, given in receivers.items()
    )
    if not made and "metrics" not in top:
        raise UsageError(f"{path}: it names no receiver and no metrics: nobody would be told")
    days = top.get("remind_days", REMIND_DAYS)
    if type(days) is not int or not 1 <= days <= 365:
        raise UsageError(f"{path}: remind_days: {days!r} is not a number of days from 1 to 365")
    reports = str(top.get("reports") or "")
    if reports and (problem := _url_problem(reports)):
        raise UsageError(f"{path}: reports: {reports[:80]!r} {problem}")
    return Notify(made, days, _metrics(f"{path}: metrics", top.get("metrics")), reports, str(path))


def _metrics(key: str, given: object) -> Path | None:
    if given is None:
        return None
    path = Path(str(given))
    if not path.is_absolute() or path.suffix != ".prom":
        example = "/var/lib/prometheus/node-exporter/hwcheck.prom"
        raise UsageError(
            f"{key}: {given!r} is no absolute path that ends in .prom, such as {example}"
        )
    if not path.parent.is_dir():
        raise UsageError(
            f"{key}: {path.parent} is no folder; node_exporter is told of it as "
            "--collector.textfile.directory"
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"{key}: this user may not write to {path.parent}")
    return path


def _receiver(key: str, name: object, given: object) -> Receiver:
    if not isinstance(name, str) or not NAME.match(name):
        raise UsageError(f"{key}: a name has small letters, digits, - and _, at most 40")
    kinds = _mapping(key, given, tuple(KINDS))
    if len(kinds) != 1:
        raise UsageError(f"{key}: it takes one of {', '.join(KINDS)}")
    ((kind, terms),) = kinds.items()
    receiver = KINDS[kind](f"{key}.{kind}", name, terms)
    if receiver.secret is not None:
        receiver.secret.read()  # now, and not at night
        _ = receiver.address
    return receiver


def _posted_in_secret(kind: str) -> Callable[[str, str, object], Receiver]:
    """Return what reads a receiver whose address is the secret."""

    def read_one(key: str, name: str, given: object) -> Receiver:
        terms = _mapping(key, given, ("url_file", "url_env"))
        secret = _secret(key, terms, "url")
        if secret is None:
            raise UsageError(f"{key}: its address is a secret: name url_file or url_env")
        return Receiver(name, kind, secret=secret)

    return read_one


def _posted(kind: str) -> Callable[[str, str, object], Receiver]:
    def read_one(key: str, name: str, given: object) -> Receiver:
        terms = _mapping(key, given, ("url", "token_file", "token_env"))
        url = str(terms.get("url") or "")
        if problem := _url_problem(url):
            raise UsageError(f"{key}.url: {url[:80]!r} {problem}")
        return Receiver(name, kind, url=url, secret=_secret(key, terms, "token"))

    return read_one


def _email(key: str, name: str, given: object) -> Receiver:
    words = ("to", "from", "smtp", "user", "password_file", "password_env", "security")
    terms = _mapping(key, given, words)
    listed = terms.get("to") or []
    to = tuple(map(str, listed if isinstance(listed, list) else [listed]))
    sender = str(terms.get("from") or "")
    for word, addresses in (("to", to or ("",)), ("from", (sender,))):
        for address in addresses:
            if not ADDRESS.match(address):
                raise UsageError(
                    f"{key}.{word}: {address[:80]!r} is no address such as ops@example.net"
                )
    server = terms.get("smtp")
    smtp = None
    if server is not None:
        match = SERVER.match(str(server))
        if not match or not 1 <= int(match[2]) <= 65535:
            raise UsageError(
                f"{key}.smtp: {str(server)[:80]!r} is no server such as mail.example.net:587"
            )
        smtp = match[1].strip("[]"), int(match[2])
    security = str(terms.get("security", SECURITY[0]))
    if security not in SECURITY:
        raise UsageError(f"{key}.security: {security[:40]!r} is none of {', '.join(SECURITY)}")
    secret, user = _secret(key, terms, "password"), str(terms.get("user") or "")
    if (secret is None) != (not user):
        raise UsageError(f"{key}: user goes with password_file or password_env")
    if user and smtp is None:
        raise UsageError(f"{key}: user goes with smtp; without it, the local sendmail is run")
    if user and security == "none":
        raise UsageError(f"{key}.security: none: the password would go in the clear")
    return Receiver(name, "email", "", secret, to, sender, smtp, user, security)


KINDS: Mapping[str, Callable[[str, str, object], Receiver]] = {
    "webhook": _posted("webhook"),
    "slack": _posted_in_secret("slack"),
    "teams": _posted_in_secret("teams"),
    "alertmanager": _posted("alertmanager"),
    "email": _email,
}


def _secret(key: str, terms: Mapping[str, Any], word: str) -> Secret | None:
    file, variable = terms.get(f"{word}_file"), terms.get(f"{word}_env")
    if file is not None and variable is not None:
        raise UsageError(f"{key}: {word}_file and {word}_env: name one")
    if file is not None:
        return Secret(f"{key}.{word}_file", file=str(file))
    if variable is not None:
        return Secret(f"{key}.{word}_env", variable=str(variable))
    return None


def _mapping(key: str, given: object, words: tuple[str, ...] | None) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        what = f" of {', '.join(words)}" if words else ""
        raise UsageError(f"{key}: it is no mapping{what}")
    for word in given if words is not None else ():
        if word not in words:  # type: ignore[operator]
            raise UsageError(f"{key}: {str(word)[:80]!r} is none of {', '.join(words or ())}")
    return given


def _url_problem(url: str) -> str:
    """Return what is wrong with an address, or an empty text."""
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and url.isascii()
        (parts.hostname or "").encode("idna")  # refuses labels of no or too many characters
        port = parts.port
    except ValueError:
        right, port = False, None
    if not right or port == 0 or not url.isprintable() or " " in url:
        return "is no address such as https://example.net/hook"
    if parts.username or parts.password:
        return "has a secret in it; name it as token_file or token_env"
    return ""
