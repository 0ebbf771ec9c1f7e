from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from hwcheck.node.json_lines import READ_BYTES, Decoder, Reader, write


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for fd in (reader, writer):
        try:
            os.close(fd)
        except OSError:  # a test has closed it: that is the end of the pipe
            continue


def test_a_message_comes_whole_however_it_is_cut() -> None:
    data = b'{"kind": "size", "text": "\\u00e9\\n"}\n'
    for place in range(len(data)):
        decoder = Decoder()
        messages = [*decoder.feed(data[:place]), *decoder.feed(data[place:])]
        assert messages == [{"kind": "size", "text": "\u00e9\n"}]


def test_heartbeats_are_no_messages() -> None:
    assert Decoder().feed(b'\n\n{"end": true}\n\n') == [{"end": True}]


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        Decoder().feed(b"Segmentation fault\n")
    reader, writer = os.pipe()
    with pytest.raises(ValueError, match="not JSON compliant"):
        write(writer, {"gbps": float("nan")})
    os.close(writer)
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_messages_come_one_by_one_and_then_the_end(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    for number in range(3):
        write(writer, {"number": number})
    os.close(writer)
    messages = Reader(reader)
    assert [each["number"] for each in iter(messages.next, None)] == [0, 1, 2]
    assert messages.ended
    assert messages.next(0.0) is None


def test_more_than_a_pipe_holds(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    text = "x" * (5 * READ_BYTES)
    thread = threading.Thread(target=write, args=(writer, {"text": text}))
    thread.start()
    assert Reader(reader).next(60.0) == {"text": text}
    thread.join()


def test_half_a_message_is_waited_for_and_not_beyond_the_limit(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    messages = Reader(reader)
    os.write(writer, b'{"kind": ')
    with pytest.raises(TimeoutError):
        messages.next(0.01)
    os.write(writer, b'"done"}\n')
    assert messages.next(10.0) == {"kind": "done"}


def test_nothing_beyond_what_is_there_is_read(pipe: tuple[int, int]) -> None:
    """A process that is handed the pipe afterwards still sees its end."""
    reader, writer = pipe
    write(writer, {"orders": 1})
    assert Reader(reader).next() == {"orders": 1}
    os.close(writer)
    assert os.read(reader, 1) == b""
