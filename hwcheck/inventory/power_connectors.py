"""What the slot and the power connectors of a board may supply."""

from __future__ import annotations

from collections.abc import Iterator

SLOT_W = 75.0
CONNECTORS_W: dict[str, float] = {
    "6-pin": 75.0,
    "8-pin": 150.0,
    "12-pin": 600.0,
    "16-pin": 600.0,
    "12vhpwr": 600.0,
    "12v-2x6": 600.0,
}
"""What each may supply, in W; the sources are with the limit of the check ``power_budget``."""


def supply_w(connectors: str) -> float:
    """Return what the slot and the declared connectors of one board supply together, in W.

    ``connectors`` are names or figures in W with commas between (``8-pin, 8-pin``, ``450 W``), or
    ``none``. Raises ValueError that names the word that is neither.
    """
    return SLOT_W + sum(_each_w(connectors))


def _each_w(connectors: str) -> Iterator[float]:
    if connectors.strip().lower() == "none":
        return
    for word in connectors.split(","):
        name = word.strip().lower()
        figure = name[:-1].strip() if name.endswith("w") else ""
        if name in CONNECTORS_W:
            yield CONNECTORS_W[name]
        elif figure.isdigit() and figure.isascii() and 0 < int(figure) <= 1000:
            yield float(figure)
        else:
            known = ", ".join(CONNECTORS_W)
            raise ValueError(f"{word.strip()!r} is not none, {known} or a figure such as 450 W")
