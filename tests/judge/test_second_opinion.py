"""NCCL's RAS against what the checks read of the same counters and states."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.checks.nccl_diagnostics import nccl_diagnostics
from hwcheck.judge.judge import judge
from hwcheck.judge.second_opinion import CONTRADICTS
from tests.advise.nodes import run_of

LINKS = "inactive link(s) on rank(s) {1}"


def disputed(ras: dict[str, str], links: int | None = 0, errors: int = 0) -> dict[str, str]:
    samples: dict[str, Any] = {
        nccl_diagnostics.id: ras,
        "ecc_errors": {"ecc_uncorrected_volatile": {"gpu0": 0, "gpu1": errors}},
    }
    if links is not None:
        samples["nvlink_state"] = {"nvlink_links_inactive": {"gpu0": 0, "gpu1": links}}
    findings = judge(run_of(("n1", {"samples": samples})), shipped()).findings
    return {f.subject: str(f.value) for f in findings if f.metric == CONTRADICTS}


@pytest.mark.parametrize(
    ("ras", "links", "errors"),
    [
        ({"ras_ecc": "ok", "ras_nvlink": "ok"}, 0, 0),
        ({"ras_ecc": "ok", "ras_nvlink": LINKS}, 2, 0),
        ({"ras_ecc": "uncorrected volatile errors on rank(s) {1}"}, 0, 3),
        ({"ras_nvlink": LINKS}, None, 0),
        ({}, 2, 3),
    ],
)
def test_who_agrees_or_does_not_say_contradicts_nobody(
    ras: dict[str, str], links: int | None, errors: int
) -> None:
    assert disputed(ras, links, errors) == {}


def test_an_error_after_the_check_is_no_contradiction() -> None:
    assert disputed({"ras_ecc": "uncorrected volatile errors on rank(s) {1}"}, errors=0) == {}


def test_contradictions_are_named() -> None:
    assert disputed({"ras_ecc": "ok"}, errors=3) == {
        "ECC": "NCCL: no uncorrected errors; ecc_errors: 3"
    }
    assert disputed({"ras_nvlink": "ok"}, links=2) == {
        "NVLink": "NCCL: all links active; nvlink_state: 2 inactive"
    }
    assert disputed({"ras_nvlink": LINKS}, links=0) == {
        "NVLink": f"NCCL: {LINKS}; nvlink_state: 0 inactive"
    }
