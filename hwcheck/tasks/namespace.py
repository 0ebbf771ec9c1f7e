"""The commands as Invoke knows them."""

from invoke import Collection

from hwcheck.tasks.checks import checks
from hwcheck.tasks.explain import explain
from hwcheck.tasks.provision import provision
from hwcheck.tasks.report import report
from hwcheck.tasks.rollout import rollout
from hwcheck.tasks.state import state
from hwcheck.tasks.validate import validate

namespace = Collection(validate, report, checks, explain, state, provision, rollout)
