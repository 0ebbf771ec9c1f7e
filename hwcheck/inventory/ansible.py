"""Runs ansible-core, as a program apart: it is GPL, and we are not."""

from __future__ import annotations

import locale
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from hwcheck.errors import UsageError
from hwcheck.inventory.guard import Lifeline

PLAIN_OUTPUT = {
    "ANSIBLE_DEBUG": "0",
    "ANSIBLE_VERBOSITY": "0",
    "ANSIBLE_DISPLAY_TRACEBACK": "never",
    "ANSIBLE_DEPRECATION_WARNINGS": "0",
    "ANSIBLE_FORCE_COLOR": "0",
    "ANSIBLE_NOCOLOR": "1",
}
"""Where an ansible.cfg or the caller's environment has something else: stdout must be JSON only."""


WITHOUT_CURRENT_FOLDER = (
    "import sys; sys.path[:] = [folder for folder in sys.path if folder]; "
    "import runpy; runpy.run_module('ansible', run_name='__main__', alter_sys=True)"
)
"""``python -m ansible``, which would import a ``json.py`` that lies in the current folder.

Python's own switch for it, ``-P``, is not in 3.10, and ``-I`` would lose the user's packages.
"""


def run(
    words: list[str],
    stdin_text: str | None = None,
    environment: Mapping[str, str] | None = None,
    lifeline: Lifeline | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run ``ansible-<first word>``, with a text on its stdin. Raises UsageError if it cannot.

    With a lifeline all that it started ends with this process, however that ends.
    """
    command = [sys.executable, "-c", WITHOUT_CURRENT_FOLDER, *words]
    try:
        process = subprocess.Popen(
            lifeline.guarded(command) if lifeline else command,
            env={**os.environ, **plain_environment(), **(environment or {})},
            stdin=subprocess.DEVNULL if stdin_text is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:  # a list of hosts that is longer than the system's 128 KiB
        raise UsageError(f"cannot run ansible-{words[0]}: {error.strerror}") from None
    with process:
        try:
            out, err = process.communicate(stdin_text)
        except BaseException:
            if lifeline:
                lifeline.cut()
            else:
                process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def plain_environment() -> dict[str, str]:
    """Return what Ansible is run with beside the environment of the caller."""
    return {**PLAIN_OUTPUT, "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1", **_utf8()}


def reach_environment() -> dict[str, str]:
    """Return what Ansible is run with to reach hosts.

    ssh asks ``ansible``, a program that it looks up, for a password.
    """
    programs = str(Path(sys.executable).parent)
    return {
        **plain_environment(),
        "PATH": os.pathsep.join([programs, os.environ.get("PATH", os.defpath)]),
    }


def _utf8() -> dict[str, str]:
    """Return a locale that Ansible takes, where the current one is not UTF-8 or not installed."""
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, "")
        is_utf8 = locale.nl_langinfo(locale.CODESET) == "UTF-8"
    except locale.Error:
        is_utf8 = False
    finally:
        locale.setlocale(locale.LC_ALL, before)
    return {} if is_utf8 else {"LC_ALL": "C.UTF-8"}
