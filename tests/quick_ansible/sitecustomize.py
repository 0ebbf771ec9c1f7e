"""Is imported by Python at its start, for this folder is on ``PYTHONPATH``.

Also by the interpreters of nodes, of which 2.7 has no annotations, and old ones no sys.argv yet.
"""

import os
import sys

SERVER = os.environ.get("HWCHECK_TEST_ANSIBLE_SERVER")
HWCHECK = os.path.join(os.path.dirname(sys.executable), "hwcheck")
if SERVER and getattr(sys, "argv", [])[:1] == [HWCHECK]:
    import quick_hwcheck

    quick_hwcheck.main(SERVER)
