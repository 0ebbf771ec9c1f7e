import os

from hwcheck.node.collective.log import READ_BYTES, TAIL_CHARACTERS, Log


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
