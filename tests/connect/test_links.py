from __future__ import annotations

import sys
import time

import pytest

from hwcheck.connect.links import LinkLostError, LocalLink
from hwcheck.phases import VisitError


def collect(link: LocalLink, seconds: float = 20) -> tuple[bytes, bytes]:
    out = err = b""
    end = time.monotonic() + seconds
    while not link.ended():
        assert time.monotonic() < end
        more_out, more_err = link.receive(0.5)
        out, err = out + more_out, err + more_err
    return out, err


def test_both_outputs_are_read_whatever_comes_first() -> None:
    code = "import sys; sys.stderr.write('e' * 200000); sys.stdout.write('o' * 200000)"
    link = LocalLink([sys.executable, "-c", code])
    out, err = collect(link)
    assert (len(out), len(err)) == (200_000, 200_000)
    assert link.how_it_ended() == (0, "ended with exit status 0")
    link.close()


def test_input_arrives() -> None:
    link = LocalLink(["cat"])
    link.send(b"x" * 100)
    out = b""
    while len(out) < 100:
        out += link.receive(5)[0]
    link.close()
    assert out == b"x" * 100


def test_a_command_that_is_gone_cannot_be_written_to() -> None:
    link = LocalLink(["true"])
    collect(link)
    with pytest.raises(LinkLostError):
        link.send(b"x")
    link.close()


def test_cut_ends_the_whole_group() -> None:
    link = LocalLink(["sh", "-c", "sleep 600 & echo started; wait"])
    while b"started" not in link.receive(5)[0]:
        pass
    link.cut()
    collect(link)  # the pipes are closed only when the sleeper is gone too
    assert link.how_it_ended() == (None, "was killed")
    link.close()


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(VisitError, match="python: /no/such: not found"):
        LocalLink(["/no/such"])
