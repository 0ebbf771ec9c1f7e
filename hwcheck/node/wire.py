"""Where sites' checks of former versions have it from."""

from hwcheck.contract.wire import *  # noqa: F403
