"""The configuration files that NCCL reads in every leg, whatever the leg's environment is.

NCCL takes from a file what is not set yet (NVIDIA/nccl, src/misc/param.cc). NO_CONF keeps it from
the personal file, and NCCL before 2.23 does not know NCCL_CONF_FILE.
"""

from __future__ import annotations

import os
import pwd
import re
from typing import Iterator, Tuple

from hwcheck.contract.collective_spec import SYSTEM_CONF, SYSTEM_CONF_NOTE, USER_CONF_NOTE

FIRST_WITH_CONF_FILE = (2, 23)
_VERSION = re.compile(r"\b(\d{1,3})\.(\d{1,5})")


def notes(library: str) -> Tuple[str, ...]:
    """Return what a reader must know of a leg; ``library`` has NCCL's version, or is empty."""
    return tuple(_notes(library))


def _notes(library: str) -> Iterator[str]:
    if _sets_something(SYSTEM_CONF):
        yield SYSTEM_CONF_NOTE
    version = _VERSION.search(library)
    is_old = version and (int(version.group(1)), int(version.group(2))) < FIRST_WITH_CONF_FILE
    if is_old and _sets_something(_user_conf()):
        yield USER_CONF_NOTE


def _user_conf() -> str:
    """Return the personal file: NCCL asks the user database, not HOME."""
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""
    return os.path.join(home, ".nccl.conf")


def _sets_something(conf: str) -> bool:
    """Whether NCCL takes a variable from this file; of one that cannot be read it may."""
    try:
        with open(conf, encoding="utf-8", errors="replace") as stream:
            return any("=" in line.partition("#")[0] for line in stream)
    except FileNotFoundError:
        return False
    except OSError:
        return True
