"""Makes the tasks of hwcheck available to `fab`."""

from hwcheck.cli.command_line import commands

namespace = commands()
