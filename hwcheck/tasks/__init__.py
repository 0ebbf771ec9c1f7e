"""Where fabfiles of former versions have our tasks from; they stand in ``hwcheck.cli`` now."""

import sys
from importlib import import_module

from hwcheck.cli.root import COMMANDS

for name in ("command_line", *COMMANDS):
    sys.modules[f"{__name__}.{name}"] = import_module(f"hwcheck.cli.{name}")
