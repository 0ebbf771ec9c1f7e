"""``ansible-playbook``, a script that calls this."""

from ansible import main

__all__ = ["main"]
