"""The records that cross SSH and the framing of the lines that carry them.

Standard library only, Python 3.8: this module travels in the payload.

A node writes text lines to stdout. A line that holds ``@hwcheck:<token> `` carries one JSON object
after that marker (a *frame*); every other line is noise (a login banner, a shell profile) and is
kept in the host's log. The token is drawn by the controller for each visit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import starmap
from operator import itemgetter
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from hwcheck.contract import reasons
from hwcheck.contract.reasons import NONE, Reason

PROTOCOL = 1
OUTPUT_LIMIT_BYTES = 16 * 1024 * 1024
"""A host that writes more than this is cut off: 8 GPUs need about 20 kB."""
LOAD_DTYPES = ("auto", "bf16", "fp16", "tf32", "fp32")
"""What the load multiplies; auto is the fastest that trains."""
SERIES_LIMIT_BYTES = 2 * 1024 * 1024
"""What the samples of a load may take of it: 8 GPUs need at most about 600 kB."""

Value = Union[int, float, str, bool]

RESULT_STATES = ("done", "not_applicable", "could_not_measure", "busy")
"""What became of one check on one node. Samples are judged in any state: a check that stops half
way (could_not_measure) keeps what it had."""
DRIVER_ANSWERS = "answers"
"""What a leg says of a driver that answers after the leg was killed."""
LEG_STATES = ("done", "hang", "failed", "not_run", "not_engaged", "not_started")
"""What became of a leg. not_engaged: it did not use what it is to measure, and has no figure.
not_started: its ranks had no communicator within the time for it; whether that is a hang is seen
beside the node's other legs."""

LEG_CODES = {"hang": reasons.HANG, "failed": reasons.RANK_FAILED}


def leg_reason(state: str, text: str, code: str = "") -> Reason:
    """Return why a leg came to a state, with the code that goes with it where it has none."""
    return Reason(code or LEG_CODES.get(state, reasons.NOT_MEASURED), text) if text else NONE


COLLECTIVES = ("all_reduce", "alltoall", "all_gather", "reduce_scatter", "broadcast", "sendrecv")
"""What can be timed; each is a check of that name. P2P is decided by the first two at least."""
LEG_NAMES = ("default", "p2p_off", "net", "nvlink_only", "p2p_sys", "site")
DTYPES = ("float", "bfloat16")
"""By nccl-tests' names: fp32 and bf16."""


@dataclass(frozen=True)
class Sample:
    """One value: ``metric`` in ``unit`` of ``subject`` (``node``, ``gpu3``, ``leg p2p_off``)."""

    metric: str
    value: Value
    unit: str = ""
    subject: str = "node"


# A run of a thousand hosts has millions of samples, and most of them alike: these are one object.
_sample = lru_cache(maxsize=65536, typed=True)(Sample)
_values = itemgetter("metric", "value", "unit", "subject")
MOST_TUPLES = 16384
_TUPLES: Dict[Tuple[int, ...], Tuple[Sample, ...]] = {}


def _shared(samples: Tuple[Sample, ...]) -> Tuple[Sample, ...]:
    """Return the one tuple of these samples: most answers of like hosts are alike as a whole."""
    key = tuple(map(id, samples))  # of what the tuple keeps
    if len(_TUPLES) >= MOST_TUPLES:
        _TUPLES.clear()
    return _TUPLES.setdefault(key, samples)


@dataclass(frozen=True)
class SizeTiming:
    """One message size of one leg.

    ``size_bytes`` is what nccl-tests prints as *size*. Each iteration's time is the slowest
    rank's; ``time_us`` is the median, ``time_p95_us`` the 95th percentile, ``spread`` the
    inter-quartile range over the median. nccl-tests tells a mean: then there is no percentile, and
    the spread is that of out of place and in place. ``algbw_gbps`` and ``busbw_gbps`` are 1e9
    bytes/s. ``wrong`` counts wrong elements over all ranks.

    Timed in several ``passes``, between which other legs had their turn (of nccl-tests: the cycles
    of one program), ``time_us`` is the median of their medians and ``pass_spread`` the largest less
    the smallest of these over it. Where a collective runs out of place and in place, these are its
    figures out of place, and ``in_place`` has the others.
    """

    size_bytes: int
    iterations: int
    time_us: float
    time_p95_us: Optional[float]
    spread: float
    algbw_gbps: float
    busbw_gbps: float
    wrong: int
    passes: int = 1
    pass_spread: float = 0.0
    in_place: Optional[SizeTiming] = None

    @property
    def all_wrong(self) -> int:
        """Wrong elements out of place and in place."""
        return self.wrong + (self.in_place.wrong if self.in_place else 0)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SizeTiming:
        """Rebuild from its (schema-checked) JSON object."""
        rest = dict(data)
        if rest.get("in_place"):
            rest["in_place"] = cls.from_dict(rest["in_place"])
        return cls(**rest)


@dataclass(frozen=True)
class Leg:
    """A collective timed under one environment; ``exercise`` marks gloo on the CPU.

    ``transport`` is what NCCL said of the way that the data went: connections by kind (``SHM``,
    ``P2P/CUMEM``, ``NET/IB``), ``gdrdma``, ``nvls``, ``channels``, ``algorithms``, ``network``.
    ``driver`` is what the driver did once a leg that hung had been killed: ``answers``, or why not.
    ``start_s`` are the seconds from the first turn's begin to its first verified run (of a program
    of nccl-tests: to its communicator), or until a leg that never came so far was given up; None in
    runs of former versions. ``first_failure``
    is why the leg failed under its own variables, where ``env`` has more (``spec.SECOND_TRY``).
    """

    collective: str
    leg: str
    backend: str
    ranks: int
    state: str
    reason: Reason = NONE
    exercise: bool = False
    library: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    sizes: Tuple[SizeTiming, ...] = ()
    notes: Tuple[str, ...] = ()
    log_tail: str = ""
    duration_s: float = 0.0
    dtype: str = "float"
    transport: Mapping[str, Value] = field(default_factory=dict)
    driver: str = ""
    start_s: Optional[float] = None
    first_failure: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Leg:
        """Rebuild a leg from its (schema-checked) JSON object."""
        rest = dict(data)
        rest["reason"] = Reason.from_json(rest.get("reason", ""))
        rest["sizes"] = tuple(SizeTiming.from_dict(size) for size in rest.get("sizes", ()))
        rest["notes"] = tuple(rest.get("notes", ()))
        return cls(**rest)


@dataclass(frozen=True)
class CheckResult:
    """What one check measured on one node, or why it could not.

    ``state`` is done, not_applicable, could_not_measure or busy. Samples are judged in any: a check
    that stops half way (could_not_measure) keeps what it had.
    """

    check: str
    state: str
    reason: Reason = NONE
    samples: Tuple[Sample, ...] = ()
    legs: Tuple[Leg, ...] = ()
    duration_s: float = 0.0

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CheckResult:
        """Rebuild a result from its (schema-checked) JSON object."""
        rest = dict(data)
        rest["reason"] = Reason.from_json(rest.get("reason", ""))
        rest["samples"] = _shared(tuple(starmap(_sample, map(_values, rest.get("samples", ())))))
        rest["legs"] = tuple(Leg.from_dict(leg) for leg in rest.get("legs", ()))
        return cls(**rest)


@dataclass(frozen=True)
class Timing:
    """How collectives are timed: nccl-tests' -b -e -f -n -w -d, and under which legs.

    No ``legs``: all that can differ on the node. Sizes are bytes.
    """

    legs: Tuple[str, ...] = ()
    min_bytes: int = 1 << 20
    max_bytes: int = 1 << 30
    step_factor: int = 2
    iterations: int = 20
    warmups: int = 5
    dtype: str = "float"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Timing:
        """Rebuild from its JSON object; raises TypeError when a key is unknown."""
        rest = dict(data)
        rest["legs"] = tuple(rest.get("legs", ()))
        return cls(**rest)

    @property
    def sizes(self) -> Tuple[int, ...]:
        """The sizes from the smallest to the largest, in bytes."""
        ladder = [self.min_bytes]
        while ladder[-1] * self.step_factor <= self.max_bytes:
            ladder.append(ladder[-1] * self.step_factor)
        return tuple(ladder)


@dataclass(frozen=True)
class Request:
    """What the controller asks of one node; sent as JSON on stdin.

    ``expect`` holds the inventory's expectations with the ``hwcheck_`` prefix removed
    (``{"gpus": 8}``); ``budget_s`` bounds the collectives of this visit together, ``load_s`` the
    load that heats the GPUs; without a sign of life on stdin for ``lifeline_s`` the payload ends
    itself. With ``nccl_tests_dir`` the programs of nccl-tests in that folder time the collectives.
    ``load_dtype`` is one of LOAD_DTYPES.
    """

    token: str
    checks: Tuple[str, ...]
    profile: str = "quick"
    budget_s: float = 45.0
    load_s: float = 20.0
    load_dtype: str = "auto"
    expect: Mapping[str, Any] = field(default_factory=dict)
    torch_python: str = ""
    host_root: str = "/"
    force: bool = False
    lifeline_s: float = 30.0
    timing: Timing = field(default_factory=Timing)
    nccl_tests_dir: str = ""
    protocol: int = PROTOCOL

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Request:
        """Rebuild a request; raises TypeError when a key is unknown or missing."""
        rest = dict(data)
        rest["checks"] = tuple(rest.get("checks", ()))
        rest["timing"] = Timing.from_dict(rest.get("timing", {}))
        return cls(**rest)


_TEXT, _NUMBER = (str,), (int, float)
_GPU_FACT_TYPES: Mapping[str, Tuple[type, ...]] = {
    "index": (int,),
    "name": _TEXT,
    "uuid": _TEXT,
    "pci_address": _TEXT,
    "pci_device_id": _TEXT,
    "pci_subsystem_id": _TEXT,
    "serial": _TEXT,
    "slot": _TEXT,
    "vbios": _TEXT,
    "memory_total_bytes": _NUMBER,
    "power_limit_default_w": _NUMBER,
    "nvlink_links": (int,),
    "mig": (bool,),
    "error": _TEXT,
}


@dataclass(frozen=True)
class GpuFacts:
    """What identifies one GPU of a node; None or an empty text stands for what it does not say.

    ``index`` is NVML's, ``pci_device_id`` and ``pci_subsystem_id`` are such as ``0x233010DE``,
    ``slot`` is the name of the PCIe slot where the firmware tells one, ``nvlink_links`` counts the
    active NVLinks. With ``mig`` the GPU is split into instances. ``error`` is NVML's reason where
    it cannot be opened; it has nothing else then but its index.
    """

    index: Optional[int] = None
    name: str = ""
    uuid: str = ""
    pci_address: str = ""
    pci_device_id: str = ""
    pci_subsystem_id: str = ""
    serial: str = ""
    slot: str = ""
    vbios: str = ""
    memory_total_bytes: Optional[float] = None
    power_limit_default_w: Optional[float] = None
    nvlink_links: Optional[int] = None
    mig: Optional[bool] = None
    error: str = ""

    @property
    def id(self) -> str:
        """What tells it from all others wherever it sits: its UUID, else its serial, else nothing.

        Several GPUs may share a board and its serial; a UUID is one GPU's and never changes (NVML
        API Reference Guide, nvmlDeviceGetUUID: globally unique and immutable).
        """
        return self.uuid or self.serial

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> GpuFacts:
        """Rebuild from JSON of any version: what has another key or type was not said."""
        values = {
            name: data[name]
            for name, types in _GPU_FACT_TYPES.items()
            if type(data.get(name)) in types
        }
        return cls(**values)

    def to_dict(self) -> Dict[str, Any]:
        """Return JSON types, with a key for everything that the GPU says."""
        return {name: value for name, value in vars(self).items() if value not in (None, "")}


@dataclass(frozen=True)
class Report:
    """Everything one node answered.

    ``facts`` are what identifies it, as JSON: ``hostname``, ``kernel``, ``machine``, ``python``,
    ``uid``, ``cpu_vendor``, and ``gpus`` (see ``gpus``).
    """

    facts: Mapping[str, Any]
    results: Tuple[CheckResult, ...]
    duration_s: float = 0.0
    protocol: int = PROTOCOL

    @property
    def gpus(self) -> Tuple[GpuFacts, ...]:
        """What identifies each GPU that NVML counts, in its order."""
        gpus = self.facts.get("gpus")
        return tuple(map(GpuFacts.from_dict, gpus)) if isinstance(gpus, list) else ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Report:
        """Rebuild a report from its (schema-checked) JSON object."""
        rest = dict(data)
        rest["results"] = tuple(CheckResult.from_dict(result) for result in rest["results"])
        return cls(**rest)


def to_json(record: Any) -> str:
    """Return a record as JSON on one line. Raises ValueError for a NaN or an infinity."""
    return json.dumps(record, default=vars, allow_nan=False)


def to_dict(record: Any) -> Dict[str, Any]:
    """Return a record as plain JSON types. Raises ValueError for a NaN or an infinity."""
    plain: Dict[str, Any] = json.loads(to_json(record))
    return plain


def marker(token: str) -> str:
    """Return the marker that opens a frame of the visit with this token."""
    return "@hwcheck:" + token + " "


def frame(token: str, kind: str, **body: Any) -> str:
    """Return one frame, newline included.

    ``kind`` is started, alive, progress, series, result, report or error. A frame is one line of
    ASCII, so no locale on the way can damage it.
    """
    return marker(token) + json.dumps(dict(body, kind=kind), allow_nan=False) + "\n"


class Lines:
    """Splits what comes in pieces into lines; looks at each byte once, however long a line is."""

    def __init__(self) -> None:
        self._parts: List[bytes] = []

    def feed(self, data: bytes) -> List[bytes]:
        """Take the next bytes; return the lines that they complete."""
        first, *others = data.split(b"\n")
        self._parts.append(first)
        if not others:
            return []
        lines = [b"".join(self._parts), *others[:-1]]
        self._parts = [others[-1]]
        return lines

    def rest(self) -> bytes:
        """Return what came after the last newline."""
        return b"".join(self._parts)


class Deframer:
    """Split a node's stdout into frames and noise.

    ``feed`` returns ``(frames, noise_lines)``. A frame that is not a JSON object is noise too:
    what a node writes is never trusted. Text after the last newline waits for the next call.
    ``broken`` counts the frames that were noise.
    """

    def __init__(self, token: str) -> None:
        self._marker = marker(token).encode()
        self._lines = Lines()
        self.broken = 0

    def feed(self, data: bytes) -> Tuple[List[Dict[str, Any]], List[str]]:
        """Take the next bytes; return the frames and the other lines that they complete."""
        lines = self._lines.feed(data)
        frames: List[Dict[str, Any]] = []
        noise: List[str] = []
        for line in lines:
            before, marked, after = line.partition(self._marker)
            body = _json_object(after) if marked else None
            if body is None:
                self.broken += bool(marked)
                noise.append(line.decode("utf-8", "replace"))
                continue
            if before.strip():
                noise.append(before.decode("utf-8", "replace"))
            frames.append(body)
        return frames, noise

    def rest(self) -> str:
        """Return the text after the last newline."""
        return self._lines.rest().decode("utf-8", "replace")


def _json_object(text: bytes) -> Optional[Dict[str, Any]]:
    try:
        body = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _refuse_constant(name: str) -> None:
    raise ValueError("%s is not JSON" % name)
