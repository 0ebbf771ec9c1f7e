"""``--require-coverage``: how much of what applies has to be measured."""

from __future__ import annotations

from hwcheck.errors import UsageError

FLAG = "--require-coverage"
COVERAGE_HELP = {
    "require-coverage": "percent of the applicable checks that each host must have measured "
    "(without a value 100); with less the exit code is 3, or 1 where something failed",
}


def percent(given: str | bool | None) -> float | None:
    """Return the percentage; None where the flag is not given. Raises UsageError.

    Invoke gives True for a flag without its value.
    """
    if given is None:
        return None
    if given is True:
        return 100.0
    try:
        value = float(str(given).removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 < value <= 100:
        raise UsageError(f"{FLAG} {given}: it takes a percentage above 0 and up to 100")
    return value
