"""The fixtures of the collectives, for what has them run."""

from tests.node.collective.conftest import mark as mark
from tests.node.collective.conftest import marked as marked
from tests.node.collective.conftest import payload as payload
from tests.node.collective.conftest import run_faulty as run_faulty
from tests.node.collective.conftest import small as small
