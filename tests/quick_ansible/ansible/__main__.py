"""``python -m ansible``."""

from ansible import run

run("ansible")
