"""Torch's flight recorder: what each rank of a hung leg enqueued last, and how far that came.

Torch keeps the last collectives of a process (``spec.RECORDER_ENV``) and hands them out as JSON. A
rank that hangs waits in CUDA and takes no orders, so a thread of its own waits for a signal and
writes the record to the leg's log.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import Any, Callable, Dict, List, Optional, Union

from hwcheck.node.collective.log import Log
from hwcheck.node.collective.ranks import ASK_SIGNAL, RankGroup, wait_until

BEGIN = "-- flight record of rank %d\n"
END = "-- end of the flight record of rank %d\n"
PATIENCE_S = 1.0
LAST_ENTRIES = 5
LINE_CHARACTERS = 160

Dump = Callable[[], Union[str, bytes]]


def listen(rank: int, dump: Optional[Dump], fd: int = 2) -> None:
    """Write the record of this process to ``fd`` whenever ASK_SIGNAL comes, which is blocked here.

    ``dump`` returns torch's record as JSON; None where this torch cannot.
    """
    threading.Thread(target=_answer, args=(rank, dump, fd), daemon=True).start()


def _answer(rank: int, dump: Optional[Dump], fd: int) -> None:
    while True:
        signal.sigwait({ASK_SIGNAL})
        lines = ["this torch gives no record of NCCL"] if dump is None else _lines(dump)
        text = BEGIN % rank + "".join("%s\n" % line for line in lines) + END % rank
        os.write(fd, text.encode("utf-8", "replace"))  # at once: ranks share the file


def _lines(dump: Dump) -> List[str]:
    try:
        return summary(dump())
    except Exception as error:  # the rank is about to be killed: its reason is all there is
        return ["the record cannot be read: %r" % error]


def summary(record: Union[str, bytes]) -> List[str]:
    """Return the last entries of a record (torch's JSON, version 2) as lines, the newest last.

    Each says the sequence number, the operation, its state and the shapes. Raises ValueError for
    what is no JSON object. Torch knows what was started only where it times every collective
    (TORCH_NCCL_ENABLE_TIMING), which would be in the figures: nothing is said of it.
    """
    data = json.loads(record)
    if isinstance(data, list):  # before torch 2.3
        data = {"entries": data}
    if not isinstance(data, dict):
        raise ValueError("a flight record is an object")
    lines = [_status(name, each) for name, each in _object(data.get("pg_status")).items()]
    entries = data.get("entries")
    last = entries[-LAST_ENTRIES:] if isinstance(entries, list) else []
    lines += [_entry(_object(entry)) for entry in last]
    return [line[:LINE_CHARACTERS] for line in lines] or ["no collective was recorded"]


def _object(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _status(name: str, status: Any) -> str:
    steps = ("enqueued", "completed")
    parts = ["%s %s" % (step, _object(status).get("last_%s_collective" % step)) for step in steps]
    return "process group %s: last %s" % (name, ", ".join(parts))


def _entry(entry: Dict[str, Any]) -> str:
    number = entry.get("p2p_seq_id" if entry.get("is_p2p") else "collective_seq_id")
    number = entry.get("seq_id") if number is None else number
    shapes = [
        "%s %s %s" % (side, entry.get(side + "_sizes"), entry.get(side + "_dtypes"))
        for side in ("input", "output")
    ]
    words = (number, entry.get("profiling_name"), entry.get("state"), ", ".join(shapes))
    return "%s %s %s: %s" % words


def records(group: RankGroup, log: Log, most_characters: int) -> str:
    """Return what the living ranks have recorded, so many characters of each at most.

    All are asked at once and waited for one second: one that is stuck with Python's lock held, or
    whose driver does not answer, says nothing, which is noted.
    """
    start = log.size()
    ranks = group.alive()
    for rank in ranks:
        os.kill(rank.pid, ASK_SIGNAL)
    wait_until(lambda: all(END % rank.rank in log.read(start) for rank in ranks), PATIENCE_S)
    text = log.read(start)
    return "".join(_record(text, rank.rank, most_characters) for rank in ranks)


def _record(log_text: str, rank: int, most_characters: int) -> str:
    begin, end = BEGIN % rank, END % rank
    if end not in log_text:
        return begin + "no answer within %g s\n" % PATIENCE_S
    text = log_text.partition(begin)[2].partition(end)[0]
    return begin + text[-max(1, most_characters - len(begin)) :]
