from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hwcheck.advise.nccl_evidence import NVL, OFF, prove
from hwcheck.advise.records import HostProof
from hwcheck.contract.collective_spec import PAIRS
from hwcheck.contract.wire import CheckResult, Leg, Sample
from hwcheck.results.run_folder import HostRecord
from tests.factories import gpu_host, hung, leg

BY_P2P = leg(transport={"P2P/CUMEM": 16, "channels": 8})
BY_SHM = leg(transport={"SHM": 16, "channels": 8})
WITHOUT = leg("p2p_off", 440.0)
NVLINK_ONLY = leg("nvlink_only", 450.0, env={"NCCL_P2P_LEVEL": "NVL"})


def host(
    *legs: Leg, wrong: int = 5, access: bool = True, path: str = "PHB", nvlinks: Any = 0
) -> HostRecord:
    """A host whose gpu1 sends wrong data to gpu0."""
    samples = (
        Sample("p2p_access", access, "", "gpu1-gpu0"),
        Sample("p2p_wrong_elements", wrong, "elements", "gpu1-gpu0"),
        Sample("p2p_access", access, "", "gpu0-gpu1"),
        Sample("p2p_wrong_elements", 0, "elements", "gpu0-gpu1"),
    )
    made = gpu_host("node01", list(legs), nvlink_links=nvlinks)
    assert made.report is not None
    answers = (
        *made.report.results,
        CheckResult(PAIRS, "done", samples=samples),
        CheckResult("topology", "done", samples=(Sample("path", path, "", "gpu0-gpu1"),)),
    )
    return replace(made, report=replace(made.report, results=answers))


def proven(*legs: Leg, **says: Any) -> HostProof:
    return prove(host(*legs, **says))


def test_wrong_data_over_peer_access_is_evidence_against_p2p() -> None:
    host = proven(BY_P2P, WITHOUT)
    assert (host.kind, host.setting) == ("off_mends", OFF)
    assert host.why == (
        "gpu1-gpu0: copies with peer access arrive wrong; every collective is clean under p2p_off"
    )


def test_nvlinks_stay_on_where_some_pairs_have_them() -> None:
    host = proven(BY_P2P, WITHOUT, NVLINK_ONLY, nvlinks=4)
    assert (host.kind, host.setting) == ("off_mends", NVL)


@pytest.mark.parametrize(
    ("legs", "says", "kind"),
    [
        ((BY_P2P, WITHOUT), {"wrong": 0}, "defaults"),
        ((BY_P2P, WITHOUT), {"access": False}, "defaults"),
        ((BY_SHM, WITHOUT), {}, "defaults"),
        ((leg(), WITHOUT), {}, "off_mends"),
        ((BY_P2P, WITHOUT), {"path": "NV4", "nvlinks": 4}, "defect"),
        ((BY_P2P, WITHOUT), {"nvlinks": 4}, "defect"),
        ((BY_P2P, WITHOUT), {"nvlinks": None}, "unproven"),
        ((BY_P2P, hung("p2p_off")), {}, "unproven"),
        ((BY_P2P,), {}, "unproven"),
        ((), {}, ""),
    ],
)
def test_what_it_is_worth_beside_the_legs(
    legs: tuple[Leg, ...], says: dict[str, Any], kind: str
) -> None:
    host = proven(*legs, **says)
    assert host.kind == kind
    assert (host.setting == OFF) == (kind == "off_mends")
