"""``docs/hwcheck.1`` says what the commands say, and man reads it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs import man_page

ROOT = Path(__file__).resolve().parent.parent


def test_it_is_what_help_says() -> None:
    # In a process of its own: Invoke hands the help of a task's options out once.
    code = "from docs import man_page; print(man_page.page(), end='')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert man_page.FILE.read_text() == done.stdout, f"run `make man` {done.stderr}"


def test_an_option_has_its_names_and_its_word() -> None:
    lines = man_page.FILE.read_text().splitlines()
    at = lines.index(r"\fB\-l\fR \fISTRING\fR, \fB\-\-limit\fR \fISTRING\fR")
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
