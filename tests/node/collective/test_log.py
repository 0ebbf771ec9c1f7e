import os

import pytest

from hwcheck.node.collective.log import BREAKS, READ_BYTES, TAIL_CHARACTERS, TAIL_LINES, Log


def test_the_log_has_no_name_and_keeps_what_is_written() -> None:
    with Log() as log:
        log.write("one\n")
        os.write(log.fd, b"two \xff\n")
        assert os.readlink(f"/proc/self/fd/{log.fd}").endswith("(deleted)")
        assert log.read() == "one\ntwo �\n"
        assert log.read(4) == "two �\n"


def test_of_a_long_log_the_begin_and_the_end_are_kept() -> None:
    with Log() as log:
        log.write("first\n" + "x" * 2 * READ_BYTES + "\nlast")
        text = log.read()
        assert text.startswith("first\nx")
        assert text.endswith("x\nlast")
        assert "x\n-- 11 bytes left out\nx" in text
        assert (
            log.read(6)
            == log.whole(6)[:READ_BYTES] + "\n-- 5 bytes left out\n" + (log.whole()[-READ_BYTES:])
        )
        assert log.read(0, 2 * READ_BYTES) == log.whole()[: 2 * READ_BYTES]


def test_the_tail_is_the_last_eighty_lines() -> None:
    with Log() as log:
        log.write("".join(f"line {i}\n" for i in range(100)))
        lines = log.tail().split("\n")
        assert (lines[0], lines[-1], len(lines)) == ("line 20", "line 99", 80)


def test_the_tail_of_endless_lines_is_bounded() -> None:
    with Log() as log:
        log.write("x" * 1_000_000 + "end")
        assert len(log.tail()) == TAIL_CHARACTERS
        assert log.tail().endswith("end")


FATAL = "Fatal Python error: Segmentation fault\n\nCurrent thread (most recent call first):\n"
TRACEBACK = f"{BREAKS}\nTraceback (most recent call last):\n"
GLOO = {
    "lines": "".join(f"frame #{i}: gloo::transport\n" for i in range(200)),
    "characters": "".join(f"frame #{i}: {'x' * 900}\n" for i in range(30)),
    "endless": "x" * 2_000_000,
}


@pytest.mark.parametrize("begin", [FATAL, TRACEBACK], ids=["crash", "exception"])
@pytest.mark.parametrize("stack", GLOO.values(), ids=GLOO)
def test_the_tail_shows_where_the_first_rank_broke(begin: str, stack: str) -> None:
    with Log() as log:
        log.write("NCCL INFO all is well\n" * 300)
        log.write(f'{begin}  File "faulty.py", line 9 in crash\n')
        log.write(f"{TRACEBACK}{stack}\nRuntimeError: Connection closed by peer\n")
        tail = log.tail()
    assert tail.startswith(begin)
    assert "in crash\n" in tail
    assert "\n-- lines left out\n" in tail
    assert tail.endswith("\nRuntimeError: Connection closed by peer")
    assert len(tail) <= TAIL_CHARACTERS
    assert tail.count("\n") < TAIL_LINES


def test_what_broke_within_the_last_lines_leaves_none_out() -> None:
    with Log() as log:
        log.write(FATAL + "frame\n" * 77)
        assert log.tail() == (FATAL + "frame\n" * 77).rstrip()
        log.write("frame\n")
        assert log.tail().split("\n")[40] == "-- lines left out"
        assert log.tail().count("\n") == TAIL_LINES - 1
