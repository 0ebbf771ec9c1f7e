"""nccl-tests' JSON report (``-J``, since 2.17.3): NVIDIA/nccl-tests, src/util.cu.

Its ``env`` holds the whole environment of the process; nothing of it is read.
"""

from __future__ import annotations

import json
import math
from typing import Any, Dict, Mapping, Optional

from hwcheck.node.nccl_tests.records import Half, RankDevice, Table, TableRow, version_text
from hwcheck.node.nccl_tests.text import MOST_RANKS, MOST_ROWS

COLUMNS = ["redop", "root"] + 2 * ["time", "algbw", "busbw", "#wrong"]
EXACT = 1e-5  # it is printed with six decimals


def read(text: str) -> Optional[Table]:
    """Return the table of a report, or None where the text is none, or was cut short."""
    try:
        report = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(report, dict) or not isinstance(report.get("results"), list):
        return None
    config = _mapping(report.get("config"))
    table = Table(columns=list(COLUMNS), announced=True)
    table.program = _program(report)
    table.library = version_text(_count(report.get("nccl_version")) or 0)
    table.min_bytes = _count(config.get("minimum_bytes"))
    table.max_bytes = _count(config.get("maximum_bytes"))
    table.iterations = _count(config.get("iterations"))
    table.validation = _count(config.get("validation"))
    table.devices = _devices(config.get("devices"))
    # Of each process the first device only is written (jsonRankInfo in writeDeviceReport).
    each = (_count(config.get("nthreads")) or 1) * (_count(config.get("ngpus")) or 1)
    if each <= MOST_RANKS and not any(rank % each for rank in table.devices):
        table.ranks_each = each
    for result in report["results"][:MOST_ROWS]:
        row = _row(_mapping(result))
        if row is None:
            table.damaged += 1
        else:
            table.rows.append(row)
    _footer(report, table)
    return table


def _program(report: Mapping[str, Any]) -> str:
    args = report.get("args")
    first = args[0] if isinstance(args, list) and args else ""
    return first.rsplit("/", 1)[-1][:60] if isinstance(first, str) else ""


def _devices(listed: object) -> Dict[int, RankDevice]:
    devices = {}
    for each in listed[:MOST_RANKS] if isinstance(listed, list) else ():
        device = _mapping(each)
        rank, index = _count(device.get("rank")), _count(device.get("device"))
        if rank is not None and rank < MOST_RANKS and index is not None:
            host, bus, name = (
                str(device.get(key, ""))[:80] for key in ("hostname", "device_hex", "device_info")
            )
            devices[rank] = RankDevice(rank, host, index, bus, name)
    return devices


def _footer(report: Mapping[str, Any], table: Table) -> None:
    bounds = _mapping(report.get("out_of_bounds"))
    average = _mapping(report.get("average_bus_bandwidth"))
    table.bounds_failed = _count(bounds.get("count"))
    if bounds.get("okay") == "false":
        table.bounds_failed = max(1, table.bounds_failed or 0)
    table.average_failed = average.get("okay") == "false"
    table.ended = bool(bounds)
    errors = report.get("errors")
    for error in errors[:20] if isinstance(errors, list) else ():
        if isinstance(error, str) and error.strip():
            table.failures.append(" ".join(error[:800].split())[:200])


def _row(result: Mapping[str, Any]) -> Optional[TableRow]:
    size, count = _count(result.get("size")), _count(result.get("count"))
    halves = [_half(result.get(key)) for key in ("out_of_place", "in_place")]
    if size is None or count is None or not any(halves):
        return None
    try:
        root = int(str(result.get("root"))[:20])
    except ValueError:
        root = -1
    redop, dtype = str(result.get("redop"))[:20], str(result.get("type"))[:20]
    return TableRow(size, count, dtype, redop, root, halves[0], halves[1])


def _half(half: object) -> Optional[Half]:
    if not isinstance(half, dict):
        return None
    time_us, algbw, busbw = (
        _number(value)
        for value in (
            half.get("time", half.get("cpu_time")),
            half.get("alg_bw"),
            half.get("bus_bw"),
        )
    )
    wrong = _number(half.get("nwrong"))
    ratio = None
    if algbw and busbw is not None and algbw > EXACT:
        ratio = (max(0.0, busbw - EXACT) / (algbw + EXACT), (busbw + EXACT) / (algbw - EXACT))
    return Half(time_us, algbw, busbw, None if wrong is None else int(wrong), None, ratio)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> Optional[float]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int) and abs(value) > 2**63:
        return None
    return float(value) if math.isfinite(value) else None


def _count(value: object) -> Optional[int]:
    return value if type(value) is int and 0 <= value < 2**63 else None
