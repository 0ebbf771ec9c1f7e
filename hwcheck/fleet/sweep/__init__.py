"""Sweeps: which hosts are measured tonight, how many at once, and who comes first next time."""
