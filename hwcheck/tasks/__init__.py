"""One file per command: arguments, wiring, exit code; no logic."""

from invoke import Collection

from hwcheck.tasks.checks import checks
from hwcheck.tasks.report import report
from hwcheck.tasks.validate import validate

namespace = Collection(validate, report, checks)
