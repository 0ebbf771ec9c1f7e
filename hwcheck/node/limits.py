"""Where sites' checks of former versions have it from."""

from hwcheck.contract.limits import *  # noqa: F403
