import os

from hwcheck.node.collective.log import TAIL_CHARACTERS, Log


def test_the_log_has_no_name_and_keeps_what_is_written() -> None:
    with Log() as log:
        log.write("one\n")
        os.write(log.fd, b"two \xff\n")
        assert os.readlink(f"/proc/self/fd/{log.fd}").endswith("(deleted)")
        assert log.read() == "one\ntwo �\n"
        assert log.read(4) == "two �\n"


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
