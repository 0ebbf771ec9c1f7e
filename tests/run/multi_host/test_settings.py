from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.report.multi_host import multi_host_view
from hwcheck.results.options import MultiHostOptions
from hwcheck.run.multi_host.orders import Ready
from hwcheck.run.multi_host.settings import in_force, leg_of
from tests.run.multi_host.answering import well
from tests.run.multi_host.test_second_look import session

PLAIN = Ready("10.0.0.1", 5, "eth0", 8)
HCA = ("NCCL_IB_HCA", "mlx5_0", "/etc/profile.d/nccl.sh")
GID = ("NCCL_IB_GID_INDEX", "3", "/etc/nccl.conf")
SET = replace(PLAIN, settings=(HCA, GID))


@pytest.mark.parametrize(
    ("asked", "ready", "leg"),
    [
        ("", PLAIN, "default"),
        ("", SET, "site"),
        ("default", SET, "default"),
        ("site", PLAIN, "site"),
    ],
)
def test_settings_that_a_host_has_are_kept_unless_told(asked: str, ready: Ready, leg: str) -> None:
    assert leg_of(MultiHostOptions(leg=asked), {"a": PLAIN, "b": ready}) == leg


def test_what_was_in_force() -> None:
    assert in_force("site", {"a": PLAIN, "b": SET}) == {
        "b": "NCCL_IB_HCA=mlx5_0 (/etc/profile.d/nccl.sh), NCCL_IB_GID_INDEX=3 (/etc/nccl.conf)"
    }
    assert in_force("default", {"b": SET}) == {"b": "NCCL_IB_GID_INDEX=3 (/etc/nccl.conf)"}


@pytest.mark.parametrize(
    ("asked", "leg"), [(None, "site"), (MultiHostOptions(leg="default"), "default")]
)
def test_every_order_has_the_leg_and_the_report_says_which(
    tmp_path: Path, asked: MultiHostOptions | None, leg: str
) -> None:
    def say(host: str, order: Any, group: tuple[str, ...]) -> dict[str, Any]:
        assert order["leg"] == leg
        return well(order)

    record, _ = session(tmp_path, say, "all", ready={"a": SET, "b": SET}, asked=asked)
    assert record.leg == leg
    remarks = "\n".join(multi_host_view(record).remarks)
    assert f"Leg {leg}: " in remarks
    assert ("a,b: NCCL_IB_HCA=mlx5_0" in remarks) == (leg == "site")
    assert "NCCL_IB_GID_INDEX=3 (/etc/nccl.conf)" in remarks, "NCCL reads it in either"
