"""Makes the tasks of hwcheck available to `fab`."""

from hwcheck.tasks.command_line import commands

namespace = commands()
