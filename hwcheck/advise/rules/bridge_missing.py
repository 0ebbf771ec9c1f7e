"""GPUs have no bridge while their likes have one."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="Some GPUs have no NVLink bridge while others of their model have one",
    follows="collectives over these GPUs go over PCIe, so a job is as slow as they are",
    fix="fit the missing bridge, or keep jobs that need NVLink on the bridged pairs",
    confirm="nvidia-smi topo -m; nvidia-smi nvlink --status",
    source="derived from NVML API Reference Guide, nvmlDeviceGetNvLinkState: boards of one model "
    "in one node, some bridged",
)
def bridge_missing(case: Case) -> Sign | None:
    """Look for it. It may be as it was built, so it is not certain."""
    return sign("likely", case.bad("nvlink_state", "nvlink_unbridged"))
