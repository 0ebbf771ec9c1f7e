"""Why a host's Python did not speak, by how its shell ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from hwcheck.connect.conversation import Conversation, EndedError
from hwcheck.connect.deadlines import Deadlines, VisitError
from hwcheck.connect.hello import cut, first_frame
from hwcheck.inventory.inventory import Host

PLAIN = Host("n1", "192.0.2.1", python="/opt/python")
BECOMES = Host("n1", "192.0.2.1", python="/opt/python", become=True, become_exe="doas-like")


def ended(host: Host, status: int | None, last_line: str) -> VisitError:
    """Return what is said of a command that ended so."""

    def frame(*_: Any, **__: Any) -> NoReturn:
        raise EndedError(status, f"ended with exit status {status}")

    talk = cast(Conversation, SimpleNamespace(frame=frame, last_line=last_line))
    with pytest.raises(VisitError) as caught:
        first_frame(host, talk, Deadlines().begun())
    return caught.value


@pytest.mark.parametrize(
    ("host", "status", "said", "reason"),
    [
        (PLAIN, 127, "sh: 1: /opt/python: not found", "python: /opt/python: not found"),
        (PLAIN, 126, "Permission denied", "python: /opt/python: cannot be executed"),
        (BECOMES, 127, "sh: 1: doas-like: not found", "become: doas-like: not found"),
        (BECOMES, 126, "Permission denied", "become: doas-like: cannot be executed"),
        (BECOMES, 1, "sudo: /opt/python: command not found", "become: sudo: /opt/python: command"),
        (BECOMES, 1, "Traceback", "python: no hello: /opt/python ended with exit status 1; last"),
    ],
)
def test_who_was_not_there(host: Host, status: int, said: str, reason: str) -> None:
    error = ended(host, status, said)
    assert f"{error.phase}: {error.reason}".startswith(reason)


def test_our_own_program_is_not_repeated() -> None:
    said = f"bash: -c: line 1: {'QUJD' * 40}: syntax error"
    assert ended(PLAIN, 2, said).reason.endswith("; last line: bash: -c: line 1: ...: syntax error")
    assert cut("a\t b  " + "x" * 400) == "a b ..."
