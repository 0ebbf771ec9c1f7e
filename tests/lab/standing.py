"""The lab that stays when the command that built it ends.

It has a slot that is for such labs only: the labs of tests and ``remove_leftovers`` keep away from
it. Its processes need nobody: who takes it down finds them by their namespaces. The slot itself is
held only while it is being built or removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.lab.lab import Lab
from tests.lab.network import STANDING, Network, Slot, remove_leftovers


class BusyError(Exception):
    """Somebody else is building or removing the standing lab."""


@contextmanager
def _slot(number: int) -> Iterator[Slot]:
    slot = Slot.try_take(number)
    if slot is None:
        raise BusyError("another `up` or `down` is at work; try again when it is done")
    try:
        yield slot
    finally:
        slot.release()


def up(lab: Lab, slot: int = STANDING, variables: Mapping[str, object] | None = None) -> Path:
    """Build the lab in place of the one that stands and return the path of its inventory.

    ``variables`` are for all hosts. Raises BusyError, and RuntimeError when it cannot be built:
    nothing of it is left then.
    """
    with _slot(slot) as taken:
        lab.start(taken)
        lab.ssh_config()
        return lab.inventory(**(variables or {}))


def down(slot: int = STANDING) -> None:
    """Remove the lab that stands, or what is left of it, and what dead processes left of others.

    Raises BusyError, and RuntimeError when a process does not end.
    """
    with _slot(slot) as taken:
        Network(taken).down()
    remove_leftovers()
