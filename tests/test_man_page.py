"""``docs/hwcheck.1`` says what the commands say, and man reads it."""

import shutil
import subprocess

import pytest

from docs import man_page


def test_it_is_what_help_says() -> None:
    assert man_page.FILE.read_text() == man_page.page(), "run `make man`"


def test_an_option_has_its_names_and_its_word() -> None:
    lines = man_page.FILE.read_text().splitlines()
    at = lines.index(r"\fB\-l\fR \fIPATTERN\fR, \fB\-\-limit\fR \fIPATTERN\fR")
    assert lines[at - 1] == ".TP"
    assert lines[at + 1].startswith("Ansible pattern of hosts")
    assert r"\fB\-\-json\fR" in lines


@pytest.mark.parametrize("text", [".TH", "'br", r"a\fB"])
def test_no_text_is_a_request(text: str) -> None:
    assert man_page._escaped(text).replace(r"\&", "").replace(r"\e", "\\") == text
    assert man_page._escaped(text)[:1] not in {".", "'"}


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_no_complaint() -> None:
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", man_page.FILE], capture_output=True, text=True
    )
    assert done.stderr == ""
    assert "hwcheck" in done.stdout
