"""What NVLinks that are down explain: as much bandwidth as they carried, and no more."""

from __future__ import annotations

import pytest

from tests.advise.nodes import diagnosed


def explained(gbps: float, *, up: int = 17, transport: dict[str, object]) -> tuple[bool, str]:
    """Return whether a GPU's links explain an all_reduce of that speed, and what was observed."""
    active = {f"gpu{gpu}": 18 for gpu in range(8)} | {"gpu0": up}
    leg = {"leg": "default", "gbps": gbps, "transport": transport}
    samples = {
        "nvlink_state": {
            "nvlink_links_active": active,
            "nvlink_links_of_peers": dict.fromkeys(active, 18),
        }
    }
    case = {"path": "NV18", "gpus": 8, "legs": [leg], "samples": samples}
    causes = diagnosed(("n1", case))
    (down,) = (each for each in causes.diagnoses if each.cause == "nvlink_down")
    return "all_reduce" in down.explains, " ".join(down.observed)


@pytest.mark.parametrize(
    ("up", "gbps", "holds"), [(17, 240, False), (17, 385, True), (9, 240, True), (0, 41, True)]
)
def test_links_explain_what_they_carried(up: int, gbps: float, holds: bool) -> None:
    assert explained(gbps, up=up, transport={"P2P/CUMEM": 16, "nvls": True})[0] is holds


def test_a_way_around_the_links_explains_more_and_is_told() -> None:
    holds, observed = explained(41, transport={"SHM": 2, "P2P/CUMEM": 14})
    assert holds
    assert "leg default: NCCL went over SHM" in observed
