"""A folder of runs with planted changes: nine nights of four hosts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.advise.assessment import assess
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.wire import to_dict
from hwcheck.history import dataset
from hwcheck.results.options import Options
from hwcheck.results.run_folder import HostRecord, RunFolder, read_run
from tests import factories

NIGHTS, FLAPS, SWAP, STEP, UPDATE = 9, (1, 4, 7), 5, 6, 3


def run_id(night: int) -> str:
    """Return the name of a night's run."""
    return f"202601{night + 1:02}T030000Z-{night:06x}"


def with_gpus(record: HostRecord, **changes: str) -> HostRecord:
    """Give the GPUs of a host serials and places; ``gpu2="new"`` makes another one of gpu2."""
    assert record.report
    gpus = [
        {
            **gpu,
            "serial": f"16500{record.host[-2:]}{gpu['index']}",
            "pci_address": f"0000:{0x18 + gpu['index']:02x}:00.0",
            "vbios": "96.00.74.00.01",
        }
        for gpu in record.report.facts["gpus"]
    ]
    for slot, name in changes.items():
        place = int(slot.removeprefix("gpu"))
        gpus[place] = {**gpus[place], "uuid": f"GPU-{name}", "serial": f"serial-{name}"}
    report = replace(record.report, facts={**record.report.facts, "gpus": gpus})
    return replace(record, report=report)


def write_night(
    out: Path,
    night: int,
    *records: HostRecord,
    profile: str = "quick",
    options: Options | None = None,
    **changes: Any,
) -> Path:
    """Write the run of a night with its dataset; return its folder."""
    run = factories.run(*records, options=to_dict(options) if options else {}, **changes)
    started = f"2026-01-{night + 1:02}T03:00:00Z"
    meta = replace(run.meta, id=run_id(night), started=started, profile=profile)
    folder = RunFolder(out / meta.id, meta)
    (folder.path / "nodes").mkdir(parents=True)
    for record in records:
        folder.write_host(record)
    folder.finish(interrupted=False)
    dataset.write(folder.path, assess(read_run(folder.path), shipped()))
    return folder.path


def night_of(night: int) -> list[HostRecord]:
    """node02 flaps, node03 loses 10 % of its busbw, node04 gets another gpu2."""
    peaks = {"node03": 405.0} if night >= STEP else {}
    cap = {"power_limit_w": (3, 400.0)} if night in FLAPS else {}
    records = []
    for name in ("node01", "node02", "node03", "node04"):
        legs = [factories.leg(peak_gbps=peaks.get(name, 450.0)), factories.leg("p2p_off", 40.0)]
        legs.append(factories.leg("net", 9.0))
        record = factories.gpu_host(name, legs, **(cap if name == "node02" else {}))
        swapped = {"gpu2": "new"} if name == "node04" and night >= SWAP else {}
        records.append(with_gpus(record, **swapped))
    return records


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The nine nights; tests that write take a copy."""
    out = tmp_path_factory.mktemp("planted") / "runs"
    for night in range(NIGHTS):
        write_night(out, night, *night_of(night))
    return out
