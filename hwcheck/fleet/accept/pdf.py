"""A page as PDF, by a browser without a window or by WeasyPrint, whichever is here."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TIMEOUT_S = 120.0
DATE = re.compile(rb"\(D:\d{14}[^)]{0,10}\)")
WEASYPRINT = "import sys, weasyprint; weasyprint.HTML(sys.argv[1]).write_pdf(sys.argv[2])"


def pdf(html: str, at: str) -> bytes | None:
    """Return the PDF of a page that loads nothing; None where nothing here can make one.

    ``at`` is the time (``2027-01-31T12:00:00Z``) that it says it was made at, so that the same
    page is the same file.
    """
    with tempfile.TemporaryDirectory(prefix="hwcheck-pdf-") as name:
        page, made = Path(name, "page.html"), Path(name, "page.pdf")
        page.write_text(html, "utf-8")
        for command in _commands(page, made):
            if _ended_well(command, name) and made.is_file() and made.stat().st_size:
                return _dated(made.read_bytes(), at)
    return None


def _commands(page: Path, made: Path) -> list[list[str]]:
    commands = []
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser:
        # Root has no sandbox of Chromium's; the page is ours, and has no script.
        alone = ["--no-sandbox"] if os.geteuid() == 0 else []
        options = ["--headless", "--disable-gpu", "--no-pdf-header-footer", *alone]
        folder = f"--user-data-dir={page.parent / 'browser'}"
        commands.append(
            [browser, *options, folder, f"--print-to-pdf={made}", page.as_uri()],
        )
    commands.append([sys.executable, "-P", "-c", WEASYPRINT, str(page), str(made)])
    if sys.version_info < (3, 11):  # has no -P; -I says more than that
        commands[-1][1] = "-I"
    return commands


def _ended_well(command: list[str], folder: str) -> bool:
    """Run a program to its end, in a session of its own so that none of its helpers stays."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(TIMEOUT_S) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _dated(data: bytes, at: str) -> bytes:
    """Return a PDF with these dates in place of its own; nothing in it moves."""
    digits = "".join(filter(str.isdigit, at))[:14].encode()
    return DATE.sub(lambda match: match[0][:3] + digits + match[0][17:], data)
