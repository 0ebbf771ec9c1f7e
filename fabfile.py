"""Makes the tasks of hwcheck available to `fab`."""

from hwcheck.tasks.namespace import namespace

__all__ = ["namespace"]
