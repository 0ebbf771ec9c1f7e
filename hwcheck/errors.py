"""Errors that an operator can mend."""

from __future__ import annotations


class UsageError(Exception):
    """One line: what is wrong, where, what to do. The command ends with exit code 2."""
