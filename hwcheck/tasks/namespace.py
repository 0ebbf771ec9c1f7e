"""The commands as Invoke knows them."""

from invoke import Collection

from hwcheck.tasks.checks import checks
from hwcheck.tasks.report import report
from hwcheck.tasks.validate import validate

namespace = Collection(validate, report, checks)
