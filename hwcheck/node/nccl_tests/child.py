"""Becomes an nccl-tests program that the kernel kills when the payload dies."""

from __future__ import annotations

import os
import sys

from hwcheck.node import parent_death


def main() -> None:
    """``sys.argv``: the payload's path, the pid of the payload process, the program, its options.

    The tie to the parent is kept over execve (prctl(2), PR_SET_PDEATHSIG).
    """
    parent_death.die_with(int(sys.argv[2]))
    try:
        os.execv(sys.argv[3], sys.argv[3:])  # noqa: S606 - the program is what the inventory names
    except OSError as error:
        sys.exit("%s cannot be started: %s" % (sys.argv[3], error.strerror))
