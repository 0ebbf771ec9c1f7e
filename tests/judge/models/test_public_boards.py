"""What public dumps of `nvidia-smi -q` say of boards, against the models.

They stand in ../shared/data beside a checkout, with ``INDEX.md``, and are no part of the project.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hwcheck.advise.catalogue import shipped

DUMPS = Path(__file__).parents[4] / "shared" / "data" / "nvidia_smi_q"
NAME = re.compile(r"(?:Product Name\s*: |<product_name>)([^\n<]+)")
LIMIT = re.compile(r"(?:Default Power Limit\s*: |<default_power_limit>)([\d.]+) W")

pytestmark = pytest.mark.skipif(not DUMPS.is_dir(), reason="no ../shared/data beside the checkout")


def test_no_board_boots_with_less_than_its_model() -> None:
    seen = set()
    for path in sorted(DUMPS.iterdir()):
        text = path.read_text("utf-8", "replace")
        name = NAME.search(text)
        model = shipped().models.of(name[1].strip()) if name else None
        figure = model.figures.get("power_w") if model else None
        if model is None or figure is None:
            continue
        limits = [float(limit) for limit in LIMIT.findall(text)]
        assert all(limit >= figure.value for limit in limits), (path.name, limits)
        seen |= {model.id for _ in limits}
    assert len(seen) >= 7
