"""Makes the tasks of hwcheck available to `fab`."""

from hwcheck.tasks import namespace

__all__ = ["namespace"]
