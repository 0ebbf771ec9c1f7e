"""One message to one receiver: taken, not taken, refused, or nobody knows."""

from __future__ import annotations

import http.client
import json
import shutil
import smtplib
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any

from hwcheck.errors import UsageError
from hwcheck.fleet.notify.config import Receiver

TIMEOUT_S = 15.0
SENDMAIL_PATH = "/usr/sbin:/usr/lib:/usr/bin"
TEMPORARY = (408, 425, 429)
"""Answers of HTTP that ask for another try; so do those from 500 on."""
EX_TEMPFAIL = 75
"""What sendmail ends with where it is to be tried again (sysexits.h)."""
REPEATABLE = ("alertmanager", "webhook")
"""Kinds that take a message twice for one: the same alerts, and the same ``Idempotency-Key``."""

TAKEN, NOT_TAKEN, REFUSED, UNKNOWN = "taken", "not taken", "refused", "unknown"


@dataclass(frozen=True)
class Result:
    """What became of a message, and why in a few words, without an address or a secret.

    UNKNOWN: the connection broke after all was sent and before the answer, so that it may or may
    not have been taken.
    """

    state: str
    why: str = ""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take a secret elsewhere, and make a GET of a POST."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def send(receiver: Receiver, message_id: str, body: Any) -> Result:
    """Send a message once. ``body`` is as ``bodies`` makes it for this kind of receiver."""
    try:
        if receiver.kind == "email":
            return _mail(receiver, message_id, body)
        return _post(receiver, message_id, body)
    except UsageError as error:  # a secret that was there when the sweep began
        return Result(NOT_TAKEN, str(error))


def _post(receiver: Receiver, message_id: str, body: Any) -> Result:
    address = receiver.address
    headers = {
        "Content-Type": "application/json",
        "Idempotency-Key": message_id,
        "User-Agent": "hwcheck",
    }
    if receiver.kind == "alertmanager":
        address = address.rstrip("/") + "/api/v2/alerts"
    if receiver.url and receiver.secret is not None:
        headers["Authorization"] = f"Bearer {receiver.secret.read()}"
    data = json.dumps(body, allow_nan=False).encode()
    request = urllib.request.Request(address, data, headers, method="POST")  # noqa: S310 - checked
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT_S):
            return Result(TAKEN)
    except urllib.error.HTTPError as error:
        temporary = error.code >= 500 or error.code in TEMPORARY
        state = NOT_TAKEN if temporary or error.code in (401, 403, 404) else REFUSED
        return Result(state, f"HTTP {error.code}")
    except urllib.error.URLError as error:
        # Only what fails before the answer is waited for comes as this: nothing was taken.
        return Result(NOT_TAKEN, _why(error.reason))
    except (OSError, http.client.HTTPException) as error:
        return Result(UNKNOWN, _why(error))


def _why(error: object) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate: {error.verify_message}"
    return getattr(error, "strerror", None) or type(error).__name__


def _mail(receiver: Receiver, message_id: str, body: Mapping[str, str]) -> Result:
    mail = EmailMessage()
    mail["Subject"], mail["From"] = body["subject"], receiver.sender
    mail["To"] = ", ".join(receiver.to)
    mail["Date"] = formatdate()
    mail["Message-ID"] = f"<{message_id}@{receiver.sender.partition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(body["text"])
    return _sendmail(receiver, mail) if receiver.smtp is None else _smtp(receiver, mail)


def _sendmail(receiver: Receiver, mail: EmailMessage) -> Result:
    program = shutil.which("sendmail", path=SENDMAIL_PATH)
    if program is None:
        return Result(NOT_TAKEN, "no sendmail on this machine: install one, or name smtp")
    argv = [program, "-i", "-f", receiver.sender, "--", *receiver.to]
    try:
        done = subprocess.run(
            argv, input=mail.as_bytes(), capture_output=True, timeout=4 * TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Result(UNKNOWN, "sendmail does not end")
    except OSError as error:
        return Result(NOT_TAKEN, f"sendmail: {error.strerror}")
    state = {0: TAKEN, EX_TEMPFAIL: NOT_TAKEN}.get(done.returncode, REFUSED)
    return Result(state, "" if state == TAKEN else f"sendmail ended with {done.returncode}")


def _smtp(receiver: Receiver, mail: EmailMessage) -> Result:
    assert receiver.smtp is not None
    host, port = receiver.smtp
    context = ssl.create_default_context()
    try:
        if receiver.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_S, context=context)
        else:
            server = smtplib.SMTP(host, port, timeout=TIMEOUT_S)
    except (OSError, smtplib.SMTPException) as error:
        return Result(NOT_TAKEN, _why(error))
    sending = False
    try:
        if receiver.security == "starttls":
            server.starttls(context=context)
        if receiver.secret is not None:
            server.login(receiver.user, receiver.secret.read())
        sending = True
        refused = server.send_message(mail, receiver.sender, receiver.to)
    except smtplib.SMTPResponseException as error:
        lasting = sending and error.smtp_code >= 500
        return Result(REFUSED if lasting else NOT_TAKEN, f"SMTP {error.smtp_code}")
    except smtplib.SMTPRecipientsRefused:
        return Result(REFUSED, "no recipient is accepted")
    except (OSError, smtplib.SMTPException) as error:
        return Result(UNKNOWN if sending else NOT_TAKEN, _why(error))
    finally:
        server.close()
    return Result(TAKEN, f"not for {', '.join(refused)}" if refused else "")
